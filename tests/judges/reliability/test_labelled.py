"""Files of labelled groups: what is read, and how a wrong line is named."""

import json
from dataclasses import asdict

import pytest

from judges import JudgeInputError, LabelledGroup
from judges.reliability.groups import read_labelled

QUESTION = {"role": "user", "content": "2 + 2?"}


def answers(*texts):
    return [[QUESTION, {"role": "assistant", "content": text}] for text in texts]


def test_a_file_gives_the_groups_that_were_written(tmp_path):
    groups = [
        LabelledGroup(answers("4", "5"), [1, 0]),
        LabelledGroup(answers("4", "four", "5"), [2, 1, 0.5], tools=[{"name": "calculator"}], rubric="Be short."),
    ]
    path = tmp_path / "l.jsonl"
    path.write_text("\n\n".join(json.dumps(asdict(group)) for group in groups))
    assert read_labelled(path) == groups


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "holds no group"),
        ("{", "no line of .* can be used: line 1 is not JSON"),
        ("[]", "line 1 is not a JSON object"),
        ("{}", 'line 1 must be an object with the lists "trajectories" and "labels"'),
        ('{"trajectories": [[]], "labels": [1, 2]}', "line 1 a group needs one label or score per trajectory, got 1"),
        ('{"trajectories": [[]], "labels": ["good"]}', "line 1 a label or score must be a finite number, got 'good'"),
        ('{"trajectories": [[]], "labels": [1]}', "line 1 trajectory 1 must be a non-empty list of messages"),
        ('{"trajectories": [[{"content": "a"}]], "labels": [1]}', 'must be a dict with a string "role"'),
        (
            '{"trajectories": [[{"role": "user"}]], "labels": [1], "tools": 3}',
            "tools must be a list of function schemas",
        ),
        ('{"trajectories": [[]], "labels": [NaN]}', "a label or score must be a finite number, got nan"),
        (
            '{"trajectories": [[]], "labels": [1' + "0" * 400 + "]}",
            "a label or score must be a finite number, got 1000",
        ),
        ("[" * 100_000, r"line 1 is not JSON \(maximum recursion depth"),
        ("9" * 5000, r"line 1 is not JSON \(Exceeds the limit"),
        ('{"trajectories": [], "labels": [], "tool": []}', "unknown key 'tool'; did you mean 'tools'?"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    path = tmp_path / "l.jsonl"
    path.write_text(line)
    with pytest.raises(JudgeInputError, match=message):
        read_labelled(path)


def test_damaged_lines_are_named_and_passed_over_and_the_others_are_taken(tmp_path, caplog):
    good = LabelledGroup(answers("4\u2028", "5\u0085"), [10**300, -(10**300)])
    line = json.dumps(asdict(good), ensure_ascii=False).encode()
    damaged = [b"{", b"\xff" + line, b"\x00" * 40, line[:-20], b"null", b"\xef\xbb\xbf[]", b'{"labels": [1]}']
    path = tmp_path / "l.jsonl"
    path.write_bytes(b"\r\n".join([b"\xef\xbb\xbf" + line, *damaged, b"", b"\xef\xbb\xbf" + line]))
    assert read_labelled(path) == [good, good]
    assert caplog.text.count("passed over in") == 1
    for words in ("l.jsonl: line 2 is not JSON", "line 6 is not a JSON object", "; and 2 more"):
        assert words in caplog.text


def test_a_file_in_utf_16_is_refused(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_text(json.dumps(asdict(LabelledGroup(answers("4"), [1]))) + "\n", encoding="utf-16")
    with pytest.raises(JudgeInputError, match=r"no line of .* can be used: line 1"):
        read_labelled(path)
    with pytest.raises(JudgeInputError, match=r"cannot be read: .*Is a directory"):
        read_labelled(tmp_path)
