"""The chat format of a model whose own template knows tools; its prompts grow token for token.

A delta is what the template renders after the end of the last assistant turn. Some templates show an earlier turn
otherwise once the conversation goes on: Qwen3 drops its reasoning when a user speaks again. Then nothing can be
appended to the ids that were sampled, and ``rewritten_ids`` gives the prompt that begins a new segment.

The template alone is asked whether it rewrites: its rendering before the turn, plus the turn, must begin its rendering
after it. Blanks and empty ``<think>`` blocks, which templates add and trim, do not count. A comparison with the sampled
text would begin a segment at every trimmed blank. By default a new segment follows the template, because that is what
the model sees wherever else it is served; ``history = "append"`` keeps the reasoning in sight and one row per episode.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Mapping
from typing import Any

from grpo.chat.base import BaseChat, History
from grpo.chat.turns import calls_of
from grpo.errors import ModelError
from grpo.types import Message

TEMPLATE_DATE = datetime.date(2024, 7, 26)
"""The day it is for templates that ask, so that a group, a resumed run and an evaluation begin from the same ids.

It is what Llama 3's templates fall back on themselves.
"""

_PLACEHOLDER = "\u2042placeholder\u2042"
_EMPTY_THOUGHT = re.compile(r"^<think>\s*</think>\s*")
_OF_NO_WEIGHT = re.compile(r"<think>\s*</think>|\s+")
"""What templates add and trim around turns; no rewriting of what was said."""


class TemplateChat(BaseChat):
    """Tokenises with the model's own template; a delta is what the template adds after a turn."""

    def __init__(self, tokenizer: Any, history: History = "fork", template_kwargs: Mapping[str, Any] | None = None):
        """Take the tokenizer's template, and learn from it how a turn ends.

        Args:
            tokenizer: Of the model.
            history: Where the template rewrites earlier turns: ``fork`` begins a new segment with what it shows,
                ``append`` keeps the turns as they were sampled.
            template_kwargs: Variables for the template, for example ``{"enable_thinking": False}``.

        Raises:
            ModelError: The template does not end a turn with a token of its own.
        """
        self.tokenizer = tokenizer
        self.history = history
        self.template_kwargs = {"strftime_now": TEMPLATE_DATE.strftime, **(template_kwargs or {})}
        super().__init__(tokenizer, self._end_of_turn())

    def prompt_ids(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """What the template renders, generation prompt included."""
        return self.encode(self.render(self._without_control(messages), tools))

    def delta_ids(self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """What the template renders after the last turn; a placeholder stands for all turns, to save rendering."""
        prompt = list(itertools.takewhile(lambda message: message["role"] != "assistant", history))
        turn: Message = {"role": "assistant", "content": _PLACEHOLDER}
        text = self.render([*self._without_control(prompt), turn, *self._without_control(new)], tools)
        _, found, after = text.rpartition(_PLACEHOLDER + self.end)
        if not found:
            raise ModelError(
                f"the chat template does not write an assistant turn as its text followed by {self.end!r} where "
                f"{new[0]['role'] if new else 'nothing'!r} follows; it cannot be appended to token for token"
            )
        return self._encode_after_turn(after)

    def rewritten_ids(
        self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]
    ) -> list[int] | None:
        """The prompt as the template renders it, where it shows earlier turns otherwise than it did before.

        Blanks and empty reasoning blocks, which templates add and trim, make no difference.
        """
        if self.history == "append":
            return None
        history = self._without_control(history)
        before = self.render(history[:-1], tools) + history[-1]["content"] + self.end
        text = self.render([*history, *self._without_control(new)], tools)
        if _OF_NO_WEIGHT.sub("", text).startswith(_OF_NO_WEIGHT.sub("", before)):
            return None
        return self.encode(text)

    def turn_text(self, message: Message, tools: list[dict[str, Any]]) -> str:
        """The text of an assistant message, its ``tool_calls`` as the template writes them.

        Some templates (Llama 3) leave out the text beside a call. Where a template has no place for calls (SmolLM3),
        the model writes them as Hermes does.

        Raises:
            ModelError: The template refuses the message.
            ValueError: The arguments of a call are no JSON.
            KeyError: A call has no name.
        """
        calls = calls_of(message)
        if not calls:
            return super().turn_text(message, tools)
        opening: list[Message] = [{"role": "user", "content": "?"}]
        content = _PLACEHOLDER if message.get("content") else ""
        turn: Message = {"role": "assistant", "content": content, "tool_calls": calls}
        head = self.render(opening, tools)
        whole = self.render([*opening, turn], tools, open_turn=False)
        text, found, _ = whole.rpartition(self.end)
        said = _EMPTY_THOUGHT.sub("", text.removeprefix(head))
        if calls[0]["function"]["name"] not in said:
            return super().turn_text(message, tools)
        if not found or not text.startswith(head):
            raise ModelError(f"the chat template does not end a turn of tool calls with {self.end!r}: {whole[-80:]!r}")
        return said.replace(_PLACEHOLDER, message.get("content") or "")

    def render(self, messages: list[Message], tools: list[dict[str, Any]], *, open_turn: bool = True) -> str:
        """What the template writes, with the chat's variables."""
        return render(self.tokenizer, messages, tools, open_turn=open_turn, **self.template_kwargs)

    def _end_of_turn(self) -> str:
        """The special token that follows the text of an assistant turn."""
        messages: list[Message] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _PLACEHOLDER}]
        text = self.render([*messages, {"role": "user", "content": "?"}], [])
        _, found, after = text.partition(_PLACEHOLDER)
        first = self.encode(after)[:1]
        token = self.tokenizer.convert_ids_to_tokens(first[0]) if first else ""
        if not found or not token or not after.startswith(token) or not self._is_special(first[0]):
            raise ModelError(
                f"the chat template does not write an assistant turn as its text followed by a special token (here by "
                f"{after[:20]!r}); multi-turn rollouts cannot be appended token for token with it"
            )
        return token

    def _is_special(self, token_id: int) -> bool:
        added = self.tokenizer.added_tokens_decoder.get(token_id)
        return added is not None and added.special


def render(
    tokenizer: Any, messages: list[Message], tools: list[dict[str, Any]], *, open_turn: bool = True, **variables: Any
) -> str:
    """What a tokenizer's template writes.

    Raises:
        ModelError: The template refuses the messages.
    """
    from jinja2 import TemplateError

    try:
        return tokenizer.apply_chat_template(
            messages, tools=tools or None, add_generation_prompt=open_turn, tokenize=False, **variables
        )
    except (TemplateError, TypeError) as error:  # TypeError: arguments of a call that are taken for a text
        roles = ", ".join(message["role"] for message in messages)
        raise ModelError(f"the model's chat template refuses the roles {roles}: {error}") from error
