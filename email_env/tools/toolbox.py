"""The three tools: their schemas, the check of their arguments, and what they do.

A `Toolbox` runs one call for one scenario and returns what came of it. It shows the scenario's inbox up to the
scenario's day and nothing else. A call that cannot be run gives a result with an error code and a text for the model,
never an exception; an exception means that the database itself is at fault. `email_env.reward` decides what a
result is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from email_env.errors import ToolInputError
from email_env.scenarios.scenario import Scenario
from email_env.search.database import MailDatabase, SearchHit
from email_env.search.query import MAX_RESULTS, bare_message_id, shown, whole_number
from email_env.tools import prompts
from email_env.tools.actions import TOOL_NAMES, CallFault, ErrorCode, ToolCall

MAX_ANSWER_CHARS = 2000
MAX_SOURCES = 50
_FILTERS = ("from_addr", "to_addr", "sent_after", "sent_before")


@dataclass(frozen=True, slots=True)
class Answer:
    """The agent's final answer; `implicit` means that it came as prose, without the tool."""

    text: str
    sources: tuple[str, ...] = ()
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call.

    Attributes:
        text: what the model sees.
        error: why the call was invalid, "" where it was valid.
        call_id: the OpenAI id of the call, "" where there is none.
        searched: whether a search ran.
        found: ids of the mails that a search showed.
        read: id of the mail that was read, "" where none was.
        unknown_id: whether the call asked for an id that this inbox does not show.
        answer: the final answer, where the call gave one.
    """

    text: str
    error: ErrorCode = ErrorCode.NONE
    call_id: str = ""
    searched: bool = False
    found: tuple[str, ...] = ()
    read: str = ""
    unknown_id: bool = False
    answer: Answer | None = None


def tool_schemas(
    max_results: int = MAX_RESULTS, order: str = "newest", *, fallback_any: bool = False
) -> list[dict[str, Any]]:
    """The tools as OpenAI function schemas, new objects at every call."""
    first = "newest mail" if order == "newest" else "best match"
    rule = "All keywords must occur in a mail."
    if fallback_any:
        rule = "Where no mail has all keywords, mail with some of them is shown."
    words = {"type": "array", "items": {"type": "string"}}
    return [
        _schema(
            "search_inbox",
            f"Search the inbox, {first} first. {rule}",
            {
                "keywords": words | {"description": "Words or phrases."},
                "from_addr": {"type": "string", "description": "Sender's name or address."},
                "to_addr": {"type": "string", "description": "A recipient's name or address."},
                "sent_after": {"type": "string", "description": "First day, YYYY-MM-DD."},
                "sent_before": {"type": "string", "description": "Day after the last, YYYY-MM-DD."},
                "max_results": {"type": "integer", "minimum": 1, "maximum": max_results},
            },
            ["keywords"],
        ),
        _schema(
            "read_email",
            "Read a whole mail.",
            {"message_id": {"type": "string", "description": "Id from the search results."}},
            ["message_id"],
        ),
        _schema(
            "return_final_answer",
            "Answer the question and end.",
            {
                "answer": {"type": "string", "description": 'Short answer, or "I don\'t know".'},
                "sources": dict(words) | {"description": "Ids of the mails that say so."},
            },
            ["answer", "sources"],
        ),
    ]


def _schema(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


class Toolbox:
    """Runs calls against a mail database.

    Args:
        database: the mail.
        max_results: a search shows at most so many hits, 1 to 10.
        snippet_words: words of the body in a search hit.
        max_body_chars: a longer body is cut.
        order: "newest" or "relevance".
        fallback_any: where no mail has all keywords, show those with any of them, best match first.
    """

    def __init__(
        self,
        database: MailDatabase,
        *,
        max_results: int,
        snippet_words: int,
        max_body_chars: int,
        order: str,
        fallback_any: bool = False,
    ) -> None:
        self.database = database
        self.max_results = max_results
        self.snippet_words = snippet_words
        self.max_body_chars = max_body_chars
        self.order = order
        self.fallback_any = fallback_any
        self._arguments = {
            schema["function"]["name"]: (
                tuple(schema["function"]["parameters"]["properties"]),
                tuple(schema["function"]["parameters"]["required"]),
            )
            for schema in tool_schemas()
        }
        self._tools: dict[str, Callable[[dict[str, Any], Scenario], ToolResult]] = {
            "search_inbox": self._search_inbox,
            "read_email": self._read_email,
            "return_final_answer": self._return_final_answer,
        }

    def run(self, call: ToolCall | CallFault, scenario: Scenario) -> ToolResult:
        """Runs one call; a mistake of the model becomes a result with an error code."""
        if isinstance(call, CallFault):
            return ToolResult(prompts.error(call.message), call.code, call.call_id)
        if call.name not in self._tools:
            message = f"there is no tool {shown(call.name)}. The tools are {', '.join(TOOL_NAMES)}."
            return ToolResult(prompts.error(message), ErrorCode.UNKNOWN_TOOL, call.call_id)
        try:
            result = self._tools[call.name](self._checked(call), scenario)
        except ToolInputError as error:
            return ToolResult(prompts.error(str(error)), ErrorCode.BAD_ARGS, call.call_id)
        return replace(result, call_id=call.call_id)

    def _checked(self, call: ToolCall) -> dict[str, Any]:
        """The given arguments, checked by name. Null and "" mean that an optional argument is left out."""
        known, required = self._arguments[call.name]
        for name in call.arguments:
            if name not in known:
                raise ToolInputError(self._unknown_argument(call.name, name))
        given = {
            name: value
            for name, value in call.arguments.items()
            if name in required or not (value is None or (isinstance(value, str) and not value.strip()))
        }
        if not given.keys().isdisjoint(_FILTERS) and given.get("keywords") is None:  # they say enough
            given["keywords"] = []
        if missing := [name for name in required if given.get(name) is None]:
            raise ToolInputError(f"{call.name} needs {' and '.join(missing)}. Its arguments: {', '.join(known)}.")
        return given

    def _unknown_argument(self, tool: str, name: str) -> str:
        known, _ = self._arguments[tool]
        near = get_close_matches(name[:100], known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"{tool} has no argument {shown(name)}.{hint} Its arguments: {', '.join(known)}."

    def _search_inbox(self, arguments: dict[str, Any], scenario: Scenario) -> ToolResult:
        keywords = _listed(arguments.pop("keywords"))
        if isinstance(keywords, list):
            keywords = [_number_as_text(keyword) for keyword in keywords]
            if not keywords and arguments.keys().isdisjoint(_FILTERS):
                raise ToolInputError('keywords must be a list of words or phrases, e.g. ["budget"]; got [].')
        limit = whole_number(arguments.pop("max_results", self.max_results), "max_results", MAX_RESULTS)
        hits, partial = self.search(scenario, keywords, min(limit, self.max_results), **arguments)
        text = prompts.search_results(hits, keywords, arguments, partial=partial)
        return ToolResult(text, searched=True, found=tuple(hit.message_id for hit in hits))

    def search(
        self, scenario: Scenario, keywords: Sequence[str], max_results: int | None = None, **filters: str
    ) -> tuple[list[SearchHit], bool]:
        """What `search_inbox` shows: the hits, and whether they match only some of the keywords.

        Raises:
            ToolInputError: an argument cannot be used.
        """
        common: dict[str, Any] = {
            "inbox": scenario.inbox,
            "keywords": keywords,
            "until": scenario.query_date,
            "max_results": max_results or self.max_results,
            "snippet_words": self.snippet_words,
            **filters,
        }
        hits = self.database.search(order=self.order, **common)
        if hits or not self.fallback_any:
            return hits, False
        hits = self.database.search(match="any", order="relevance", **common)
        return hits, bool(hits)

    def _read_email(self, arguments: dict[str, Any], scenario: Scenario) -> ToolResult:
        message_id = arguments["message_id"]
        email = self.database.read(message_id, inbox=scenario.inbox, until=scenario.query_date)
        if email is None:
            return ToolResult(prompts.unknown_email(message_id), unknown_id=True)
        return ToolResult(prompts.whole_email(email, self.max_body_chars), read=email.message_id)

    def _return_final_answer(self, arguments: dict[str, Any], scenario: Scenario) -> ToolResult:
        answer = _number_as_text(arguments["answer"])
        if not isinstance(answer, str) or not answer.strip():
            raise ToolInputError(f"answer must be a non-empty text, got {shown(answer)}.")
        references = (scenario.answer, *scenario.accepted)  # some are whole paragraphs
        if len(answer) > max(MAX_ANSWER_CHARS, *map(len, references)):
            raise ToolInputError(f"answer may have {MAX_ANSWER_CHARS} characters, got {len(answer)}. Be short.")
        sources = _listed(arguments["sources"])
        if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
            raise ToolInputError(f'sources must be a list of message ids, e.g. ["m12"]; got {shown(sources)}.')
        if len(sources) > MAX_SOURCES:
            raise ToolInputError(f"At most {MAX_SOURCES} sources, got {len(sources)}. Name the mails that say so.")
        unique = dict.fromkeys(filter(None, map(bare_message_id, sources)))
        return ToolResult(prompts.ANSWER_RECEIVED, answer=Answer(answer.strip(), tuple(unique)))


def _listed(value: Any) -> Any:
    """A lone string or number as a list of one; anything else as it is."""
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else value


def _number_as_text(value: Any) -> Any:
    """A number as text, as in `{"keywords": [2024]}`; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return str(value)
    except ValueError:  # an int of thousands of digits
        return value
