"""Files of labelled groups: what is read, and how a wrong line is named."""

import json
from dataclasses import asdict

import pytest

from judges import JudgeInputError, LabelledGroup
from judges.reliability.labelled import read_labelled

QUESTION = {"role": "user", "content": "2 + 2?"}


def answers(*texts):
    return [[QUESTION, {"role": "assistant", "content": text}] for text in texts]


def test_a_file_gives_the_groups_that_were_written(tmp_path):
    groups = [
        LabelledGroup(answers("4", "5"), [1, 0]),
        LabelledGroup(answers("4", "four", "5"), [2, 1, 0.5], tools=[{"name": "calculator"}]),
    ]
    path = tmp_path / "l.jsonl"
    path.write_text("\n\n".join(json.dumps(asdict(group)) for group in groups))
    assert read_labelled(path) == groups


def test_a_text_may_hold_a_line_separator_and_the_file_may_begin_with_a_byte_order_mark(tmp_path):
    group = LabelledGroup(answers("4\u20285", "5\u0085"), [1, 0])
    path = tmp_path / "l.jsonl"
    path.write_text(json.dumps(asdict(group), ensure_ascii=False) + "\r\n", encoding="utf-8-sig")
    assert read_labelled(path) == [group]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "holds no group"),
        ("{", "line 1 of .* is not JSON"),
        ("[]", 'line 1 of .* must be an object with the lists "trajectories" and "labels"'),
        ('{"trajectories": [[]], "labels": [1, 2]}', "line 1 of .*: a group needs one label per trajectory, got 1"),
        ('{"trajectories": [[]], "labels": ["good"]}', "line 1 of .*: a label must be a finite number, got 'good'"),
        ('{"trajectories": [[]], "labels": [NaN]}', "a label must be a finite number, got nan"),
        ('{"trajectories": [[]], "labels": [1' + "0" * 400 + "]}", "a label must be a finite number, got 1000"),
        ("[" * 100_000, "line 1 of .* is not JSON: maximum recursion depth"),
        ('{"trajectories": [], "labels": [], "tool": []}', "unknown key 'tool'; did you mean 'tools'?"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    path = tmp_path / "l.jsonl"
    path.write_text(line)
    with pytest.raises(JudgeInputError, match=message):
        read_labelled(path)
