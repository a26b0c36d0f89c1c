"""The text of docs/settings.md, from the fields of the configs; ``python -m tests.support.settings_page`` writes it."""

import json
from collections.abc import Iterator

from pydantic.fields import FieldInfo

from grpo.cli.options import what_it_takes
from grpo.config import GROUPS, EvalConfig, TrainConfig, settings_of
from grpo.settings import AtResume, Settings
from tests import ROOT

PAGE = ROOT / "docs" / "settings.md"

INTRODUCTION = """\
# Settings

You want to know what can be set, what it is by default, and what may change when a run goes on.

`--set NAME=VALUE` sets any of these, and a [recipe](training.md#settings) those of `grpo-train`. A value is JSON, or text. `null` is none. With `--resume`
a setting must be what it was, unless the last column says otherwise: one that may have moved is a path whose file or folder lies elsewhere now.

This page is made from the code (`python -m tests.support.settings_page`).
"""


def page() -> str:
    """The page."""
    return "\n".join([INTRODUCTION, *_command("grpo-train", TrainConfig), *_command("grpo-eval", EvalConfig)])


def _command(name: str, kind: type[Settings]) -> Iterator[str]:
    fields = settings_of(kind)
    yield from (f"## {name}", "", *_table({key: field for key, field in fields.items() if "." not in key}))
    for group in GROUPS:
        inner = kind.model_fields.get(group)
        if inner is None:
            continue
        if kind is EvalConfig:
            yield f"And the group [{group}](#{group}), as above.\n"
            continue
        assert isinstance(inner.default, Settings)
        yield from (f"### {group}", "", f"{inner.default.__doc__}\n")
        yield from _table({key: field for key, field in fields.items() if key.startswith(f"{group}.")})


def _table(fields: dict[str, FieldInfo]) -> Iterator[str]:
    yield "| setting | value | default | what it is | with `--resume` |"
    yield "|---|---|---|---|---|"
    for name, field in fields.items():
        default = "" if field.is_required() else f"`{json.dumps(field.get_default(call_default_factory=True))}`"
        mark = next((mark.value for mark in field.metadata if isinstance(mark, AtResume)), "")
        cells = (f"`{name}`", what_it_takes(field), default, field.description, mark)
        yield f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
