"""What all forms have in common: a request, a turn, and what a form does with both."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from grpo.types import Message


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as OpenAI's chat has it.

    Attributes:
        messages: The whole history; every content is a text.
        tools: Function schemas.
        max_tokens: Most tokens of the turn, where that was asked.
        streamed: Whether the turn is to be written in events.
        options: Whatever else was asked, by its name.
    """

    messages: list[Message]
    tools: list[dict[str, Any]]
    max_tokens: int | None = None
    streamed: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def tool_names(self) -> list[str]:
        """Names of the tools."""
        return [tool["function"]["name"] for tool in self.tools]


@dataclass(frozen=True, slots=True)
class SaidCall:
    """A tool call; ``arguments`` is the JSON text of an object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Said:
    """A turn that was said.

    Attributes:
        id: Of the reply, unlike others of the episode.
        text: What it says.
        thought: What was thought before, where that is known.
        calls: Of tools.
        finish_reason: ``stop`` or ``length``.
        prompt_tokens: As counted.
        completion_tokens: As counted.
    """

    id: str
    text: str
    thought: str = ""
    calls: tuple[SaidCall, ...] = ()
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def message(self) -> Message:
        """As OpenAI's chat has it."""
        message: Message = {"role": "assistant", "content": self.text or (None if self.calls else "")}
        message |= {"reasoning_content": self.thought} if self.thought else {}
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self.calls
        ]
        return message | ({"tool_calls": calls} if calls else {})


class Form(Protocol):
    """One API's form.

    Attributes:
        path: Under ``/v1/``.
    """

    path: str

    def read(self, body: dict[str, Any]) -> Asked:
        """The request in a body.

        Raises:
            ValueError: It asks for what this endpoint does not have.
        """
        ...

    def whole(self, said: Said, model: str) -> dict[str, Any]:
        """The body of a reply."""
        ...

    def events(self, said: Said, model: str, asked: Asked) -> Iterator[dict[str, Any]]:
        """The reply as the events of a stream."""
        ...


class Spoken(Form, Protocol):
    """A form that servers speak."""

    def choices(self, body: dict[str, Any]) -> list[tuple[Message, str]]:
        """What the body of a reply says, as OpenAI's chat has it, each with its reason to finish; one at least."""
        ...


def unread(body: dict[str, Any]) -> Asked:
    """A request as it stands, of which a form reads nothing, but a server may."""
    said: Any = body.get("messages", body.get("input"))
    return Asked(
        said if isinstance(said, list) else [said],
        body.get("tools") or [],
        options=rest_of(body, "messages", "input", "tools"),
    )


def rest_of(body: dict[str, Any], *read: str) -> dict[str, Any]:
    """What else a request asks for."""
    return {name: value for name, value in body.items() if name not in (*read, "model", "stream") and value is not None}


def listed(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects in a request, empty where there is none.

    Raises:
        ValueError: It is something else.
    """
    value = body.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"{name} must be a list of objects, not {json.dumps(value)[:200]}")
    return value


def function_tool(name: Any, description: Any, parameters: Any) -> dict[str, Any]:
    """A tool as OpenAI's chat has it."""
    function = {"name": str(name), "description": description or "", "parameters": parameters or {"type": "object"}}
    return {"type": "function", "function": function}


def joined(content: Any) -> str:
    """The text of a message's content, which may be in parts.

    Raises:
        ValueError: A part is no text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    texts = [part if isinstance(part, str) else part.get("text") for part in content]
    if not all(isinstance(text, str) for text in texts):
        kinds = sorted({str(part.get("type")) for part in content if not isinstance(part, str)})
        raise ValueError(f"a message has parts of the kinds {', '.join(kinds)}; the model reads text alone")
    return "".join(texts)
