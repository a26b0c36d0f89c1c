import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import MalformedVerdict
from judges.scoring.verdict import parse_verdict
from tests.support.judge_server import verdict

GOOD = verdict([("kqz", 0.25, "half way"), ("bnt", 1, "done")])


def scores(content):
    return {label: entry.score for label, entry in parse_verdict(content, ("kqz", "bnt")).items()}


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\nI hope this helps.",
        f"Here is {{my}} verdict:\n\n{GOOD}\n\nkqz was better than {{expected}}.",
        f"<think>\nlet me see {{ kqz\n</think>\n{GOOD}",
        f"first thought {verdict([('kqz', 0.9, 'a')])}</think>{GOOD}",
        f"Draft: {verdict([('kqz', 0.9, 'a'), ('bnt', 0.1, 'b')])}\nFinal: {GOOD}",
        json.dumps(json.loads(GOOD), indent=2),
        f"[THINK]hm[/THINK]{GOOD}",
        f"The attempt kqz has a <think> without an end.\n{GOOD}",
        f"{GOOD}\nkqz never closed its <think>.",
        "{x} " * 1_000 + GOOD,
    ],
)
def test_a_verdict_is_found_within_fences_prose_and_after_reasoning(content):
    assert scores(content) == {"kqz": 0.25, "bnt": 1.0}


def test_a_closing_tag_inside_an_explanation_does_not_cut_the_verdict():
    content = verdict([("kqz", 0.25, "it wrote </think> {"), ("bnt", 0.5, "")])
    assert parse_verdict(content, ("kqz", "bnt"))["kqz"].explanation == "it wrote </think> {"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the answer is empty"),
        ("  \n", "the answer is empty"),
        ("I cannot grade this.", 'no complete JSON object with the key "scores"'),
        (GOOD[:-10], 'no complete JSON object with the key "scores"'),
        (f"<think>{GOOD}</think> I am done.", 'no complete JSON object with the key "scores"'),
        ('{"scores": "high"}', "^scores: Input should be a valid list$"),
        ('{"scores": [0.1, 0.2]}', "^scores.0: Input should be a valid dictionary or instance of Entry; scores.1: "),
        ('{"a":' * 40_000, "nested too deeply"),
        (f"<think>\nDraft: {GOOD}\nBut is that", "ends within its reasoning"),
        (f"Well.\n <THINKING>{GOOD}", "ends within its reasoning"),
        (f"<think>a</think><think>{GOOD}", "ends within its reasoning"),
        (f"[THINK]{GOOD}", "ends within its reasoning"),
        (GOOD.replace('"score": 1', '"score": 0, "score": 1'), "an object in the answer has a key twice"),
        ("{" * 200_001, "longer than 200000 characters"),
        (GOOD + " " * 200_000, "longer than 200000 characters"),
        ('{"' * 100_000, "more than 100 braces in the answer begin no JSON"),
        ("{" * 200_000, 'no complete JSON object with the key "scores"'),
        (verdict([("kqz", 0.1, "a")]), "^no entry for the ids: bnt$"),
        (verdict([("kqz", 0.1, "a"), ("bnt", 0.1, "b"), ("kqz", 0.9, "c")]), "^more than one entry for the ids: kqz$"),
        (
            verdict([("kqz", 0.1, "a"), ("2", 0.1, "b")]),
            '^no entry for the ids: bnt; entries for ids that do not exist: "2"$',
        ),
        (verdict([("bnt", 0, "b"), ("kqz", 95, "a")]), "^scores.1.score: Input should be less than or equal to 1$"),
        (verdict([("kqz", -3, "a"), ("bnt", 0, "b")]), "^scores.0.score: Input should be greater than or equal to 0$"),
        (verdict([("kqz", float("nan"), "a"), ("bnt", 0, "b")]), "score: Input should be a finite number"),
        (verdict([("kqz", float("inf"), "a"), ("bnt", 0, "b")]), "score: Input should be a finite number"),
        (verdict([("kqz", "0.7", "a"), ("bnt", 0, "b")]), "score: Input should be a valid number"),
        (verdict([("kqz", True, "a"), ("bnt", 0, "b")]), "score: Input should be a valid number"),
        (verdict([("kqz", None, "a"), ("bnt", 0, "b")]), "score: Input should be a valid number"),
        ('{"scores": [{"trajectory_id": "kqz", "score": 0.1}]}', "^scores.0.explanation: Field required$"),
        (
            '{"scores": [{"trajectory_id": 1, "score": 0.1, "explanation": ""}]}',
            "^scores.0.trajectory_id: Input should be a valid string$",
        ),
        ('{"scores": [{"score": ' + "9" * 5000 + "}]}", 'no complete JSON object with the key "scores"'),
    ],
)
def test_everything_else_is_malformed_and_the_reason_is_exact(content, problem):
    with pytest.raises(MalformedVerdict, match=problem):
        scores(content)


@pytest.mark.parametrize(
    "content",
    [
        "{" * 200_000,
        '{"' * 100_000,
        "\n" * 199_999 + "{",
        ('</think>{"a":1}' * 15_000)[:200_000],
        '{"k":' * 900 + "[1" + ",1" * 90_000,
    ],
)
def test_no_answer_holds_up_the_others_for_long(content):
    began = time.process_time()
    with pytest.raises(MalformedVerdict):
        scores(content)
    assert time.process_time() - began < 40  # under 1 s on a fast machine; it was 129 s


def test_all_problems_of_the_ids_are_told_at_once():
    content = verdict([("bnt", 0.1, ""), ("bnt", 0.1, ""), ("x", 0.1, "")])
    with pytest.raises(
        MalformedVerdict, match=r"no entry for the ids: kqz; entries .* exist: \"x\"; more than one .* ids: bnt"
    ):
        scores(content)


@given(st.text())
def test_no_text_raises_anything_but_a_malformed_verdict(text):
    with pytest.raises(MalformedVerdict):
        scores(text)


@given(
    st.dictionaries(st.sampled_from(["kqz", "bnt"]), st.floats(0, 1), min_size=2),
    st.text(),
    st.permutations(["kqz", "bnt"]),
)
def test_every_exact_verdict_comes_back_as_it_was_written(expected, explanation, order):
    entries = parse_verdict(verdict((label, expected[label], explanation) for label in order), set(expected))
    assert {label: entry.score for label, entry in entries.items()} == expected
    assert {entry.explanation for entry in entries.values()} == {explanation}
