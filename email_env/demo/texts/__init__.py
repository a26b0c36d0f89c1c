"""The words and sentences of the bundled mailboxes: read from the TOML files beside this one, when it is imported.

Each file says what its tables mean. A name in braces, `{project}`, is filled in by the story that uses the sentence.
"""

import tomllib
from importlib.resources import files
from typing import Any

Texts = dict[str, list[str]]


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


NAMES: dict[str, Texts] = _load("names")
"""Split -> its names."""
_WORDS = _load("things")
THINGS: Texts = {kind: words for kind, words in _WORDS.items() if isinstance(words, list)}
SYNONYMS: dict[str, Texts] = {kind: words for kind, words in _WORDS.items() if kind not in THINGS}
"""Of some things: thing -> its two synonyms."""
MAILS: dict[str, Texts] = _load("mails")
"""Sort of mail -> its subjects and sentences, which are drawn independently."""
WORDINGS: dict[str, dict[str, Any]] = _load("questions")
"""Kind of question -> its wordings by style, and the searches that may find each mail to be found."""
NOISE: dict[str, list[Any]] = _load("noise")

_PHRASES = _load("phrases")
CLOSINGS: list[str] = _PHRASES["closings"]
PARAGRAPHS: list[str] = _PHRASES["paragraphs"]
TEMPTATIONS: list[str] = _PHRASES["temptations"]
CHAT: Texts = _PHRASES["chat"]
DESK: Texts = _PHRASES["desk"]
STATEMENT: Texts = {part: CHAT[part] + _PHRASES["statement"][part] for part in CHAT}
