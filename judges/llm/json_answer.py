"""The JSON object that a judge is asked for, and how it is found in the raw answer.

Fences, prose around the object and a reasoning block before it are accepted. What stands in a reasoning block, closed
or not, is a draft and never the verdict.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from judges.common.text import as_utf8
from judges.errors import MalformedVerdict

_NAME = "(?:seed:)?(?:think|thinking|thought|reasoning)"
_BEGIN_OF_REASONING = re.compile(rf"(?:^[ \t]*|(?<=>))(?:<{_NAME}>|\[think\]|◁think▷)", re.IGNORECASE | re.MULTILINE)
"""At the beginning of a line or after a tag: elsewhere a judge that writes prose may speak of an agent's tag."""
_END_OF_REASONING = re.compile(rf"</{_NAME}>|\[/think\]|◁/think▷", re.IGNORECASE)
_BEGIN_OF_OBJECT = re.compile(r'\{\s*"')

MAX_ANSWER_CHARS = 200_000
"""A longer answer is not read: 64 entries with reasoning take about a tenth of it."""
MAX_FALSE_STARTS = 100
"""An answer with more braces that begin no object is not read: each may cost a look at all that follows it."""

MAX_FAULTS = 5
"""So many are told of an object that does not have its form."""

STRING = {"type": "string"}

Form = TypeVar("Form", bound=BaseModel)

_Objects = list[tuple[int, int, dict[str, Any]]]
"""Start and end in the text, and the object."""


def response_format(name: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Structured output for providers that have it: an object with exactly these properties."""
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": exact_object(**properties)},
    }


def exact_object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def objects_with(content: str, key: str) -> list[dict[str, Any]]:
    """The JSON objects with ``key`` that stand after any reasoning, at least one.

    Raises:
        MalformedVerdict: There is none.
    """
    if not content.strip():
        raise MalformedVerdict("the answer is empty")
    if len(content) > MAX_ANSWER_CHARS:
        raise MalformedVerdict(f"the answer is longer than {MAX_ANSWER_CHARS} characters")
    objects = _json_objects(content)

    def last(tag: re.Pattern[str]) -> int:
        """The end of the last such tag; one inside an object is text that the judge quotes."""
        ends = [match.end() for match in tag.finditer(content)]
        return max((end for end in ends if not _is_inside(end, objects)), default=0)

    reasoning_end = last(_END_OF_REASONING)
    if last(_BEGIN_OF_REASONING) > reasoning_end:
        raise MalformedVerdict("the answer ends within its reasoning")
    found = [value for start, _, value in objects if start >= reasoning_end and key in value]
    if not found:
        raise MalformedVerdict(f"there is no complete JSON object with the key {json.dumps(key)} in the answer")
    return found


def read_answer(content: str, form: type[Form]) -> Form:
    """What the last JSON object with the first key of a form says.

    Raises:
        MalformedVerdict: There is none, or it does not have the form.
    """
    return in_form(objects_with(content, next(iter(form.model_fields)))[-1], form)


def in_form(found: dict[str, Any], form: type[Form]) -> Form:
    """What an object of an answer says, in a form.

    Raises:
        MalformedVerdict: It does not have the form; the first faults are told in words that an LLM can act on.
    """
    try:
        return form.model_validate(found)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_FAULTS]
        told = (f"{'.'.join(map(str, fault['loc'])) or 'the object'}: {fault['msg']}" for fault in faults)
        raise MalformedVerdict(as_utf8("; ".join(told))) from None


def _is_inside(place: int, objects: _Objects) -> bool:
    before = bisect_left(objects, place, key=lambda found: found[0])
    return before > 0 and place <= objects[before - 1][1]


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; a key that stands in it twice has no one value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise MalformedVerdict("an object in the answer has a key twice")
    return found


def _json_objects(text: str) -> _Objects:
    """Every outermost JSON object in a text, with its start and end."""
    decoder = json.JSONDecoder(object_pairs_hook=_without_doubles)
    objects: _Objects = []
    false_starts = 0
    begin = _BEGIN_OF_OBJECT.search(text)
    while begin:
        try:
            value, end = decoder.raw_decode(text, begin.start())
        except MalformedVerdict:
            raise
        except ValueError:
            end = begin.start() + 1
            false_starts += 1
            if false_starts > MAX_FALSE_STARTS:
                raise MalformedVerdict(f"more than {MAX_FALSE_STARTS} braces in the answer begin no JSON") from None
        except RecursionError:
            raise MalformedVerdict("the JSON of the answer is nested too deeply") from None
        else:
            objects.append((begin.start(), end, value))
        begin = _BEGIN_OF_OBJECT.search(text, end)
    return objects
