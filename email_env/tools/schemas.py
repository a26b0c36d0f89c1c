"""The three tools as OpenAI function schemas, and the right names for arguments that other tools call otherwise."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from judges.common.text import shown

_OTHER_NAMES = {
    "keywords": "query q queries keyword search search_query search_terms terms words phrase phrases text subject",
    "from_addr": "from sender from_address from_name author",
    "to_addr": "to recipient recipients to_address cc receiver",
    "sent_after": "after since start start_date date_from from_date date_after",
    "sent_before": "before until end end_date date_to to_date date_before",
    "max_results": "limit n k count size top_k num_results page_size",
    "offset": "start skip page from_index start_index position",
    "message_id": "id ids mail mail_id email_id email message uid",
    "answer": "final_answer result response text value",
    "sources": "source source_ids message_ids ids citations evidence references",
}


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What the tools show.

    Attributes:
        max_results: a search shows at most so many hits, 1 to 10.
        snippet_words: words of the body in a search hit.
        max_body_chars: a longer body is cut.
        order: of mail with all keywords, "newest" or "relevance".
        fallback_any: False: all keywords must occur. True: where no mail has them all, mail with any of them is shown,
            best match first. "fill": mail with some of the keywords' words fills what mail with all of them leaves of
            the list.
        terse: for small models: no argument `offset`, no counts of what is not shown, and short ids (`short_id`).
        repeat_question: the question stands again below a mail that is read.
    """

    max_results: int
    snippet_words: int
    max_body_chars: int
    order: str
    fallback_any: bool | str
    terse: bool
    repeat_question: bool = False


def tool_schemas(options: ToolOptions) -> list[dict[str, Any]]:
    """The tools as OpenAI function schemas, new objects at every call."""
    words = {"type": "array", "items": {"type": "string"}}
    search: dict[str, Any] = {
        "keywords": words | {"description": "Words, names or exact phrases; no operators."},
        "from_addr": {"type": "string", "description": "Sender's name or address."},
        "to_addr": {"type": "string", "description": "A recipient's name or address."},
        "sent_after": {"type": "string", "description": "First day, YYYY-MM-DD."},
        "sent_before": {"type": "string", "description": "Day after the last, YYYY-MM-DD."},
        "max_results": {"type": "integer", "minimum": 1, "maximum": options.max_results},
    }
    read: dict[str, Any] = {"message_id": {"type": "string", "description": "Id from the search results."}}
    if not options.terse:
        search["offset"] = {"type": "integer", "minimum": 0, "description": "Results to skip."}
        read["offset"] = {"type": "integer", "minimum": 0, "description": "Characters to skip."}
    answer = {
        "answer": {"type": "string", "description": 'Short answer, or "I don\'t know".'},
        "sources": dict(words) | {"description": "Ids of the mails that say so."},
    }
    return [
        _schema("search_inbox", _search_rule(options), search, ["keywords"] if options.terse else []),
        _schema("read_email", "Read a whole mail." if options.terse else "Read a mail.", read, ["message_id"]),
        _schema("return_final_answer", "Answer the question and end.", answer, ["answer", "sources"]),
    ]


def unknown_argument(tool: str, name: str, known: tuple[str, ...]) -> str:
    """What to say about an argument that the tool does not have."""
    others = (right for right, names in _OTHER_NAMES.items() if right in known and name.lower() in names.split())
    near = next(others, None) or next(iter(get_close_matches(name[:100], known, n=1)), None)
    hint = f" Did you mean {near}?" if near else ""
    return f"{tool} has no argument {shown(name)}.{hint} Its arguments: {', '.join(known)}."


def _search_rule(options: ToolOptions) -> str:
    first = "newest mail" if options.order == "newest" else "best match"
    if not options.fallback_any:
        return f"Search the inbox, {first} first. All keywords must occur in a mail."
    if options.fallback_any is True:
        return f"Search the inbox, {first} first. Where no mail has all keywords, mail with some of them is shown."
    return f"Search the inbox: mail with all keywords, {first} first, then mail with some of their words, best first."


def _schema(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
