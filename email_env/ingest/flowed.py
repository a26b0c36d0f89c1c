"""`format=flowed` text (RFC 3676): a line that ends with a blank goes on in the next one of the same quote depth."""

from __future__ import annotations

_SIGNATURE = "-- "


def unflowed(text: str, *, delete_space: bool) -> str:
    """The text with each paragraph on one line.

    Args:
        text: with `\\n` line ends.
        delete_space: `DelSp=yes`: the blank at the end of a line is no part of the text, as between words of Chinese.
    """
    lines: list[list[str]] = []
    open_depth = -1  # of the paragraph that goes on; -1 where none does
    for line in text.split("\n"):
        unquoted = line.lstrip(">")
        depth = len(line) - len(unquoted)
        words = unquoted.removeprefix(" ")  # put there so that a line does not look quoted
        goes_on = words.endswith(" ") and words != _SIGNATURE
        if depth != open_depth or words == _SIGNATURE:
            lines.append([">" * depth + " " if depth else ""])
        lines[-1].append(words[:-1] if goes_on and delete_space else words)
        open_depth = depth if goes_on else -1
    return "\n".join("".join(parts) for parts in lines)
