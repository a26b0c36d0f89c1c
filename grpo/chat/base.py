"""What the rollout needs of a chat format, and what all formats share: encoding, closing and decoding a turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from grpo.chat.turns import hermes_turn
from grpo.types import Message

History = Literal["fork", "append"]
"""What happens where a template rewrites earlier turns: a new segment begins, or the turns stay as they were."""

CALL_MARK = "<|python_tag|>"
"""Llama 3 may begin a call with it; it is no part of the call's text."""

_OTHER_ENDS = ("<|eom_id|>", "<|endoftext|>", "<|end_of_text|>")
"""Tokens with which a model may also end a turn; Llama 3 ends one that waits for a tool with ``<|eom_id|>``."""


class Chat(Protocol):
    """What the rollout needs of a chat format.

    ``stop_token_ids`` end a turn; the first of them is the one that the format itself writes there.
    """

    stop_token_ids: list[int]

    def prompt_ids(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """Ids of the first prompt, up to where the assistant's turn begins."""
        ...

    def delta_ids(self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """Ids that follow the ended assistant turn at the end of ``history``, up to where the next one begins."""
        ...

    def rewritten_ids(
        self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]
    ) -> list[int] | None:
        """The whole next prompt where it no longer begins with the last one and its turn; None where it does."""
        ...

    def close_ids(self, ids: list[int]) -> list[int]:
        """What ends a turn that stopped for its length, at the end of ``ids``; empty for a turn that ended itself."""
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
    """The prompt of the turn after the one that ends ``history`` and ``seen_ids``, and whether it is a rewritten one.

    If not, it goes on where ``seen_ids`` end.
    """
    rewritten = chat.rewritten_ids(history, new, tools)
    if rewritten is not None:
        return rewritten, True
    return seen_ids + chat.close_ids(seen_ids) + chat.delta_ids(history, new, tools), False


class BaseChat:
    """Encoding, closing and decoding a turn with a transformers tokenizer."""

    def __init__(self, tokenizer: Any, end: str):
        """Take ``end`` for the token that ends an assistant turn."""
        self.tokenizer = tokenizer
        self.end = end
        names = dict.fromkeys((end, *_OTHER_ENDS, tokenizer.eos_token or end))
        ids = [tokenizer.convert_tokens_to_ids(name) for name in names]
        self.stop_token_ids = [i for i in ids if i not in (None, tokenizer.unk_token_id)]
        self._call_mark = tokenizer.get_vocab().get(CALL_MARK)
        self._control = _control_pattern(tokenizer)

    def encode(self, text: str) -> list[int]:
        """Ids of a text as it stands, nothing added."""
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def turn_text(self, message: Message, tools: list[dict[str, Any]]) -> str:
        """The text of an assistant message, its ``tool_calls`` as Hermes 2 Pro has them."""
        return hermes_turn(message)

    def close_ids(self, ids: list[int]) -> list[int]:
        """The format's own end of a turn, unless it stands there."""
        return [] if ids[-1:] == self.stop_token_ids[:1] else self.stop_token_ids[:1]

    def decode(self, sampled_ids: list[int]) -> str:
        """The text of a sampled turn as an env reads it: without what ends it, and without Llama's mark of a call."""
        ids = sampled_ids[:-1] if sampled_ids and sampled_ids[-1] in self.stop_token_ids else sampled_ids
        if ids and ids[0] == self._call_mark:
            ids = ids[1:]
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _following(self, text: str) -> list[int]:
        """Ids of a text that stands behind the end of a turn; tokenised behind it, which may decide about blanks."""
        return self.encode(self.end + text)[1:]

    def _harmless(self, messages: Sequence[Message]) -> list[Message]:
        """The messages, with a blank in every control token that their text spells: mail must not end a turn."""
        return [
            {**message, "content": self._control.sub(lambda found: f"{found[0][0]} {found[0][1:]}", message["content"])}
            if isinstance(message.get("content"), str)
            else message
            for message in messages
        ]


def control_tokens(tokenizer: Any) -> list[str]:
    """The spelling of every special token of a tokenizer, the longest first."""
    special = {str(token) for token in tokenizer.all_special_tokens}
    special |= {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    return sorted(special, key=lambda token: (-len(token), token))


def _control_pattern(tokenizer: Any) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, control_tokens(tokenizer))) or r"(?!)")
