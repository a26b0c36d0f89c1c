"""Policies: token ids in, sampled ids and their log-probabilities out.

``CompletionsPolicy`` talks to vLLM's ``/v1/completions`` with a list of ids as the prompt, so nothing is rendered or
tokenised on the way. It knows nothing of episodes, chat formats or adapters beyond the model name it asks for.
"""

from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, Self

from grpo.errors import ServerError
from grpo.serving.connection import Connection
from grpo.serving.fleet import GroupServer
from grpo.types import SampledTurn


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
            ServerError: The server refused the request, did not answer after retries, or is not the right one.
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
        choice = (await self.connection.post("/v1/completions", request, self._server))["choices"][0]
        missing = [key for key in ("token_ids", "prompt_token_ids", "logprobs") if not choice.get(key)]
        if missing:
            raise ServerError(
                f"the server's answer lacks {', '.join(missing)}; it must be a vLLM with return_token_ids"
            )
        ids, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
        if len(ids) != len(logprobs):
            raise ServerError(f"the server returned {len(ids)} ids but {len(logprobs)} logprobs for one turn")
        if choice["prompt_token_ids"] != prompt_ids:
            raise ServerError(
                f"the server sampled after {len(choice['prompt_token_ids'])} ids that are not the {len(prompt_ids)} it "
                "was given; does a proxy or an option of it change prompts?"
            )
        return SampledTurn(ids=ids, logprobs=logprobs, finish_reason=choice["finish_reason"])
