"""The table of families in docs/models.md; ``python -m tests.support.models_page`` writes it."""

from grpo.devices.families import FAMILIES
from tests import ROOT
from tests.support.families import TINY

PAGE = ROOT / "docs" / "models.md"
BEGIN, END = "<!-- families: made by tests/support/models_page.py -->\n", "<!-- end of families -->\n"


def table() -> str:
    """A row for each family; its sizes are known, and the learner tested, where there is a tiny model of it."""
    rows = [
        "| family | `model_type` | besides attention and dense MLPs | sizes known | learner is transformers | served here "
        "| calls, and its template | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        tested = any(kind in TINY for kind in family.kinds)
        kinds = ", ".join(f"`{kind}`" for kind in family.kinds)
        said = (family.name, kinds, family.beside or "–", _word(tested), _word(tested), _word(family.served))
        rows.append(f"| {' | '.join([*said, family.calls, family.verdict])} |")
    return "\n".join([*rows, ""])


def _word(fact: bool) -> str:
    return "yes" if fact else "no"


def with_table(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
