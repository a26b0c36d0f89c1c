"""What the rollout needs of a chat format, and what all formats share: encoding, closing and decoding a turn.

A control token that an env's text spells is broken by a blank before the text is tokenised. Mail that holds
``<|im_end|>`` would otherwise end its own message and speak as the system. Other tokens that look like markup are
broken too: Qwen shows a tool's result in ``<tool_response>`` tags in a message of the user, and mail must not end it.
They stay in a system message, which is the env's own and may show how to write a call, and in turns of the policy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from grpo.chat.turns import hermes_turn
from grpo.types import Message
from judges.common.tool_calls import parse_turn

History = Literal["fork", "append"]
"""What happens where a template rewrites earlier turns: a new segment begins, or the turns stay as they were."""

CALL_MARK = "<|python_tag|>"
"""Llama 3 may begin a call with it; it is no part of the call's text."""

_OTHER_ENDS = ("<|eom_id|>", "<|endoftext|>", "<|end_of_text|>")
"""Tokens with which a model may also end a turn; Llama 3 ends one that waits for a tool with ``<|eom_id|>``."""

_MARKUP = re.compile(r"<.+>|\[.+\]", re.DOTALL)
_OWN = {"<tool_call>", "</tool_call>", "<think>", "</think>"}
"""What a policy writes in its own turns: it ends no message, and an env's hint may show it."""


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


class BaseChat:
    """Encoding, closing and decoding a turn with a transformers tokenizer."""

    def __init__(self, tokenizer: Any, end: str):
        """Take ``end`` for the token that ends an assistant turn."""
        self.tokenizer = tokenizer
        self.end = end
        names = dict.fromkeys((end, *_OTHER_ENDS, tokenizer.eos_token or end))
        vocabulary = tokenizer.get_vocab()
        self.stop_token_ids = [vocabulary[name] for name in names if name in vocabulary]
        self._call_mark = vocabulary.get(CALL_MARK)
        self._control = _pattern(control_tokens(tokenizer))
        self._control_or_markup = _pattern(control_tokens(tokenizer) + markup_tokens(tokenizer))

    def encode(self, text: str) -> list[int]:
        """Ids of a text as it stands, nothing added."""
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def turn_text(self, message: Message, tools: list[dict[str, Any]]) -> str:
        """The text of an assistant message, its ``tool_calls`` as Hermes 2 Pro has them."""
        return hermes_turn(message)

    def close_ids(self, ids: list[int]) -> list[int]:
        """The format's own end of a turn, unless ``ids`` end with it."""
        return [] if ids[-1:] == self.stop_token_ids[:1] else self.stop_token_ids[:1]

    def decode(self, sampled_ids: list[int]) -> str:
        """The text of a sampled turn as an env reads it: without the token that ends it, and without `CALL_MARK`."""
        ids = sampled_ids[:-1] if sampled_ids and sampled_ids[-1] in self.stop_token_ids else sampled_ids
        if ids and ids[0] == self._call_mark:
            ids = ids[1:]
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _encode_after_turn(self, text: str) -> list[int]:
        """Ids of a text that follows the end of a turn. It is tokenised with that end, for the sake of blanks."""
        return self.encode(self.end + text)[1:]

    def _without_control(self, messages: Sequence[Message]) -> list[Message]:
        """The messages, with a blank in every token that their text may not spell."""
        return [
            {**message, "content": self._broken(message["role"], message["content"])}
            if isinstance(message.get("content"), str)
            else message
            for message in messages
        ]

    def _broken(self, role: str, text: str) -> str:
        pattern = self._control if role in ("system", "assistant") else self._control_or_markup
        return pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)


def control_tokens(tokenizer: Any) -> list[str]:
    """The spelling of every special token of a tokenizer, the longest first."""
    special = {str(token) for token in tokenizer.all_special_tokens}
    special |= {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    return sorted(special, key=lambda token: (-len(token), token))


def markup_tokens(tokenizer: Any) -> list[str]:
    """The spelling of other added tokens that look like markup (``</tool_response>``) and are no policy's own."""
    added = {token.content for token in tokenizer.added_tokens_decoder.values()} - {*control_tokens(tokenizer)} - _OWN
    return sorted(filter(_MARKUP.fullmatch, added), key=lambda token: (-len(token), token))


def _pattern(tokens: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tokens)) or r"(?!)")


_CALL_IN_TAGS = re.compile(r"<tool_call>.*?</tool_call>", re.DOTALL)


def own_form(chat: Chat, text: str, tools: list[dict[str, Any]]) -> str:
    """A turn of nothing but ``<tool_call>`` tags, rewritten as the model writes calls; any other turn as it is."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in parse_turn(text).calls]
    if not calls or _CALL_IN_TAGS.sub("", text).strip():
        return text
    own = chat.turn_text({"role": "assistant", "tool_calls": calls}, tools)
    return text if own.startswith("<tool_call>") else own
