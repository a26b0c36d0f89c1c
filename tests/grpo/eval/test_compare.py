"""`grpo-compare` on evaluations written by hand and by `grpo-eval`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from grpo.cli.compare import compare as command
from grpo.display.metrics import ShownMetric
from grpo.ending import Ending
from grpo.errors import EvaluationError
from grpo.eval.compare import Evaluation, Measure, compare, load_evaluation, telling
from grpo.statistics import Interval
from grpo.types import Answer, Episode, Task
from tests.support.evaluations import run

CONFIG = {"env": "Sums-v0", "env_kwargs": {"split": "test"}, "split": "test", "fingerprint": {"database": "d", "scenarios": "q"}}  # fmt: skip


def row(scenario: str, correct: bool | None, *, sample: int = 0, reward: float | None = None, **more: Any) -> Episode:
    reward = float(bool(correct)) if reward is None else reward
    metrics = {} if correct is None else {"success": float(correct)}
    found = {"reward": reward, "metrics": metrics, "ending": Ending.ANSWERED, "answer": Answer("x")} | more
    return Episode("Sums-v0", Task(0, scenario), sample, **found)


def evaluation(rows: list[Any], **config: Any) -> Evaluation:
    return Evaluation(Path("evals/made-up"), {**CONFIG, "agent": "a", **config}, rows)


def test_scenarios_are_paired_and_their_samples_averaged() -> None:
    """By hand: the differences of s1 to s5 are 1/2, 1, 0, 0, 0, by majority two gained; s6 has no partner.

    Their mean is 3/10, their variance 1/5, so the standard error is 1/5; t(0.975, 4) = 2.77645.
    """
    same = [row(name, True) for name in ("s3", "s4", "s5")]
    a = evaluation([row("s1", True), row("s1", False, sample=1), row("s2", False), *same])
    b = evaluation([row("s1", True), row("s1", True, sample=1), row("s2", True), *same, row("s6", True)], agent="b")
    result = compare(a, b)
    assert result.correct is not None
    assert (result.correct.a, result.correct.b, result.correct.difference.mean) == (0.7, 1.0, pytest.approx(0.3))
    ends = (result.correct.difference.low, result.correct.difference.high)
    assert ends == pytest.approx((0.3 - 2.77645 / 5, 0.3 + 2.77645 / 5), abs=1e-5)
    assert (result.gained, result.lost, result.p_value) == (2, 0, 0.5)
    assert (result.reward.difference.n, result.unpaired_a, result.unpaired_b) == (5, [], ["s6"])
    assert [(flip.key, flip.change) for flip in result.flips] == [(("s1", 1), "gained"), (("s2", 0), "gained")]
    assert result.conclusion == (
        "b and a do not differ in success beyond noise: 70.0 % → 100.0 %, difference +30.0 pp, "
        "95 % interval [-25.5 pp, +85.5 pp], paired over 5 scenarios."
    )
    assert result.warnings == ["Left out of the comparison: 1 scenario of b alone (s6)."]


def test_flips_go_from_the_best_to_the_worst_and_the_most_telling_are_shown() -> None:
    a = evaluation([row(name, right) for name, right in (("u", True), ("v", False), ("w", False), ("x", True))])
    changed = [("u", False, -1.0), ("v", True, 0.8), ("w", True, 1.3), ("x", False, 0.0)]
    flips = compare(a, evaluation([row(name, right, reward=reward) for name, right, reward in changed])).flips
    assert [(flip.scenario_id, flip.change) for flip in flips] == [
        ("w", "gained"), ("v", "gained"), ("x", "lost"), ("u", "lost"),
    ]  # fmt: skip
    shown = ["".join(flip.scenario_id for flip in telling(flips, count)) for count in (0, 1, 2, 3, 4)]
    assert shown == ["", "w", "wu", "wvu", "wvux"]
    assert telling(flips[:3], 3) == flips[:3], "one that was lost leaves room for two"


def test_infrastructure_failures_are_no_observations() -> None:
    failed = row("s2", None, reward=None, ending=Ending.INFRASTRUCTURE)
    result = compare(evaluation([row("s1", False), row("s2", True)]), evaluation([row("s1", True), failed]))
    assert (result.reward.difference.n, result.unpaired_a) == (1, ["s2"])
    assert [flip.key for flip in result.flips] == [("s1", 0)]


def test_an_env_that_does_not_say_what_is_right_is_compared_by_reward() -> None:
    names = [f"s{n}" for n in range(8)]
    a, b = ([row(name, None, reward=reward) for name in names] for reward in (0.25, 0.75))
    result = compare(evaluation(a, agent="first"), evaluation(b, agent="second"))
    assert (result.correct, result.p_value, result.flips) == (None, None, [])
    assert result.reward.difference.mean == result.reward.difference.low == 0.5
    assert result.conclusion == (
        "second has more reward than first: 0.250 → 0.750, difference +0.500, 95 % interval [no spread], paired over "
        "8 scenarios."
    )
    few = compare(evaluation(a[:2], agent="first"), evaluation(b, agent="second")).conclusion
    assert few.startswith("Too few scenarios to say whether second or first has more reward: 0.250 → 0.750, ")


@pytest.mark.parametrize(("gain", "tone"), [(1, "up"), (-1, "down"), (0, "noise")])
def test_a_change_has_the_tone_of_what_it_means(gain: int, tone: str) -> None:
    metric = ShownMetric("x", "X", 1, gain=gain)
    assert Measure(metric, 1.0, 2.0, Interval(1.0, 0.5, 1.5, 8)).tone == tone
    assert Measure(metric, 1.0, 2.0, Interval(1.0, -0.5, 2.5, 8)).tone == "noise"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"split": "train"}, 'split: "test" in A, "train" in B'),
        ({"fingerprint": {"database": "e", "scenarios": "q"}}, 'fingerprint.database: "d" in A, "e" in B'),
        ({"fingerprint": {"database": "d", "scenarios": "r"}}, 'fingerprint.scenarios: "q" in A, "r" in B'),
        ({"answer_judge": {"model": "m"}}, 'answer_judge.model: null in A, "m" in B'),
        ({"env": "Other-v0"}, 'env: "Sums-v0" in A, "Other-v0" in B'),
        ({"env_kwargs": {"split": "test", "max_turns": 6}}, "env_kwargs.max_turns: null in A, 6 in B"),
    ],
)
def test_other_questions_are_refused_unless_told(change: dict[str, Any], said: str) -> None:
    a, b = evaluation([row("s", True)]), evaluation([row("s", True)], **change)
    with pytest.raises(EvaluationError, match="did not ask the same questions") as caught:
        compare(a, b)
    assert said in str(caught.value)
    assert compare(a, b, anyway=True).differences == [said]


def test_evaluations_without_a_common_scenario_are_refused() -> None:
    with pytest.raises(EvaluationError, match="no scenario in common"):
        compare(evaluation([row("s", True)]), evaluation([row("t", True)]))


def test_an_evaluation_is_named_by_agent_and_model_without_addresses() -> None:
    rows = [row("s", True)]
    assert evaluation(rows, agent="openai:qwen3@http://127.0.0.1:8000/v1").name == "openai:qwen3"
    assert evaluation(rows, agent="my:agent", model="openai:m@https://u:p@x.example/v1").name == "my:agent (openai:m)"
    assert evaluation(rows, agent="policy:runs/first@12", model=None).name == "policy:runs/first@12"


results = st.dictionaries(
    st.tuples(st.sampled_from("uvwxyz"), st.integers(0, 2)), st.tuples(st.booleans(), st.floats(-1, 1)), min_size=1
)


@given(results, results)
def test_a_comparison_equals_the_slow_one(one: dict[Any, Any], other: dict[Any, Any]) -> None:
    a, b = (
        evaluation([row(name, right, sample=n, reward=reward) for (name, n), (right, reward) in side.items()])
        for side in (one, other)
    )
    shared = [name for name in "uvwxyz" if any(k[0] == name for k in one) and any(k[0] == name for k in other)]
    if not shared:
        with pytest.raises(EvaluationError):
            compare(a, b)
        return
    total, rewards, gained, lost = 0.0, 0.0, 0, 0
    for name in shared:
        x, y = ([value for key, value in side.items() if key[0] == name] for side in (one, other))
        total += sum(v[0] for v in y) / len(y) - sum(v[0] for v in x) / len(x)
        rewards += sum(v[1] for v in y) / len(y) - sum(v[1] for v in x) / len(x)
        before, after = (2 * sum(v[0] for v in side) > len(side) for side in (x, y))
        gained, lost = gained + (after and not before), lost + (before and not after)
    result = compare(a, b)
    assert result.correct is not None
    assert result.correct.difference.mean == pytest.approx(total / len(shared))
    assert result.reward.difference.mean == pytest.approx(rewards / len(shared))
    assert (result.gained, result.lost) == (gained, lost)
    flipped = {k for k in one if k in other and one[k][0] != other[k][0]}
    assert {f.key for f in result.flips} == flipped
    assert [f.change for f in result.flips] == sorted(f.change for f in result.flips)


def test_the_command_prints_the_difference_and_what_flipped(tmp_path: Path) -> None:
    for agent in ("wrong", "oracle"):
        assert run("--agent", agent, "--limit", "8", "--out", str(tmp_path / agent), count=8).exit_code == 0
    shown = CliRunner().invoke(command, [str(tmp_path / "wrong"), str(tmp_path / "oracle" / "results.jsonl")])
    assert shown.exit_code == 0, shown.output
    found = json.loads(
        CliRunner().invoke(command, [str(tmp_path / "wrong"), str(tmp_path / "oracle"), "--json"]).stdout
    )
    assert found["correct"]["a"] == 0.25  # of eight sums this agent has two right
    assert found["correct"]["b"] == 1.0
    assert found["mcnemar"] == {"gained": 6, "lost": 0, "p": 2 / 64}
    assert f"p = {2 / 64:.3g}" in shown.output
    assert "+75.0 pp" in shown.output
    assert shown.output.count("\n+ ") == 6
    first = (tmp_path / "oracle/results.jsonl").read_text().splitlines()[0]
    question = json.loads(first)["messages"][1]["content"]
    assert question.split()[0] in shown.output


def test_a_folder_that_is_no_evaluation_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="is no evaluation"):
        load_evaluation(tmp_path)
    (tmp_path / "config.json").write_text('{"env": "EmailSearch-v0"}')
    with pytest.raises(EvaluationError, match="no finished episode"):
        load_evaluation(tmp_path)
    shown = CliRunner().invoke(command, [str(tmp_path), str(tmp_path)])
    assert shown.exit_code == 1
    assert "Error:" in shown.stderr


def test_an_evaluation_of_failures_alone_is_named(tmp_path):
    run("--agent", "oracle", "--out", str(tmp_path / "a"), count=1)
    run("--agent", "oracle", "--out", str(tmp_path / "b"), count=1, broken="sum/0")
    shown = CliRunner().invoke(command, [str(tmp_path / "a"), str(tmp_path / "b"), "--anyway"])
    assert shown.exit_code == 1
    assert f"all episodes in {tmp_path / 'b'} ended in infrastructure failures" in " ".join(shown.output.split())
