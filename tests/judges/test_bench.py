"""The benchmark of the judge's prompt: its groups, its reference forms, and its token goals (times are not asserted)."""

import json
import subprocess
import sys

import pytest

from tests import ROOT

pytest.importorskip("litellm", reason="judges need litellm (install the extra 'judge')")

from scripts.judging.groups import mail_groups
from scripts.judging.reference import prefix_once, scores_by_position, send_everything


def test_the_groups_are_different_episodes_of_one_question_with_several_turns():
    for group in mail_groups(2, 8):
        assert len({json.dumps(messages) for messages in group.message_lists}) == 8
        assert len({json.dumps(messages[:2]) for messages in group.message_lists}) == 1
        assert sum(map(len, group.message_lists)) / 8 > 6
        assert group.tools[0]["function"]["name"] == "search_inbox"
        twice = group.with_duplicates()
        assert len(twice) == 8
        assert twice[::2] == twice[1::2] == group.message_lists[:4]


def test_the_reference_forms_hold_every_message_and_the_common_ones_once_or_each_time():
    start = [{"role": "user", "content": "the question"}]
    lists = [[*start, {"role": "assistant", "content": answer}] for answer in ("one", "two", "two")]
    everything, once = (form(lists, [])[1]["content"] for form in (send_everything, prefix_once))
    assert [text.count("the question") for text in (everything, once)] == [3, 1]
    assert [text.count('"two"') for text in (everything, once)] == [2, 2]
    assert scores_by_position('{"scores": [{"score": 0.1}, {"score": 1}]}', 2) == [0.1, 1.0]


def test_the_token_goals_are_met():
    command = [sys.executable, "scripts/bench_ruler", "--groups", "6", "--rounds", "1", "--sizes", "4", "8"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    rows = [line.split() for line in shown.splitlines()[1:] if not line.startswith("goal missed: size 8: ")]
    shares = {(int(size), duplicates): float(share) for size, duplicates, _, share, *_ in rows}
    assert shares.keys() == {(4, "none"), (4, "half"), (8, "none"), (8, "half")}
    assert all(share <= (0.60 if duplicates == "half" else 1.02) for (_, duplicates), share in shares.items()), shown
