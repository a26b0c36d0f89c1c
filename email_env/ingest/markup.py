"""HTML and `text/enriched` as text. A library reads HTML, because mail has it of every kind: this file only says what
of it is text."""

from __future__ import annotations

import re

_NO_TAG = re.compile(r"<(?![A-Za-z/!?])")
_BLOCKS = (
    "address|article|aside|center|d[dlt]|details|fieldset|figcaption|figure|footer|form|header|legend|main|nav|option"
    "|section|summary|button"
)
_BLOCK = re.compile(rf"<(?=/?(?:{_BLOCKS})\b)", re.IGNORECASE)  # the library takes these tags out first
_ENRICHED = re.compile(r"<param>[^<]*+</param>|</?[A-Za-z][A-Za-z0-9-]{0,59}>|(?P<kept><)<", re.IGNORECASE)
_PRE = re.compile(r"(</?pre\b[^<>]*+>)", re.IGNORECASE)


def markup_text(page: str) -> str:
    """The text of a page, one line a block; scripts, styles and comments are no text."""
    from justhtml import JustHTML  # a third of a second, and most mail is plain

    parts = _PRE.split(page)
    for place in range(1, len(parts) - 1, 2):
        if not parts[place].startswith("</"):
            parts[place + 1] = parts[place + 1].replace("\n", "<br>")
    whole = _BLOCK.sub("<br><", _NO_TAG.sub("&lt;", " ".join("".join(parts).split())))
    bodies = JustHTML(whole).query("body")
    blocks = bodies[0].to_text(separator="\n", separator_blocks_only=True, strip=False) if bodies else ""
    return "\n".join(line for line in (" ".join(block.split()) for block in blocks.split("\n")) if line)


def enriched_text(text: str) -> str:
    """The text of `text/enriched` (RFC 1896): one line end is a blank, and of more there is one less."""
    lines = re.sub(r"\n(\n*)", lambda found: found[1] or " ", text.replace("\r\n", "\n").strip())
    return _ENRICHED.sub(lambda found: found["kept"] or "", lines)
