"""HTML as text. A library reads it, because mail has HTML of every kind: this file only says what of it is text."""

from __future__ import annotations

import re

_NO_TAG = re.compile(r"<(?![A-Za-z/!?])")


def markup_text(page: str) -> str:
    """The text of a page, one line a block; scripts, styles and comments are no text."""
    from justhtml import JustHTML  # a third of a second, and most mail is plain

    whole = _NO_TAG.sub("&lt;", " ".join(page.split()))
    bodies = JustHTML(whole).query("body")
    blocks = bodies[0].to_text(separator="\n", separator_blocks_only=True, strip=False) if bodies else ""
    return "\n".join(line for line in (" ".join(block.split()) for block in blocks.split("\n")) if line)
