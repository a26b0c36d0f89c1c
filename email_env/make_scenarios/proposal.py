"""What the LLM may say, as pydantic models, and how its text is read; it may correct malformed text once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Literal, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from email_env.make_scenarios import prompts
from email_env.search.query import MAX_KEYWORD_CHARS, storable

Kind = Literal["person", "date", "time", "amount", "number", "place", "name", "code", "other"]
Message = dict[str, str]


class Chat(Protocol):
    """An LLM: messages in, the text of its answer out."""

    async def __call__(self, messages: Sequence[Message]) -> str:
        """Asks once.

        Raises:
            LlmError: there is no answer.
        """
        ...


class MalformedError(Exception):
    """Neither the LLM's text nor its correction was in the form that was asked for."""


def _one_line(text: str) -> str:
    if not storable(text):
        raise ValueError("no NUL characters")
    return " ".join(text.split())


Line = Annotated[str, AfterValidator(_one_line)]
Form = Annotated[Line, Field(max_length=MAX_KEYWORD_CHARS)]
"""A form of an answer, short enough to search the other mail for it."""


class Proposal(BaseModel):
    """A question about one mail. The question is empty if the mail holds nothing to ask about."""

    model_config = ConfigDict(extra="forbid")

    question: Annotated[Line, Field(max_length=300)]
    answer: Form = ""
    accepted: Annotated[list[Form], Field(max_length=8)] = []
    difficulty: Literal["easy", "medium", "hard"] = "medium"
    kind: Kind = "other"

    @model_validator(mode="after")
    def _has_an_answer(self) -> Proposal:
        if self.question and not self.answer:
            raise ValueError("a question needs an answer")
        return self


class Verdict(BaseModel):
    """What the checker, who does not see the mail, makes of the question."""

    model_config = ConfigDict(extra="forbid")

    from_subject: Annotated[Line, Field(max_length=600)]
    from_other_mail: Annotated[Line, Field(max_length=600)]
    realism: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


Said = TypeVar("Said", bound=BaseModel)


async def ask(chat: Chat, messages: Sequence[Message], form: type[Said]) -> Said:
    """The LLM's answer in the form that was asked for. If it is malformed, the LLM is told why and asked once more.

    Raises:
        MalformedError: the second answer is malformed too.
        LlmError: the LLM cannot be reached.
    """
    text = _sendable(await chat(messages))
    try:
        return read(text, form)
    except ValueError as error:
        fault = _fault(error)
    again = [{"role": "assistant", "content": text or "(empty)"}, {"role": "user", "content": prompts.repair(fault)}]
    text = await chat([*messages, *again])
    try:
        return read(text, form)
    except ValueError as error:
        raise MalformedError(f"{_fault(error)} The text: {text[:200]!r}") from None


def read(text: str, form: type[Said]) -> Said:
    """The JSON object in the text. Reasoning, a code fence or a greeting may stand around it.

    Raises:
        ValueError: there is none, or it does not have the form.
    """
    rest = text.rpartition("</think>")[2]
    start = rest.find("{")
    if start < 0:
        raise ValueError("There is no JSON object.")
    try:
        value, _ = json.JSONDecoder().raw_decode(rest, start)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"The JSON cannot be read: {error}.") from None
    return form.model_validate(value)


def _sendable(text: str) -> str:
    """The text with halves of surrogate pairs written as escapes: JSON can spell them, but UTF-8 cannot."""
    return text.encode(errors="backslashreplace").decode()


def _fault(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    faults = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return _sendable(
        " ".join(f"{'.'.join(map(str, fault['loc'])) or 'The object'}: {fault['msg']}." for fault in faults)
    )
