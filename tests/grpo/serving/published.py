"""Adapters in a real vLLM, and what peft says of them: for the tests of the plugin's parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    reference: Callable[[int | None, list[int]], torch.Tensor]

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


def request(model: str, ids: list[int], **more: object) -> dict[str, object]:
    return {"model": model, "prompt": ids, "max_tokens": 24, "temperature": 1.0, "logprobs": 0, "seed": 7,
            "return_token_ids": True, "ignore_eos": True, **more}  # fmt: skip
