"""The benchmark of the judge's prompt: its groups, its reference form, and its token goals (times are not asserted)."""

import json
import runpy
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests import ROOT

pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")


@pytest.fixture(scope="module")
def bench():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "bench_ruler")))


def test_the_groups_are_different_episodes_of_one_question_with_several_turns(bench):
    for group in bench.mail_groups(2, 8):
        assert len({json.dumps(messages) for messages in group.message_lists}) == 8
        assert len({json.dumps(messages[:2]) for messages in group.message_lists}) == 1
        assert sum(map(len, group.message_lists)) / 8 > 6
        assert group.tools[0]["function"]["name"] == "search_inbox"
        twice = group.with_duplicates()
        assert len(twice) == 8
        assert twice[::2] == twice[1::2] == group.message_lists[:4]


def test_the_reference_form_holds_every_message_and_the_common_ones_once(bench):
    start = [{"role": "user", "content": "the question"}]
    lists = [[*start, {"role": "assistant", "content": answer}] for answer in ("one", "two", "two")]
    text = bench.prefix_once(lists, [])[1]["content"]
    assert [text.count(part) for part in ("the question", '"one"', '"two"')] == [1, 1, 2]


def test_the_token_goals_are_met():
    command = [sys.executable, "scripts/bench_ruler", "--groups", "6", "--rounds", "1", "--sizes", "4", "8"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    rows = [line.split() for line in shown.splitlines()[1:]]
    shares = {(int(size), duplicates): float(share) for size, duplicates, _, share, _ in rows}
    assert shares.keys() == {(4, "none"), (4, "half"), (8, "none"), (8, "half")}
    assert all(share <= (0.60 if duplicates == "half" else 1.02) for (_, duplicates), share in shares.items()), shown
