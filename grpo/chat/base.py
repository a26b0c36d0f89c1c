"""What the rollout needs of a chat format."""

from __future__ import annotations

import re
from typing import Any, Literal, Protocol

from grpo.types import Message
from judges.common.tool_calls import parse_turn

_CALL_IN_TAGS = re.compile(r"<tool_call>.*?</tool_call>", re.DOTALL)

History = Literal["fork", "append"]
"""What happens where a template rewrites earlier turns: a new segment begins, or the turns stay as they were."""


class Chat(Protocol):
    """What the rollout needs of a chat format.

    Attributes:
        stop_token_ids: Tokens that end a turn; the format itself writes the first of them.
    """

    stop_token_ids: list[int]

    def prompt_ids(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """Ids of the first prompt, up to where the assistant's turn begins."""
        ...

    def delta_ids(self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """Ids from the end of the last turn of ``history``, an assistant's, to where the next assistant turn begins."""
        ...

    def rewritten_ids(
        self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]
    ) -> list[int] | None:
        """The whole next prompt, where it does not begin with the last prompt and its turn; None where it does."""
        ...

    def close_ids(self, ids: list[int]) -> list[int]:
        """Ids that end a turn that was cut for its length; none where ``ids`` show that the turn ended itself."""
        ...

    def decode(self, sampled_ids: list[int]) -> str:
        """The text of a sampled turn, without its end-of-turn token."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a text as it stands, nothing added."""
        ...

    def turn_text(self, message: Message, tools: list[dict[str, Any]]) -> str:
        """The text of an assistant message as the model would sample it: its ``tool_calls`` in the model's own form."""
        ...


def next_prompt(
    chat: Chat, seen_ids: list[int], history: list[Message], new: list[Message], tools: list[dict[str, Any]]
) -> tuple[list[int], bool]:
    """The prompt of the next turn, and whether it rewrites what the policy saw before.

    Args:
        chat: The chat format.
        seen_ids: The last prompt, and the turn that was sampled from it.
        history: The messages up to that turn.
        new: The messages that the env has added.
        tools: OpenAI function schemas.

    Returns:
        The ids; they begin with ``seen_ids`` where nothing is rewritten.
    """
    rewritten = chat.rewritten_ids(history, new, tools)
    if rewritten is not None:
        return rewritten, True
    return seen_ids + chat.close_ids(seen_ids) + chat.delta_ids(history, new, tools), False


def own_form(chat: Chat, text: str, tools: list[dict[str, Any]]) -> str:
    """A turn of nothing but ``<tool_call>`` tags, rewritten as the model writes calls; any other turn as it is."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in parse_turn(text).calls]
    if not calls or _CALL_IN_TAGS.sub("", text).strip():
        return text
    own = chat.turn_text({"role": "assistant", "tool_calls": calls}, tools)
    return text if own.startswith("<tool_call>") else own
