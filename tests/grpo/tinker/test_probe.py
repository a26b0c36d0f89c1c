"""What the probe makes of servers of other kinds than the one that can be run here.

A model of one table of logits stands for the server's, with true gradients; the server that is real is asked in
``tests/grpo/tinker/test_train.py``.
"""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
pytest.importorskip("tinker", reason="the client of a Tinker server is in the extra 'tinker' (scripts/test_tinker)")

from grpo.errors import ConfigError, ServerError, ServerStartError  # noqa: E402
from grpo.tinker.connection import connect  # noqa: E402
from grpo.tinker.probe import probe  # noqa: E402

pytestmark = pytest.mark.torch
SERVICE = SimpleNamespace(url="http://server", errors=lambda _doing: nullcontext())


class Table:
    """A training client whose model has one logit an id, whatever comes before."""

    def __init__(self, tokens="mean", rows="mean", *, heeds_adam=True, tells_norm=True, direction=1.0):
        self.logits = torch.zeros(16, requires_grad=True)
        self.tokens, self.rows = tokens, rows
        self.heeds_adam, self.tells_norm, self.direction = heeds_adam, tells_norm, direction
        self.gradient, self.count = torch.zeros(16), 0

    def forward(self, data, _loss):
        return self._answer([{"logprobs": SimpleNamespace(data=self._logprobs(datum).tolist())} for datum in data])

    def forward_backward(self, data, loss):
        assert loss == "importance_sampling"
        for datum in data:
            given = {name: torch.tensor(values.data) for name, values in datum.loss_fn_inputs.items()}
            ratio = torch.exp(self._logprobs(datum) - given["logprobs"])
            total = -(ratio * given["advantages"] * given["weights"]).sum()
            divisor = {"sum": 1.0, "mean": given["weights"].sum(), "root": given["weights"].sum().sqrt()}[self.tokens]
            self.gradient += torch.autograd.grad(total / divisor, self.logits)[0]
            self.count += 1
        return self._answer([])

    def optim_step(self, adam):
        gradient = self.gradient / (self.count if self.rows == "mean" else 1)
        eps = adam.eps if self.heeds_adam else 1e-8
        with torch.no_grad():
            self.logits -= self.direction * adam.learning_rate * gradient / (gradient.abs() + eps)
        self.gradient, self.count = torch.zeros(16), 0
        norm = {"backend/grad_norm": float(gradient.norm())} if self.tells_norm else {"loss": 1.0}
        return SimpleNamespace(result=lambda: SimpleNamespace(metrics=norm))

    def _logprobs(self, datum):
        targets = torch.tensor(datum.loss_fn_inputs["target_tokens"].data).long()
        return torch.log_softmax(self.logits, -1)[targets]

    def _answer(self, outputs):
        return SimpleNamespace(result=lambda: SimpleNamespace(loss_fn_outputs=outputs))


def test_a_server_that_takes_means_is_taken():
    probe(SERVICE, Table())


SUM = "of two rows, each with the gradient of one, it is {} times as large"
NO_ADAM = "ignores Adam's settings: a step with eps = 1e6 moved a log-probability"


@pytest.mark.parametrize(
    ("table", "error", "why"),
    [
        ({"tokens": "sum"}, ConfigError, SUM.format("3.000")),
        ({"rows": "sum"}, ConfigError, SUM.format("4.000")),
        ({"tokens": "root"}, ConfigError, SUM.format("2.414")),
        ({"heeds_adam": False}, ConfigError, NO_ADAM),
        ({"direction": -1.0}, ServerError, "went the wrong way"),
        ({"tells_norm": False}, ServerError, r"tells no gradient norm of a step \(its metrics: \['loss'\]\)"),
    ],
)
def test_a_server_that_computes_otherwise_is_refused(table, error, why):
    with pytest.raises(error, match=why):
        probe(SERVICE, Table(**table))


def test_a_url_without_a_server_is_said_at_once():
    with pytest.raises(ServerStartError, match=r"no Tinker server answers at http://127.0.0.1:9 \(ConnectError: "):
        connect("http://127.0.0.1:9", "model")
