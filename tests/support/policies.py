"""Chat formats, policies and rewards for the tests, without a model."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from grpo.chat import Chat
from grpo.chat.turns import hermes_turn
from grpo.serving.policy import Policy, SamplingParams
from grpo.types import Group, SampledTurn


def by_place(group: Group) -> list[float]:
    """A reward that spreads in every group, whatever was sampled: 0, 1, 2, ..."""
    return [float(trajectory.sample_index) for trajectory in group.episodes]


class ByteChat(Chat):
    """A chat format over bytes: every id is one byte plus two specials, so tests can be read by eye."""

    END, START = 256, 257

    def __init__(self) -> None:
        self.stop_token_ids = [self.END]

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def turn_text(self, message: dict[str, Any], tools: list[dict[str, Any]]) -> str:
        return hermes_turn(message)

    def prompt_ids(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
        return [i for m in messages for i in (self.START, *self.encode(m["content"]), self.END)] + [self.START]

    def delta_ids(self, history: Any, new: list[dict[str, Any]], tools: Any) -> list[int]:
        return self.prompt_ids(new, [])

    def rewritten_ids(self, history: Any, new: Any, tools: Any) -> None:
        return None

    def decode(self, sampled_ids: list[int]) -> str:
        return bytes(i for i in sampled_ids if i < 256).decode(errors="replace")


class Says(Policy):
    """Says what a function makes of the prompt's text and of the seed; a turn that is too long is cut."""

    version = 0

    def __init__(self, say: Callable[[str, int], str]):
        self.say = say

    async def sample(self, prompt_ids: list[int], params: SamplingParams, *, max_tokens: int, seed: int) -> SampledTurn:
        chat = ByteChat()
        ids = [*chat.encode(self.say(chat.decode(prompt_ids), seed)), chat.END][:max_tokens]
        return SampledTurn(ids, [-0.5] * len(ids), "stop" if ids[-1] == chat.END else "length")


def always(policy: Policy) -> Any:
    """Gives out this policy as every version."""
    return lambda _version: nullcontext(policy)


class ScriptedPolicy(Policy):
    """Says the given turns in order, whatever it is asked; records the prompts it saw."""

    version = 3

    def __init__(self, chat: Any, turns: list[str], *, ended: bool = True):
        self.chat = chat
        self.turns = turns
        self.ended = ended
        self.prompts: list[list[int]] = []
        self._said: dict[int, int] = {}

    async def sample(self, prompt_ids: list[int], params: SamplingParams, *, max_tokens: int, seed: int) -> SampledTurn:
        self.prompts.append(list(prompt_ids))
        turn = sum(1 for p in self.prompts[:-1] if prompt_ids[: len(p)] == p)
        end = [self.chat.stop_token_ids[0]] if self.ended else []
        whole = [*self.chat.encode(self.turns[turn % len(self.turns)]), *end]
        ids = whole[:max_tokens]
        return SampledTurn(ids, [-0.5] * len(ids), "stop" if self.ended and ids == whole else "length")
