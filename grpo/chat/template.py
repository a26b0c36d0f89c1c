"""The chat format of a model's template; its prompts grow token for token.

A delta is what the template renders after the end of the last assistant turn. Some templates show an earlier turn
otherwise once the conversation goes on: Qwen3 drops its reasoning when a user speaks again. Then nothing can be
appended to the ids that were sampled, and ``rewritten_ids`` gives the prompt that begins a new segment.

The template alone is asked whether it rewrites: its rendering before the turn, plus the turn, must begin its rendering
after it. Blanks and empty ``<think>`` blocks, which templates add and trim, do not count. A comparison with the sampled
text would begin a segment at every trimmed blank. By default a new segment follows the template, because that is what
the model sees wherever else it is served; ``history = "append"`` keeps the reasoning in sight and one row per episode.

A control token that an env's text spells is broken by a blank before the text is tokenised. Mail that holds
``<|im_end|>`` would otherwise end its own message and speak as the system. Other tokens that look like markup are
broken too: Qwen shows a tool's result in ``<tool_response>`` tags in a message of the user, and mail must not end it.
They stay in a system message, which is the env's own and may show how to write a call, and in turns of the policy.
"""

import datetime
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from grpo.chat.turns import calls_of, hermes_turn
from grpo.errors import ModelError
from grpo.types import Message
from judges.common.tool_calls import in_json, parse_turn

History = Literal["fork", "append"]
"""What happens where a template rewrites earlier turns: a new segment begins, or the turns stay as they were."""

HERMES = Path(__file__).with_name("hermes.jinja").read_text(encoding="utf-8")
"""ChatML with tools in the system message and calls as Hermes 2 Pro and Qwen2.5 write them, JSON in ``<tool_call>``
tags: for models whose own template has no tools. It rewrites nothing."""

TEMPLATE_DATE = datetime.date(2024, 7, 26)
"""The day it is for templates that ask, so that a group, a resumed run and an evaluation begin from the same ids.

It is what Llama 3's templates fall back on themselves.
"""

CALL_MARK = "<|python_tag|>"
"""Llama 3 may begin a call with it; it is no part of the call's text."""

_OTHER_ENDS = ("<|eom_id|>", "<|endoftext|>", "<|end_of_text|>")
"""Tokens with which a model may also end a turn; Llama 3 ends one that waits for a tool with ``<|eom_id|>``."""

_MARKUP = re.compile(r"<.+>|\[.+\]", re.DOTALL)
_OWN = {"<tool_call>", "</tool_call>", "<think>", "</think>", "<|tool_call_start|>", "<|tool_call_end|>"}
"""What a policy writes in its own turns: it ends no message, and an env's hint may show it."""

_CALL_IN_TAGS = re.compile(r"<tool_call>.*?</tool_call>", re.DOTALL)
_BROKEN_CHARACTER = "\ufffd"
_LONGEST_CHARACTER = 4
"""Bytes of a character in UTF-8, and so the most tokens it can be split into."""

_PLACEHOLDER = "\u2042placeholder\u2042"
_EMPTY_THOUGHT = re.compile(r"^<think>\s*</think>\s*")
OF_NO_WEIGHT = re.compile(r"<think>\s*</think>|\s+")
"""What templates add and trim around turns; no rewriting of what was said."""


def load_tokenizer(model_path: Path) -> Any:
    """The model folder's tokenizer (transformers, no torch needed)."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(model_path), trust_remote_code=False)
    except Exception as error:  # tokenizers raises plain ones
        raise ModelError(f"no tokenizer could be loaded from {model_path}: {' '.join(str(error).split())}") from error


class Chat:
    """Tokenises with a chat template; a delta is what the template adds after a turn.

    Attributes:
        stop_token_ids: Tokens that end a turn; the format itself writes the first of them.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: str,
        history: History = "fork",
        template_kwargs: Mapping[str, Any] | None = None,
    ):
        """Learn from the template how a turn ends.

        Args:
            tokenizer: Of the model, from transformers.
            template: The model's own, or `HERMES`.
            history: Where the template rewrites earlier turns: ``fork`` begins a new segment with what it shows,
                ``append`` keeps the turns as they were sampled.
            template_kwargs: Variables for the template, for example ``{"enable_thinking": False}``.

        Raises:
            ModelError: The template does not end a turn with a token of its own.
        """
        self.tokenizer = tokenizer
        self.template = template
        self.history = history
        self.template_kwargs = {"strftime_now": TEMPLATE_DATE.strftime, **(template_kwargs or {})}
        self.end = self._end_of_turn()
        names = dict.fromkeys((self.end, *_OTHER_ENDS, tokenizer.eos_token or self.end))
        vocabulary = tokenizer.get_vocab()
        self.stop_token_ids = [vocabulary[name] for name in names if name in vocabulary]
        self._call_mark = vocabulary.get(CALL_MARK)
        self._control = _pattern(control_tokens(tokenizer))
        self._control_or_markup = _pattern(control_tokens(tokenizer) + markup_tokens(tokenizer))

    def prompt_ids(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """Ids of the first prompt, as the template renders it, up to where the assistant's turn begins."""
        return self.encode(self.render(self._without_control(messages), tools))

    def next_prompt(
        self, seen_ids: list[int], history: list[Message], new: list[Message], tools: list[dict[str, Any]]
    ) -> tuple[list[int], bool]:
        """The prompt of the next turn, and whether it rewrites what the policy saw before.

        Args:
            seen_ids: The last prompt, and the turn that was sampled from it.
            history: The messages up to that turn.
            new: The messages that the env has added.
            tools: OpenAI function schemas.

        Returns:
            The ids; they begin with ``seen_ids`` where nothing is rewritten.
        """
        rewritten = self.rewritten_ids(history, new, tools)
        if rewritten is not None:
            return rewritten, True
        return seen_ids + self.close_ids(seen_ids) + self.delta_ids(history, new, tools), False

    def delta_ids(self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        """Ids from the end of the last turn of ``history``, an assistant's, to where the next assistant turn begins.

        A placeholder stands for all turns, to save rendering.
        """
        prompt = list(itertools.takewhile(lambda message: message["role"] != "assistant", history))
        turn: Message = {"role": "assistant", "content": _PLACEHOLDER}
        text = self.render([*self._without_control(prompt), turn, *self._without_control(new)], tools)
        _, found, after = text.rpartition(_PLACEHOLDER + self.end)
        if not found:
            raise ModelError(
                f"the chat template does not write an assistant turn as its text followed by {self.end!r} where "
                f"{new[0]['role'] if new else 'nothing'!r} follows; it cannot be appended to token for token"
            )
        return self.encode(self.end + after)[1:]  # tokenised with the turn's end, for the sake of blanks

    def rewritten_ids(
        self, history: list[Message], new: list[Message], tools: list[dict[str, Any]]
    ) -> list[int] | None:
        """The whole next prompt, where the template shows earlier turns otherwise than it did before; else None.

        Blanks and empty reasoning blocks, which templates add and trim, make no difference.
        """
        if self.history == "append":
            return None
        history = self._without_control(history)
        before = self.render(history[:-1], tools) + history[-1]["content"] + self.end
        text = self.render([*history, *self._without_control(new)], tools)
        if OF_NO_WEIGHT.sub("", text).startswith(OF_NO_WEIGHT.sub("", before)):
            return None
        return self.encode(text)

    def close_ids(self, ids: list[int]) -> list[int]:
        """Ids that end a turn that was cut for its length; none where ``ids`` show that the turn ended itself."""
        return [] if ids[-1:] == self.stop_token_ids[:1] else self.stop_token_ids[:1]

    def encode(self, text: str) -> list[int]:
        """Ids of a text as it stands, nothing added."""
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def turn_ids(self, text: str) -> list[int]:
        """A turn that somebody else said, as this model would have sampled it."""
        return [*self.encode(text), self.stop_token_ids[0]]

    def decode(self, sampled_ids: list[int]) -> str:
        """The text of a sampled turn as an env reads it: without the token that ends it, and without `CALL_MARK`."""
        ids = sampled_ids[:-1] if sampled_ids and sampled_ids[-1] in self.stop_token_ids else sampled_ids
        if ids and ids[0] == self._call_mark:
            ids = ids[1:]
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def sampled_text(self, ids: Sequence[int], logprobs: Sequence[float]) -> list[str | float]:
        """The tokens of a sampled turn as text with their logprobs: ``[text, logprob, text, ...]``.

        Records keep a turn so, about 12 bytes a token, and pages colour it: with ids alone they would need the model's
        tokenizer. Tokens that are parts of one character are one entry; the token that ends a turn is empty text.
        """
        turn: list[str | float] = []
        waiting: list[int] = []
        logprob = 0.0
        for place, (token, value) in enumerate(zip(ids, logprobs, strict=True), start=1):
            waiting.append(token)
            logprob += value
            text = self._text(token) if len(waiting) == 1 else self.decode(waiting)
            in_midst = text.endswith(_BROKEN_CHARACTER) and len(waiting) < _LONGEST_CHARACTER and place < len(ids)
            if not in_midst:
                turn += [text, round(logprob, 3)]
                waiting, logprob = [], 0.0
        return turn

    @cached_property
    def _text(self) -> Callable[[int], str]:
        """The text of a single token; each is decoded once in the life of a process."""
        return cache(lambda token: self.decode([token]))

    def own_form(self, text: str, tools: list[dict[str, Any]]) -> str:
        """A turn of nothing but ``<tool_call>`` tags, rewritten as the model writes calls; any other turn as it is."""
        calls = [{"name": call.name, "arguments": call.arguments} for call in parse_turn(text).calls]
        if not calls or _CALL_IN_TAGS.sub("", text).strip():
            return text
        own = self.turn_text({"role": "assistant", "tool_calls": calls}, tools)
        is_read = parse_turn(in_json(own, tools)).calls == parse_turn(text).calls  # LFM2.5's escapes no quotes
        return text if own.startswith("<tool_call>\n{") or not is_read else own

    def turn_text(self, message: Message, tools: list[dict[str, Any]]) -> str:
        """The text of an assistant message as the model would sample it, ``tool_calls`` as the template writes them.

        Some templates (Llama 3) leave out the text beside a call. Where a template has no place for calls (SmolLM3),
        the model writes them as Hermes does.

        Raises:
            ModelError: The template refuses the message.
            ValueError: The arguments of a call are no JSON.
            KeyError: A call has no name.
        """
        calls = calls_of(message)
        if not calls:
            return hermes_turn(message)
        opening: list[Message] = [{"role": "user", "content": "?"}]
        content = _PLACEHOLDER if message.get("content") else ""
        turn: Message = {"role": "assistant", "content": content, "tool_calls": calls}
        head = self.render(opening, tools)
        whole = self.render([*opening, turn], tools, open_turn=False)
        text, found, _ = whole.rpartition(self.end)
        said = _EMPTY_THOUGHT.sub("", text.removeprefix(head))
        if calls[0]["function"]["name"] not in said:
            return hermes_turn(message)
        if not found or not text.startswith(head):
            raise ModelError(f"the chat template does not end a turn of tool calls with {self.end!r}: {whole[-80:]!r}")
        return said.replace(_PLACEHOLDER, message.get("content") or "")

    def render(
        self, messages: list[Message], tools: list[dict[str, Any]], *, open_turn: bool = True, template: str = ""
    ) -> str:
        """What the template, or another one, writes with the chat's variables.

        Raises:
            ModelError: The template refuses the messages.
        """
        try:
            return self.tokenizer.apply_chat_template(
                messages,
                tools=tools or None,
                chat_template=template or self.template,
                add_generation_prompt=open_turn,
                tokenize=False,
                **self.template_kwargs,
            )
        except Exception as error:  # a foreign template fails in any way
            roles = ", ".join(message["role"] for message in messages)
            raise ModelError(f"the model's chat template refuses the roles {roles}: {error}") from error

    def _end_of_turn(self) -> str:
        """The special token that follows the text of an assistant turn."""
        messages: list[Message] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _PLACEHOLDER}]
        text = self.render([*messages, {"role": "user", "content": "?"}], [])
        _, found, after = text.partition(_PLACEHOLDER)
        first = self.encode(after)[:1]
        added = self.tokenizer.added_tokens_decoder.get(first[0]) if first else None
        if not found or added is None or not added.special or not after.startswith(added.content):
            raise ModelError(
                f"the chat template does not write an assistant turn as its text followed by a special token (here by "
                f"{after[:20]!r}); multi-turn rollouts cannot be appended token for token with it"
            )
        return added.content

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
    """The spelling of every special token but a policy's own, and of our own mark, the longest first."""
    special = {_PLACEHOLDER, *map(str, tokenizer.all_special_tokens)}
    special |= {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    return sorted(special - _OWN, key=lambda token: (-len(token), token))


def markup_tokens(tokenizer: Any) -> list[str]:
    """The spelling of other added tokens that look like markup (``</tool_response>``) and are no policy's own."""
    added = {token.content for token in tokenizer.added_tokens_decoder.values()} - {*control_tokens(tokenizer)} - _OWN
    return sorted(filter(_MARKUP.fullmatch, added), key=lambda token: (-len(token), token))


def _pattern(tokens: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tokens)) or r"(?!)")
