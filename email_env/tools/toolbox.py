"""The three tools: their schemas, the check of their arguments, and what they do.

A `Toolbox` runs one call for one scenario and returns what came of it. It shows the scenario's inbox up to the
scenario's day and nothing else. A call that cannot be run gives a result with an error code and a text for the model,
never an exception; an exception means that the database itself is at fault. `email_env.reward` decides what a
result is worth.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from email_env.errors import ToolInputError
from email_env.scenarios.scenario import Scenario
from email_env.search.database import MailDatabase
from email_env.search.query import MAX_OFFSET, MAX_RESULTS, bare_message_id, whole_number
from email_env.tools import prompts
from email_env.tools.actions import TOOL_NAMES
from email_env.tools.found import Finder
from email_env.tools.ids import long_id, short_id
from email_env.tools.schemas import ToolOptions, tool_schemas, unknown_argument
from judges.common.text import shown
from judges.common.tool_calls import Call, ErrorCode, Fault

MAX_ANSWER_CHARS = 2000
MAX_SOURCES = 50
MAX_BODY_OFFSET = 1_000_000_000
MIN_QUOTED_WORDS = 8
"""A shorter evidence ("Yes, do it.") says nothing by standing in another mail."""
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
        read: id of the mail that was read, and of the evidence that it quotes as a whole; empty where none was.
        unknown_id: whether the call asked for an id that this inbox does not show.
        answer: the final answer, where the call gave one.
    """

    text: str
    error: ErrorCode = ErrorCode.NONE
    call_id: str = ""
    searched: bool = False
    found: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    unknown_id: bool = False
    answer: Answer | None = None


class Toolbox:
    """Runs calls against a mail database.

    Args:
        database: the mail.
        options: what is shown of it.
    """

    def __init__(self, database: MailDatabase, options: ToolOptions) -> None:
        self.database = database
        self.options = options
        self.finder = Finder(database, options)
        self._arguments = {
            schema["function"]["name"]: (
                tuple(schema["function"]["parameters"]["properties"]),
                tuple(schema["function"]["parameters"]["required"]),
            )
            for schema in tool_schemas(options)
        }
        self._tools: dict[str, Callable[[dict[str, Any], Scenario], ToolResult]] = {
            "search_inbox": self._search_inbox,
            "read_email": self._read_email,
            "return_final_answer": self._return_final_answer,
        }

    def run(self, call: Call | Fault, scenario: Scenario) -> ToolResult:
        """Runs one call; a mistake of the model becomes a result with an error code."""
        if isinstance(call, Fault):
            return ToolResult(prompts.error(call.message), call.code, call.call_id)
        if call.name not in self._tools:
            message = f"there is no tool {shown(call.name)}. The tools are {', '.join(TOOL_NAMES)}."
            return ToolResult(prompts.error(message), ErrorCode.UNKNOWN_TOOL, call.call_id)
        try:
            result = self._tools[call.name](self._checked(call), scenario)
        except ToolInputError as error:
            return ToolResult(prompts.error(str(error)), ErrorCode.BAD_ARGS, call.call_id)
        return replace(result, call_id=call.call_id)

    def _checked(self, call: Call) -> dict[str, Any]:
        """The given arguments, checked by name. Null and "" mean that an optional argument is left out."""
        known, required = self._arguments[call.name]
        if call.name == "search_inbox":
            required = ("keywords",)
        for name in call.arguments:
            if name not in known:
                raise ToolInputError(unknown_argument(call.name, name, known))
        given = {name: value for name, value in call.arguments.items() if name in required or not _is_left_out(value)}
        if given.get("keywords") is None and not given.keys().isdisjoint(_FILTERS):  # they say enough
            given["keywords"] = []
        if missing := [name for name in required if given.get(name) is None]:
            lacks = "keywords, a person or a day" if missing == ["keywords"] else " and ".join(missing)
            raise ToolInputError(f"{call.name} needs {lacks}. Its arguments: {', '.join(known)}.")
        return given

    def _search_inbox(self, arguments: dict[str, Any], scenario: Scenario) -> ToolResult:
        keywords = _listed(arguments.pop("keywords"))
        if isinstance(keywords, list):
            keywords = [_number_as_text(keyword) for keyword in keywords if not _is_left_out(keyword)]
            if not keywords and arguments.keys().isdisjoint(_FILTERS):
                raise ToolInputError('keywords must be a list of words or phrases, e.g. ["budget"]; got [].')
        most = self.options.max_results
        limit = whole_number(arguments.pop("max_results", most), "max_results", MAX_RESULTS)
        offset = whole_number(arguments.pop("offset", 0), "offset", MAX_OFFSET, least=0)
        found = self.finder.find(scenario, keywords, min(limit, most), offset, **arguments)
        listed = [replace(hit, message_id=self.shown_id(hit.message_id)) for hit in found.hits]
        text = prompts.search_results(replace(found, hits=tuple(listed)), keywords, arguments, terse=self.options.terse)
        return ToolResult(text, searched=True, found=tuple(hit.message_id for hit in found.hits))

    def shown_id(self, message_id: str) -> str:
        """The id of a mail as a search lists it."""
        return short_id(self.database, message_id) if self.options.terse else message_id

    def _meant_id(self, given: str) -> str:
        """The id that a model means."""
        return bare_message_id(long_id(self.database, given) if self.options.terse else given)

    def _read_email(self, arguments: dict[str, Any], scenario: Scenario) -> ToolResult:
        message_id = arguments["message_id"] = _number_as_text(arguments["message_id"])
        if isinstance(message_id, str):
            message_id = self._meant_id(message_id)
        email = self.database.read(message_id, inbox=scenario.inbox, until=scenario.query_date)
        if email is None:
            return ToolResult(prompts.unknown_email(arguments["message_id"]), unknown_id=True)
        offset = whole_number(arguments.get("offset", 0), "offset", MAX_BODY_OFFSET, least=0)
        text = prompts.whole_email(email, self.options.max_body_chars, offset, terse=self.options.terse)
        read = (email.message_id, *self._quoted(text, email.message_id, scenario))
        again = prompts.question_again(scenario.question) if self.options.repeat_question else ""
        return ToolResult(text + again, read=read)

    def _quoted(self, text: str, message_id: str, scenario: Scenario) -> Iterator[str]:
        """The evidence whose body stands in the text, as in an answer to it or where it was forwarded."""
        for other in scenario.message_ids:
            if other == message_id:
                continue
            evidence = self.database.read(other, inbox=scenario.inbox, until=scenario.query_date)
            words = unquoted(evidence.body) if evidence else ""
            if len(words.split()) >= MIN_QUOTED_WORDS and words in unquoted(text):
                yield other

    def _return_final_answer(self, arguments: dict[str, Any], scenario: Scenario) -> ToolResult:
        answer = _number_as_text(arguments["answer"])
        if not isinstance(answer, str) or not answer.strip():
            raise ToolInputError(f"answer must be a non-empty text, got {shown(answer)}.")
        references = (scenario.answer, *scenario.accepted)  # some are whole paragraphs
        if len(answer) > max(MAX_ANSWER_CHARS, *map(len, references)):
            raise ToolInputError(f"answer may have {MAX_ANSWER_CHARS} characters, got {len(answer)}. Be short.")
        sources = _listed(arguments["sources"])
        if isinstance(sources, list):
            sources = [_number_as_text(source) for source in sources]
        if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
            raise ToolInputError(f'sources must be a list of message ids, e.g. ["m12"]; got {shown(sources)}.')
        if len(sources) > MAX_SOURCES:
            raise ToolInputError(f"At most {MAX_SOURCES} sources, got {len(sources)}. Name the mails that say so.")
        unique = dict.fromkeys(filter(None, map(self._meant_id, sources)))
        return ToolResult(prompts.ANSWER_RECEIVED, answer=Answer(answer.strip(), tuple(unique)))


def unquoted(text: str) -> str:
    """The text on one line, without marks of quotation."""
    return " ".join(re.sub(r"^[>| \t]+", "", text, flags=re.MULTILINE).split())


def _is_left_out(value: Any) -> bool:
    """Whether a value stands for none: null or an empty text."""
    return value is None or (isinstance(value, str) and not value.strip())


def _listed(value: Any) -> Any:
    """A lone string or number as a list of one; anything else as it is."""
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else value


def _number_as_text(value: Any) -> Any:
    """A number as text, as in `{"keywords": [2024]}`; anything else as it is."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
