"""The JSON object that a judge is asked for: it stands at the end of the answer.

Reasoning and prose may stand before it, and a closing fence behind it, nothing else: an object that is followed by
words may be a draft, or a quotation of what is judged. What stands in a reasoning block, closed or not, is not read. Of
faults of JSON those are read that leave no choice (line breaks and tabs in a text; an object around the object); the
others are told by their place (docs/judging.md says why).
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from judges.common.text import as_utf8
from judges.errors import MalformedVerdict

_NAME = "(?:think|thought|reason|analysis|scratch|reflect)"
_PART = re.compile(
    r"(?P<object>\{\s*[\"'“”])"
    rf"|<(?P<end>/|\|/|\|end)?[^<>{{}}\n]{{0,40}}{_NAME}[^<>{{}}\n]{{0,40}}>"
    rf"|[\[◁](?P<end_of_word>/)?\w{{0,20}}{_NAME}\w{{0,20}}[\]▷]"
    r"|<\|channel(?:\|>(?P<final>final\b)?|>)|(?P<end_of_channel><channel\|>)",
    re.IGNORECASE,
)
"""What may begin an object; or a tag whose name speaks of thinking (``</think>``, ``[THINK]``, ``<|START_THINKING|>``),
or a channel of Harmony (gpt-oss), of which ``final`` ends the reasoning, or of Gemma. The other groups tell an end."""
_END_OF_ANSWER = re.compile(r"\s*(?:`{3,}|~{3,})?\s*")

MAX_ANSWER_CHARS = 200_000
"""A longer answer is not read: 64 entries with reasoning take about a tenth of it."""
MAX_FALSE_STARTS = 100
"""An answer with more braces that begin no object is not read: each may cost a look at all that follows it."""

MAX_FAULTS = 5
"""So many are told of an object that does not have its form."""

STRING = {"type": "string"}

Form = TypeVar("Form", bound=BaseModel)


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


def read_answer(content: str, form: type[Form], meaning: Callable[[Form], object] = lambda said: said) -> Form:
    """What the JSON object at the end of an answer says.

    Args:
        content: The answer as it came.
        form: Of the object; it has at least the form's first key.
        meaning: What must be equal in all objects of the answer; raises `MalformedVerdict` where an object means
            nothing, such as one with a label that was not asked for.

    Raises:
        MalformedVerdict: There is no such object at the end, it means nothing, or another one differs.
    """
    *others, last = _objects_with(content, next(iter(form.model_fields)))
    said = _in_form(last, form)
    meant = meaning(said)
    for other in others:
        try:
            differs = meaning(_in_form(other, form)) != meant
        except MalformedVerdict:
            continue  # it belongs to the data, or is a part
        if differs:
            raise MalformedVerdict("the answer holds two verdicts that differ; write one")
    return said


def _in_form(found: dict[str, Any], form: type[Form]) -> Form:
    """What an object says; the first faults are told in words that an LLM can act on."""
    try:
        return form.model_validate(found)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_FAULTS]
        told = (f"{'.'.join(map(str, fault['loc'])) or 'the object'}: {fault['msg']}" for fault in faults)
        raise MalformedVerdict(as_utf8("; ".join(told))) from None


def _objects_with(content: str, key: str) -> list[dict[str, Any]]:
    """The JSON objects with ``key`` after any reasoning, at least one; the last one ends the answer."""
    if not content.strip():
        raise MalformedVerdict("the answer is empty")
    if len(content) > MAX_ANSWER_CHARS:
        raise MalformedVerdict(f"the answer is longer than {MAX_ANSWER_CHARS} characters")
    objects, fault = _json_objects(content)
    found = [(end, _unwrapped(value, key)) for end, value in objects]
    found = [(end, value) for end, value in found if key in value]
    if not found:
        raise MalformedVerdict(
            f"there is no complete JSON object with the key {json.dumps(key)} at the end of the answer{fault}"
        )
    end, _ = found[-1]
    if not _END_OF_ANSWER.fullmatch(content, end):
        raise MalformedVerdict(as_utf8(f"the JSON object must end the answer, and {content[end:][:60]!r} follows it"))
    return [value for _, value in found]


def _unwrapped(value: dict[str, Any], key: str) -> dict[str, Any]:
    """The object in an object that holds nothing else, such as one under the schema's name."""
    while key not in value and len(value) == 1 and isinstance(inner := next(iter(value.values())), dict):
        value = inner
    return value


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; a key that stands in it twice has no one value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise MalformedVerdict("an object in the answer has a key twice")
    return found


def _json_objects(text: str) -> tuple[list[tuple[int, dict[str, Any]]], str]:
    """Every outermost JSON object after any reasoning, each with its end, and where the one that got furthest breaks.

    A tag inside an object is text that the judge quotes.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_without_doubles, strict=False)
    objects: list[tuple[int, dict[str, Any]]] = []
    is_reasoning = False
    false_starts = furthest = end = 0
    fault = ""
    while part := _PART.search(text, end):
        start, end = part.span()
        if not part["object"]:
            if part.lastgroup:
                objects, is_reasoning = [], False
            elif part[0].startswith("<|") or text[max(0, start - 80) : start].rstrip(" \t")[-1:] in "\n>]▷":
                is_reasoning = True  # elsewhere in a line a judge may speak of an agent's tag
            continue
        try:
            value, end = decoder.raw_decode(text, start)
        except MalformedVerdict:
            raise
        except ValueError as error:
            end = start + 1
            false_starts += 1
            if false_starts > MAX_FALSE_STARTS:
                raise MalformedVerdict(f"more than {MAX_FALSE_STARTS} braces in the answer begin no JSON") from None
            if isinstance(error, json.JSONDecodeError) and error.pos > furthest:
                furthest = error.pos
                near = as_utf8(text[max(start, error.pos - 20) : error.pos + 20])
                fault = f": {error.msg} at line {error.lineno}, column {error.colno}, in {near!r}"
        except RecursionError:
            raise MalformedVerdict("the JSON of the answer is nested too deeply") from None
        else:
            objects.append((end, value))
    if is_reasoning:
        raise MalformedVerdict("the answer ends within its reasoning")
    return objects, fault
