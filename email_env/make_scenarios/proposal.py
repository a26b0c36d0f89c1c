"""What the LLM may say, as pydantic models."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from email_env.search.query import MAX_KEYWORD_CHARS, storable

Kind = Literal["person", "date", "time", "amount", "number", "place", "name", "code", "other"]


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
    def _has_an_answer(self) -> Self:
        if self.question and not self.answer:
            raise ValueError("a question needs an answer")
        return self


class Check(BaseModel):
    """What the checker, who does not see the mail, makes of the question."""

    model_config = ConfigDict(extra="forbid")

    from_subject: Annotated[Line, Field(max_length=600)]
    from_other_mail: Annotated[Line, Field(max_length=600)]
    realism: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
