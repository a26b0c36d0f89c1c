"""Policies: token ids in, sampled ids and their log-probabilities out.

``CompletionsPolicy`` talks to vLLM's ``/v1/completions`` with a list of ids as the prompt, so nothing is rendered or
tokenised on the way. It knows nothing of episodes, chat formats or adapters beyond the model name it asks for.

A reply that is no whole turn (broken off by ``abort``, a proxy's page, a log-probability that is no number) is asked
again, and at last an error. Nothing of it is kept.
"""

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, Self

from grpo.errors import ServerError
from grpo.serving.connection import Connection
from grpo.serving.fleet import GroupServer
from grpo.types import SampledTurn

PAUSES_SECONDS = (0.5, 1.0)
"""Waits before the second and the third try of a request whose reply is no whole turn."""
TURN_ENDS = ("stop", "length")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample one turn. ``temperature`` 0 is greedy; ``max_turn_tokens`` bounds one assistant turn."""

    temperature: float = 1.0
    max_turn_tokens: int = 256


class Policy(Protocol):
    """What a rollout needs of a policy."""

    version: int

    async def sample(self, prompt_ids: list[int], params: SamplingParams, *, max_tokens: int, seed: int) -> SampledTurn:
        """Sample one turn after ``prompt_ids``, at most ``max_tokens`` tokens."""
        ...

    def session(self, group: Hashable) -> AbstractContextManager[Self]:
        """What an episode of ``group`` asks for its turns; all of a group ask where its prompt is cached."""
        return nullcontext(self)


class CompletionsPolicy(Policy):
    """One named model (base or adapter) behind the OpenAI-compatible completions endpoints of vLLM servers."""

    def __init__(
        self,
        connection: Connection,
        model: str,
        stop_token_ids: list[int],
        version: int = 0,
        server: GroupServer | None = None,
    ):
        self.connection = connection
        self.model = model
        self.stop_token_ids = stop_token_ids
        self.version = version
        self._server = server

    @contextmanager
    def session(self, group: Hashable) -> Iterator[Self]:
        """See `Policy`."""
        with self.connection.server_of(group) as server:
            yield type(self)(self.connection, self.model, self.stop_token_ids, self.version, server)

    async def sample(self, prompt_ids: list[int], params: SamplingParams, *, max_tokens: int, seed: int) -> SampledTurn:
        """Sample one turn.

        Raises:
            ServerError: The server refused the request, did not answer or gave no whole turn after retries, or is not
                the right one.
        """
        request: dict[str, Any] = {
            "model": self.model,
            "prompt": prompt_ids,
            "max_tokens": max_tokens,
            "temperature": params.temperature,
            "top_p": 1.0,
            "top_k": -1,
            "seed": seed,
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": self.stop_token_ids,
            "skip_special_tokens": False,
        }
        pauses = iter(PAUSES_SECONDS)
        while True:
            answer = await self.connection.post("/v1/completions", request, self._server)
            try:
                return _completed(answer, prompt_ids)
            except ServerError:
                if (pause := next(pauses, None)) is None:
                    raise
            await asyncio.sleep(pause)


def whole_turn(server: str, ids: Any, logprobs: Any, finish_reason: Any) -> SampledTurn:
    """A turn, of what ``server`` has sent for its parts.

    Raises:
        ServerError: It did not end as a turn does, has no ids, or other than one log-probability for each.
    """
    if finish_reason not in TURN_ENDS:
        fault = f"ended a turn by {finish_reason!r}, which is neither {' nor '.join(TURN_ENDS)}"
    elif not isinstance(ids, list) or not ids or not all(type(token) is int and 0 <= token < 2**31 for token in ids):
        fault = f"gave no token ids for a turn, but {str(ids)[:300]}"
    elif not isinstance(logprobs, list) or len(logprobs) != len(ids):
        fault = f"gave {len(ids)} ids for a turn and other than as many logprobs: {str(logprobs)[:300]}"
    elif strange := [v for v in logprobs if not (isinstance(v, float | int) and -1e9 < v < 0.01)]:  # 0 but for rounding
        fault = f"gave {strange[0]!r} for {len(strange)} of the {len(ids)} logprobs of a turn"
    else:
        return SampledTurn(ids, [float(value) for value in logprobs], finish_reason)
    raise ServerError(f"{server} {fault}")


def _completed(answer: Any, prompt_ids: list[int]) -> SampledTurn:
    """The turn in vLLM's answer about a prompt."""
    try:
        choice = answer["choices"][0]
        seen, ids, logprobs = choice["prompt_token_ids"], choice["token_ids"], choice["logprobs"]["token_logprobs"]
        turn = whole_turn("the server", ids, logprobs, choice["finish_reason"])
    except (LookupError, TypeError) as error:
        raise ServerError(
            f"the server's answer is no completion of a vLLM with return_token_ids: {str(answer)[:300]!r}"
        ) from error
    if seen != prompt_ids:
        raise ServerError(
            f"the server sampled after other ids than the {len(prompt_ids)} it was given; does a proxy or an option of "
            "it change prompts?"
        )
    return turn
