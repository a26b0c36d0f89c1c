import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import MalformedVerdict
from judges.scoring.verdict import parse_verdict
from tests.support.judge_server import verdict

GOOD = verdict([("kqz", 0.25, "half way"), ("bnt", 1, "done")])
OTHER = verdict([("kqz", 0.9, "a"), ("bnt", 0.1, "b")])


def scores(content):
    return {label: entry.score for label, entry in parse_verdict(content, ("kqz", "bnt")).items()}


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here is {{my}} verdict; kqz was better than {{expected}}.\n\n{GOOD}\n",
        f"<think>\nlet me see {{ kqz\n</think>\n{GOOD}",
        f"first thought {OTHER}</think>{GOOD}",
        json.dumps(json.loads(GOOD), indent=2),
        json.dumps({"verdict": json.loads(GOOD)}),
        GOOD.replace("half way", "half\nway,\ttold"),
        f"The attempt kqz has a <think> without an end.\n{GOOD}",
        f"It wrote [think about it]:\n{GOOD}",
        f"In short {GOOD.replace('half way', 'half')}, so:\n{GOOD}",
        f"kqz says {OTHER.replace('kqz', 'xxx')}, which is no verdict.\n{GOOD}",
        "{x} " * 1_000 + GOOD,
    ],
)
def test_a_verdict_is_found_within_fences_prose_and_after_reasoning(content):
    assert scores(content) == {"kqz": 0.25, "bnt": 1.0}


FORMS_OF_REASONING = [
    "<think>{}</think>",
    "<thinking>\n{}\n</thinking>",
    "<antThinking>{}</antThinking>",
    "<seed:think>{}</seed:think>",
    "<thought>{}</thought>",
    "<reasoning>{}</reasoning>",
    "<scratchpad>{}</scratchpad>",
    "<reflection>{}</reflection>",
    "[THINK]{}[/THINK]",
    "◁think▷{}◁/think▷",
    "<|begin_of_thought|>{}<|end_of_thought|>",
    "<|START_THINKING|>{}<|END_THINKING|>",
    "<|channel>thought\n{}<channel|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>",
]


@pytest.mark.parametrize("block", FORMS_OF_REASONING)
def test_a_draft_in_a_reasoning_block_is_not_read_whether_the_block_ends_or_not(block):
    assert scores(block.format(f"Perhaps {OTHER}? No.") + GOOD) == {"kqz": 0.25, "bnt": 1.0}
    begin, _ = block.split("{}")
    for draft in (f"Perhaps {OTHER}", f"Perhaps {OTHER}? But is"):
        with pytest.raises(MalformedVerdict, match="ends within its reasoning"):
            scores(begin + draft)


@pytest.mark.parametrize(
    "content",
    [
        f"Draft: {OTHER}\nFinal: {GOOD}",
        f"analysisPerhaps {OTHER}? No.assistantfinal{GOOD}",
        f"<plan>{OTHER}</plan>{GOOD}",
        f"<!-- {OTHER} -->{GOOD}",
        f"Here is my thought process:\n{OTHER}\nHere is my response:\n{GOOD}",
        f"```json\n{OTHER}\n```\nOn second thoughts:\n```json\n{GOOD}\n```",
    ],
)
def test_of_two_verdicts_that_differ_none_counts(content):
    with pytest.raises(MalformedVerdict, match="the answer holds two verdicts that differ"):
        scores(content)


@pytest.mark.parametrize(
    "behind", ["I hope this helps.", "kqz never closed its <think>.", '{"a": 1}', "</answer>", "Wait", "]", "```\nSo."]
)
def test_a_verdict_that_something_follows_may_be_a_draft(behind):
    with pytest.raises(MalformedVerdict, match=r"must end the answer, and .* follows it"):
        scores(f"{GOOD}\n{behind}")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (GOOD.replace("}]", "},]"), r": [\w ]+ at line 1, column 14\d, in .*\"score\": 1},\]}'"),
        (
            GOOD.replace('"', "'"),
            ": Expecting property name enclosed in double quotes at line 1, column .* in .*{'trajectory_id'",
        ),
        (GOOD.replace('"', "”"), "Expecting property name enclosed in double quotes at line 1, column 82, in '{”traj"),
        (GOOD[:-1], ": Expecting ',' delimiter at line 1, column 141, in .*1}\\]'"),
        (GOOD.replace('"half way"', '"half "way""'), "Expecting ',' delimiter at line 1, column 60, in "),
        (f"Well:\n{GOOD.replace(': 1', ': .5')}", ": Expecting value at line 2, column 13"),
        (GOOD.replace("[", "(").replace("]", ")"), "Expecting value at line 1, column 12"),
    ],
)
def test_a_fault_of_the_json_is_told_by_its_place(content, place):
    with pytest.raises(MalformedVerdict, match='no complete JSON object with the key "scores" at the end.*' + place):
        scores(content)


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
        (f"Well.\n <THINKING>{GOOD}", "ends within its reasoning"),
        (f"<think>a</think><think>{GOOD}", "ends within its reasoning"),
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
    "unit", ["{", '{"', "\n", '</think>{"a":1}', "[1,", "<", "< think", "[", "[think", "<|channel|>", "`", " \t<think>"]
)
def test_an_answer_costs_no_more_than_its_length(unit):
    """A hundred times the text takes a hundred times as long, not ten thousand times; the bound is far from both."""

    def seconds(chars):
        content = ('{"k":' + unit * chars)[:chars]
        began = time.process_time()
        with pytest.raises(MalformedVerdict):
            scores(content)
        return time.process_time() - began

    assert min(seconds(190_000) for _ in range(3)) < 1_500 * max(min(seconds(1_900) for _ in range(9)), 1e-4)


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
