"""What follows from an episode's end is said in one table, which the documents show."""

import re

from grpo.ending import CONSEQUENCES, Ending
from tests import ROOT


def test_the_documents_show_the_table_of_endings():
    page = (ROOT / "docs" / "how-it-works.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \| (yes|no) \| (yes|no) \|$", page, re.MULTILINE)
    assert {Ending(name): tuple(said == "yes" for said in row) for name, *row in rows} == CONSEQUENCES


def test_what_is_compared_is_counted_and_what_is_counted_is_not_played_again():
    assert set(CONSEQUENCES) == set(Ending)
    for ending in Ending:
        assert ending.counted or not ending.compared
        assert ending.played_again is not ending.counted
