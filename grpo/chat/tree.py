"""The model calls of one episode, token for token: a tree, in which a call follows the one whose history it carries on.

Nothing that was sampled is rendered or tokenised again. What a model said stays as it was, what came since is appended.
Where no earlier call is carried on, or a chat template rewrites what was said, a new root begins with a whole prompt.

An agent sends its whole history with each request, and frameworks change its form on the way. So histories are compared
message by message in a canonical form (`canonical`): a request follows a call if it has the same tools, and consists of
what that call was asked, what it answered, and messages that are no turn of the assistant.
"""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo.chat.template import Chat
from grpo.types import Episode, Message, ModelCall
from judges.common.text import shown
from judges.common.tool_calls import format_call

_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked.

    Attributes:
        ids: The whole prompt.
        messages: What it renders.
        tools: OpenAI function schemas.
        keys: The messages as they were sent, in their canonical form.
        follows: The call that it carries on; None at a root.
        kept: How many of the ids stand in the calls before.
        differs: Where a root has turns of the assistant: how its history differs from the nearest that was said.
    """

    ids: list[int]
    messages: list[Message]
    tools: list[dict[str, Any]]
    keys: tuple[str, ...]
    follows: int | None = None
    kept: int = 0
    differs: str = ""


@dataclass(frozen=True, slots=True)
class _Said:
    """A turn, and where what carries it on begins."""

    history: list[Message]
    tools: list[dict[str, Any]]
    call_ids: frozenset[str]
    follows: int | None
    shown: list[int]  # ids behind the call that it follows


_Place = tuple[frozenset[str], tuple[str, ...]]
"""The tools that are offered, and a history in its canonical form, the newest turn included."""


class CallTree:
    """Gives the prompts of an episode, and keeps what was said to them.

    Args:
        chat: The chat format.
        episode: Gets a `ModelCall` for each turn that is to be learned.
    """

    def __init__(self, chat: Chat, episode: Episode):
        self.chat = chat
        self.episode = episode
        self._said: dict[_Place, list[_Said]] = {}
        self._keys: dict[int, tuple[Message, str]] = {}  # an env's messages come again, turn after turn

    def following(self, messages: Sequence[Message], tools: list[dict[str, Any]]) -> Prompt:
        """The prompt after ``messages``, the whole history.

        Raises:
            ModelError: The chat template refuses them.
        """
        keys = tuple(map(self._key, messages))
        carried = max((place for place, m in enumerate(messages, start=1) if m["role"] == "assistant"), default=0)
        found = self._said.get((_unordered(tools), keys[:carried]), ())
        if not found:
            opening = rendered(self.chat, messages, tools)
            differs = self._differs(keys, _unordered(tools)) if carried else ""
            return Prompt(self.chat.prompt_ids(opening, tools), opening, tools, keys, differs=differs)
        answered = {call["id"] for message in messages for call in _calls(message) if call.get("id")}
        said = max(reversed(found), key=lambda said: bool(said.call_ids & answered))  # else the newest
        new = rendered(self.chat, messages, tools, carried)
        kept = self.episode.ids_through(said.follows)
        ids, rewritten = self.chat.next_prompt(kept + said.shown, said.history, new, said.tools)
        messages = [*said.history, *new]
        if rewritten:
            return Prompt(ids, messages, said.tools, keys, differs="the chat template rewrites what was said")
        return Prompt(ids, messages, said.tools, keys, said.follows, len(kept))

    def said(
        self,
        prompt: Prompt,
        ids: list[int],
        logprobs: list[float],
        version: int | None = None,
        *,
        call: ModelCall | None = None,
        sent: Message | None = None,
    ) -> ModelCall:
        """Keep a turn that was sampled.

        Args:
            prompt: What it was sampled after.
            ids: The turn.
            logprobs: Of each id.
            version: Of the policy.
            call: One of the episode's, which becomes it; by default a new one, of the episode's next turn.
            sent: The turn as who asked was told, where that is another form.
        """
        if call is None:
            call = ModelCall(turn=self.episode.num_turns, status=200)
            self.episode.calls.append(call)
        call.version, call.follows, call.prompt_ids = version, prompt.follows, prompt.ids[prompt.kept :]
        call.differs = prompt.differs
        call.sampled_ids, call.logprobs = ids, logprobs
        call.prompt_tokens, call.completion_tokens = len(prompt.ids), len(ids)
        self._goes_on(prompt, ids, sent, self.episode.number_of(call), [])
        return call

    def shown(self, prompt: Prompt, ids: list[int], sent: Message | None = None) -> None:
        """Go on behind a turn that is context: it is not to be learned."""
        self._goes_on(prompt, ids, sent, prompt.follows, prompt.ids[prompt.kept :] + ids)

    def _goes_on(
        self, prompt: Prompt, ids: list[int], sent: Message | None, follows: int | None, shown: list[int]
    ) -> None:
        turn: Message = {"role": "assistant", "content": self.chat.decode(ids)}
        call_ids = frozenset(call["id"] for call in _calls(sent or turn) if call.get("id"))
        said = _Said([*prompt.messages, turn], prompt.tools, call_ids, follows, shown)
        offered = _unordered(prompt.tools)
        for form in {canonical(form) for form in (turn, sent) if form is not None}:
            self._said.setdefault((offered, (*prompt.keys, form)), []).append(said)

    def _differs(self, keys: tuple[str, ...], offered: frozenset[str]) -> str:
        """The first message that is not as it was in the nearest history, and how it differs."""

        def common(place: _Place) -> tuple[int, bool]:
            pairs = zip(place[1], keys, strict=False)
            return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)), place[0] == offered

        if not self._said:
            return "nothing was said before"
        nearest = max(self._said, key=common)
        shared, same_tools = common(nearest)
        if shared == len(nearest[1]):
            return "other tools are offered" if not same_tools else f"message {shared + 1}, a turn, was not said here"
        sent = shown(keys[shared]) if shared < len(keys) else "nothing"
        return f"message {shared + 1}: {sent} instead of {shown(nearest[1][shared])}"

    def _key(self, message: Message) -> str:
        if id(message) not in self._keys:
            self._keys[id(message)] = message, canonical(message)
        return self._keys[id(message)][1]


def rendered(chat: Chat, messages: Sequence[Message], tools: list[dict[str, Any]], start: int = 0) -> list[Message]:
    """Messages from ``start`` on as chat templates take them.

    They have texts, calls as text in their turn, and results under the name of their tool.

    Raises:
        ModelError: The chat template refuses a turn with calls.
    """
    names = {call["id"]: call["function"]["name"] for m in messages for call in _calls(m) if call.get("id")}
    forms: list[Message] = []
    for message in messages[start:]:
        form: Message = {"role": _role(message), "content": _text(message)}
        if form["role"] == "assistant" and _calls(message):
            form["content"] = _turn_text(chat, {**message, "content": form["content"]}, tools)
        if form["role"] == "tool":
            name = message.get("name") or names.get(message.get("tool_call_id", ""))
            form |= {"name": name} if name else {}
            form |= {"tool_call_id": message["tool_call_id"]} if message.get("tool_call_id") else {}
        forms.append(form)
    return forms


def _turn_text(chat: Chat, message: Message, tools: list[dict[str, Any]]) -> str:
    try:
        return chat.turn_text(message, tools)
    except ValueError:  # arguments that are no JSON, as they were sent
        functions = [call["function"] for call in _calls(message)]
        return "\n".join([message["content"], *(format_call(f["name"], f["arguments"]) for f in functions)]).strip()


def canonical(message: Mapping[str, Any]) -> str:
    """A message in the form in which histories are compared: what frameworks change on the way does not count.

    Null is empty text, a developer is the system; thoughts and blanks at the ends go. Arguments of a
    call are JSON with sorted keys, or the call's id where they are no JSON object. Other ids and names do not count.
    """
    calls = [[call["function"].get("name"), _arguments(call)] for call in _calls(message)]
    return json.dumps([_role(message), _THOUGHT.sub("", _text(message)).strip(), calls], ensure_ascii=False)


def _arguments(call: Mapping[str, Any]) -> str:
    raw = call["function"].get("arguments")
    try:
        value = json.loads(raw, strict=False) if isinstance(raw, str) else raw
    except (ValueError, RecursionError):
        value = None
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else f"id {call.get('id')}"


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [call for call in message.get("tool_calls") or () if isinstance(call.get("function"), dict)]


def _role(message: Mapping[str, Any]) -> str:
    return "system" if message["role"] == "developer" else str(message["role"])


def _text(message: Mapping[str, Any]) -> str:
    return (message.get("content") or "").encode(errors="replace").decode()  # a lone surrogate has no UTF-8


def _unordered(tools: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(json.dumps(tool, sort_keys=True) for tool in tools)
