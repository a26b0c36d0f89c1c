"""The HTML of a page: template, style, script and the episodes as JSON, in one file that loads nothing."""

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from grpo.chat.transcript import opening_of
from grpo.report.episodes import Episodes
from grpo.report.transcripts import Pair

FOLDER = Path(__file__).parent
SCRIPTS = ("charts.js", "explorer.js")

_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&"}


@dataclass(slots=True)
class Page:
    """What stands on a page; the template draws each part that is there.

    Attributes:
        kind: ``Training report`` or ``Evaluation``.
        name: Of the folder.
        title: Heading.
        subtitle: Beside it, softer.
        conclusion: One sentence from the data alone.
        tone: ``up``, ``down`` or ``noise``.
        warnings: What a reader must not miss.
        facts: Labels and values.
        sections: Names of the parts with their data, for the template.
        episodes: The data of every episode that is shown.
        pairs: Episodes to look at first.
        pairs_note: How they were chosen.
        config_rows: The settings.
    """

    kind: str
    name: str
    title: str
    subtitle: str
    conclusion: str
    tone: str
    episodes: Episodes
    warnings: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    sections: dict[str, Any] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    pairs_note: str = ""
    config_rows: list[tuple[str, str]] = field(default_factory=list)


def render(page: Page) -> Iterator[str]:
    """The page as HTML, piece by piece: its episodes have up to a hundred million letters."""
    script = "".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    warnings = list(page.warnings)
    if page.episodes.without_transcript:
        warnings.append(f"{page.episodes.without_transcript:,} episodes are listed without their transcripts: no room.")
    templates = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("template.html.j2").generate(
        page=page,
        s=defaultdict(list, page.sections),
        warnings=warnings,
        opening_of=opening_of,
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        data=as_script_data(page.episodes.to_data(page.pairs)) if len(page.episodes) else None,
    )


def as_script_data(lists: Mapping[str, Sequence[Any]]) -> Iterator[Markup]:
    """JSON for a ``<script type="application/json">``; without ``<``, ``>`` and ``&`` nothing can end the element.

    Args:
        lists: By their names; every entry of one is a piece.
    """
    yield Markup("{")
    for place, (name, entries) in enumerate(lists.items()):
        yield Markup("," if place else "") + _json(name) + Markup(":[")
        for number, entry in enumerate(entries):
            yield Markup("," if number else "") + _json(entry)
        yield Markup("]")
    yield Markup("}")


def _json(value: Any) -> Markup:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_UNSAFE))


def settings(config: dict[str, Any]) -> list[tuple[str, str]]:
    """A config as rows of text."""
    return [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in config.items()]
