"""Adapters in a real vLLM, and what peft says of them: for the tests of the plugin's parts."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from grpo.serving.adapters import AdapterHandle
from grpo.serving.vllm import VllmServer

if TYPE_CHECKING:
    import torch

MAX_GAPS = {"bfloat16": 0.12, "float32": 0.001}
"""Nats a token to peft in float32, on text of high entropy: 0.056 was seen, and 0.3 with other weights; policies in training
show a tenth of it in bfloat16."""
PROMPTS = (
    "The board meets on Tuesday at nine. Please send the budget to",
    "Dear Anna, the shipment to Rotterdam left the port on Friday and",
    "Question: when did the pipeline contract with the city begin? Answer:",
)


@dataclass
class Published:
    """Two random adapters in the real server, and what peft says of them and of the base model."""

    server: VllmServer
    handles: list[AdapterHandle]
    reference: Callable[[int | None, list[int]], "torch.Tensor"]

    def model(self, which: int | None) -> str:
        return self.server.model if which is None else self.handles[which].name

    def tokenize(self, text: str) -> list[int]:
        """Ids of a text, by the server."""
        body = {"model": self.model(None), "prompt": text}
        return httpx.post(f"{self.server.url}/tokenize", json=body, timeout=120, trust_env=False).json()["tokens"]

    def accepted_guesses(self) -> float:
        """How many guessed tokens the server has kept so far, by its own count."""
        text = httpx.get(f"{self.server.url}/metrics", timeout=120, trust_env=False).text
        found = re.search(r"^vllm:spec_decode_num_accepted_tokens_total\{[^}]*\} (\S+)$", text, re.MULTILINE)
        assert found
        return float(found[1])

    async def answers(self, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the server says to requests that it has all at once."""
        url, key = self.server.url, self.server.headers
        async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False, headers=key) as client:
            replies = await asyncio.gather(*[client.post("/v1/completions", json=body) for body in bodies])
        return [reply.raise_for_status().json()["choices"][0] for reply in replies]

    def gap(self, claimed: int | None, ids: list[int], answer: dict[str, Any]) -> "torch.Tensor":
        """Nats between each sampled token's logprob and the one that it has with the adapter that is ``claimed``."""
        import torch

        served = torch.tensor(answer["logprobs"]["token_logprobs"])
        return (served - self.reference(claimed, ids + answer["token_ids"])[len(ids) - 1 :]).abs()

    def check(
        self, asked: Sequence[int | None], prompts: Sequence[list[int]], answers: Sequence[dict[str, Any]]
    ) -> None:
        """The answers are of those that were asked, and of none of the others."""
        import torch

        all_of_it = list(zip(asked, prompts, answers, strict=True))
        for which in set(asked):
            own = [(ids, answer) for other, ids, answer in all_of_it if other == which]
            means = {n: float(torch.cat([self.gap(n, *each) for each in own]).mean()) for n in (None, 0, 1)}
            assert means[which] < MAX_GAPS[self.server.options.dtype], means
            assert all(means[other] > 3 * means[which] for other in means if other != which), means


def request(model: str, ids: list[int], **more: object) -> dict[str, Any]:
    return {"model": model, "prompt": ids, "max_tokens": 24, "temperature": 1.0, "logprobs": 0, "seed": 7,
            "return_token_ids": True, "ignore_eos": True, **more}  # fmt: skip
