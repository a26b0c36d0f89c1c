"""Whether a Tinker server trains what it is told, found by asking it: an adapter is trained for that and thrown away.

The API says neither how losses are added up nor which settings a server ignores. A server that does something else than
is sent to it (`rows`) is refused before anything is trained.
"""

from collections.abc import Sequence
from typing import Any

from grpo.errors import ConfigError, ServerError
from grpo.learner.segments import Segment
from grpo.tinker.connection import TinkerService, package
from grpo.tinker.rows import LOSS, WeighedRow, action_logprobs, data_of, datum

BETAS = (0.9, 0.95)
EPS = 1e-8
"""Of Adam, as in the local engine."""

_TOLERANCE = 0.04
_IDS = [3, 4, 5, 6, 7, 8, 9, 8]
_ONE = Segment(_IDS[:-1], [False] * 6 + [True], [0.0] * 7, 0.0)
_TWO = Segment(_IDS, [False] * 6 + [True, True], [0.0] * 8, 0.0)


def adam(learning_rate: float, eps: float = EPS) -> Any:
    """The optimizer's settings of a step."""
    types = package("types")
    return types.AdamParams(learning_rate=learning_rate, beta1=BETAS[0], beta2=BETAS[1], eps=eps, weight_decay=0.0)


def gradient_norm(response: Any) -> float:
    """What the server says of the gradient that a step was taken with.

    Raises:
        ServerError: It says nothing.
    """
    for name, value in (response.metrics or {}).items():
        if name.rpartition("/")[2] == "grad_norm":
            return float(value)
    raise ServerError(
        f"the Tinker server tells no gradient norm of a step (its metrics: {sorted(response.metrics or {})}), by which "
        "it is probed; SkyRL 0.4.0's jax backend does"
    )


def probe(service: TinkerService, training: Any) -> None:
    """Check that a server heeds what it is told.

    Args:
        service: The server.
        training: A training client with a new adapter, which is spoiled.

    Raises:
        ConfigError: The server would train something else than it is told.
        ServerError: The server does not do what it is asked.
    """
    with service.errors("be probed"):
        (logprobs,) = _logprobs(training, [_TWO])
        one, two = WeighedRow(_ONE, logprobs[:1], [-1.0]), WeighedRow(_TWO, logprobs, [-1.0, 0.0])
        alone, both = _norm(training, [one]), _norm(training, [one, two])
        if not alone > 0:
            raise ServerError(f"the Tinker server at {service.url} has no gradient (norm {alone}) where there is one")
        if abs(both / alone - 2.0) > _TOLERANCE:
            raise ConfigError(
                f"the Tinker server at {service.url} does not take the mean over a row's tokens and then over rows: of "
                f"two rows, each with the gradient of one, it is {both / alone:.3f} times as large, and not twice"
            )
        _check_steps(service, training, one)


def _check_steps(service: TinkerService, training: Any, one: WeighedRow) -> None:
    """A step that Adam's eps makes tiny moves nothing, and another one raises what it shall raise."""
    seen = [_logprobs(training, [_ONE])[0][0]]
    for eps in (1e6, EPS):
        training.forward_backward(data_of([one]), LOSS).result()
        training.optim_step(adam(0.01, eps)).result()
        seen.append(_logprobs(training, [_ONE])[0][0])
    start, still, moved = seen
    if abs(still - start) > 0.1 * abs(moved - still):
        raise ConfigError(
            f"the Tinker server at {service.url} ignores Adam's settings: a step with eps = 1e6 moved a "
            f"log-probability by {still - start:.4f}, one with {EPS:g} by {moved - still:.4f}. A run would not train "
            "as its settings say"
        )
    if moved <= still:
        raise ServerError(
            f"a step on the Tinker server at {service.url} went the wrong way: the log-probability of a token that "
            f"was to be raised went from {still:.4f} to {moved:.4f}"
        )


def _logprobs(training: Any, rows: Sequence[Segment]) -> list[list[float]]:
    return action_logprobs(rows, training.forward([datum(row) for row in rows], "cross_entropy").result())


def _norm(training: Any, rows: Sequence[WeighedRow]) -> float:
    """Of the gradient of these rows; the weights stay."""
    training.forward_backward(data_of(rows), LOSS).result()
    return gradient_norm(training.optim_step(adam(0.0)).result())
