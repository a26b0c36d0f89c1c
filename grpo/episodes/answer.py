"""What an agent is given and what it gives back. Plain values: nothing of the env hangs on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """A final answer.

    Attributes:
        text: The answer.
        sources: What it rests on, for example ids of mails.
    """

    text: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Explain what is of another type where it was written, in the agent."""
        if not isinstance(self.text, str):
            raise TypeError(f"Answer takes a text, not {self.text!r}")
        listed = isinstance(self.sources, tuple | list)
        if not listed or not all(isinstance(source, str) for source in self.sources):
            raise TypeError(f"sources of an Answer are a tuple of texts, not {self.sources!r}")


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is asked.

    Attributes:
        instructions: The system message: who the agent is and its limits.
        question: The user's message.
    """

    instructions: str
    question: str

    def __str__(self) -> str:
        """Both as one prompt."""
        return f"{self.instructions}\n\n{self.question}".strip()


@dataclass(frozen=True, slots=True)
class Model:
    """The model an agent may use, behind an OpenAI-compatible endpoint of this episode's own.

    Attributes:
        name: What to ask for as ``model``.
        base_url: Ends in ``/v1``; has ``/chat/completions`` and ``/responses``, streaming too.
        api_key: To be sent, as clients insist on one. It opens nothing: the real key stays with the harness.
    """

    name: str
    base_url: str
    api_key: str = "unused"
