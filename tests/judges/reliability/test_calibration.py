"""Scripted judges over a real socket, whose figures are known: perfect, unrelated, random, position-biased, malformed."""

import json
import random
from dataclasses import astuple

import pytest
from click.testing import CliRunner

from judges import ContextOverflow, JudgeCallError, JudgeInputError, MalformedVerdict, PromptTooLong, Session
from judges.cli import main
from judges.reliability.agreement import Estimate
from judges.reliability.calibration import calibrate
from judges.reliability.groups import LabelledGroup
from tests.support.judge_server import JudgeServer, Reply, score_by, shown_trajectories, verdict

EXACT = Estimate(1.0, None, None)


def said(text, name="q"):
    return [{"role": "user", "content": f"question {name}"}, {"role": "assistant", "content": text}]


def group(labels, name="q"):
    return LabelledGroup([said(f"{name} worth {label}", name) for label in labels], labels)


def measure(judge, groups, **options):
    with JudgeServer(judge) as server:
        options = {"api_base": server.url, "timeout_seconds": 20, "backoff_seconds": 0.01, **options}
        return calibrate(groups, "openai/judge", **options), server


def worth(messages):
    return float(messages[-1]["content"].rsplit(" ", 1)[1])


def perfect(messages):
    return score_by(lambda trajectory: (worth(trajectory) / 10, ""))(messages)


def test_a_perfect_judge_agrees_with_every_label_in_every_order():
    result, server = measure(perfect, [group([0, 1, 2, 3], "a"), group([5, 5, 1], "b")], permutations=3)
    assert [len(shown_trajectories(r.body["messages"])) for r in server.requests].count(2) == 3, "equal ones are joined"
    assert (result.accuracy, result.accuracy_of_mean, result.kendall_tau) == (EXACT, EXACT, EXACT)
    assert (result.groups, result.pairs, result.verdicts) == (2, 6 + 2, 6)
    assert (result.order_flips, result.order_spread, result.first_place_bonus) == (0.0, 0.0, 0.0)
    assert (result.malformed, result.malformed_after_repair, result.call_failures, result.last_error) == (0, 0, 0, "")


def test_a_judge_whose_scores_have_nothing_to_do_with_the_labels_is_at_chance():
    scores = {0.0: 0.3, 1.0: 0.1, 2.0: 0.4, 3.0: 0.2}  # of the six pairs, three are ordered right
    result, _ = measure(score_by(lambda t: (scores[worth(t)], "")), [group([0, 1, 2, 3])])
    assert result.accuracy == result.accuracy_of_mean == Estimate(0.5, None, None)
    assert result.kendall_tau.value == 0.0
    assert (result.order_flips, result.order_spread) == (0.0, 0.0), "but it does not care for the order shown"


def test_an_interval_needs_five_groups():
    groups = [group([0, 1], f"g{n}") for n in range(5)]
    assert measure(perfect, groups)[0].accuracy == Estimate(1.0, 1.0, 1.0)
    few = measure(perfect, groups[:4])[0].accuracy
    assert (few, str(few)) == (Estimate(1.0, None, None), "1.000  [too few groups to say]")


def test_a_random_judge_has_chance_in_its_interval_and_flips_half_of_the_pairs():
    def judge(messages):
        # Drawn from the prompt alone: prompts arrive in no fixed order, and one stream for all would differ by run.
        rng = random.Random(str(messages))
        return verdict((label, rng.random(), "") for label in shown_trajectories(messages))

    result, _ = measure(judge, [group([0, 1, 2, 3], f"g{n}") for n in range(24)])
    assert result.accuracy.low < 0.5 < result.accuracy.high
    assert 0.35 < result.accuracy.value < 0.65
    assert 0.35 < result.order_flips < 0.65
    assert result.order_spread > 0.3


def test_a_judge_that_favours_the_first_shown_is_found_out():
    def judge(messages):
        labels = list(shown_trajectories(messages))
        return verdict((label, 0.9 if label == labels[0] else 0.1, "") for label in labels)

    result, _ = measure(judge, [group([0, 1, 2, 3])], permutations=4)
    # In four orders each comes first once. A verdict orders the first against the other three and ties these:
    # right are 0 + 1 + 2 + 3 of 4 x 3 pairs, and half of 4 x 3 ties: (6 + 6) / 24.
    assert result.accuracy.value == 0.5
    assert result.kendall_tau.value == pytest.approx(0.0)
    assert result.accuracy_of_mean.value == 0.5, "the mean of all orders is the same for all"
    # Two verdicts both order one pair alone, that of their two first ones, and each favours its own.
    assert result.order_flips == 1.0
    assert result.order_spread == pytest.approx(0.8)
    assert result.first_place_bonus == pytest.approx(0.8)


def test_malformed_verdicts_are_counted_and_left_out():
    def judge(messages):
        if "question bad" in messages[1]["content"]:
            return "I would rather not."
        if "question twice" in messages[1]["content"] and len(messages) == 2:
            return "Let me think."
        return perfect(messages)

    groups = [group([0, 1], "good"), group([0, 1], "twice"), group([0, 1], "bad")]
    seen = []
    result, _ = measure(judge, groups, permutations=2, on_progress=lambda *counts: seen.append(counts))
    assert seen[-1] == (2, 1)
    assert (result.verdicts, result.malformed, result.malformed_after_repair) == (6, 4, 2)
    assert (result.accuracy, result.pairs, result.call_failures) == (EXACT, 2, 0)
    assert "no usable answer" in result.last_error
    with pytest.raises(MalformedVerdict):
        measure(judge, [group([0, 1], "bad")])


def test_calls_that_fail_are_counted_apart_and_raised_where_all_fail():
    def judge(messages):
        return 401 if "question bad" in messages[1]["content"] else perfect(messages)

    result, _ = measure(judge, [group([0, 1], "good"), group([0, 1], "bad")], permutations=2)
    assert (result.verdicts, result.malformed, result.call_failures) == (4, 0, 2)
    with pytest.raises(JudgeCallError):
        measure(lambda messages: 401, [group([0, 1])])


TOO_LONG = Reply(status=400, raw=b'{"error": {"message": "the prompt is above the context length of 9 tokens"}}')


@pytest.mark.parametrize(
    ("reply", "error", "words", "asked"),
    [
        (401, JudgeCallError, "scripted status 401", 8),
        (404, JudgeCallError, "scripted status 404", 16),  # without structured output, too
        (TOO_LONG, ContextOverflow, "lower max_prompt_tokens below the judge's context", 8),
        ('{"scores": 7}', MalformedVerdict, "none of 8 verdicts on the first 8 groups is usable", 16),
    ],
)
@pytest.mark.parametrize("session", [Session(max_concurrency=1), Session(), Session(max_concurrency=50)])
def test_a_judge_without_a_usable_verdict_is_not_asked_about_every_group(reply, error, words, asked, session):
    groups = [group([0, 1], str(number)) for number in range(50)]
    with JudgeServer(lambda messages: reply) as server, pytest.raises(error, match=words):
        calibrate(groups, "openai/judge", api_base=server.url, permutations=1, session=session)
    assert len(server.requests) == asked


def test_once_the_money_is_spent_the_figures_are_those_of_what_was_judged():
    price = {"input_cost_per_token": 0.01, "output_cost_per_token": 0.0}  # a dollar a call
    groups = [group([0, 1], str(number)) for number in range(20)]
    options = {"permutations": 2, "extra_litellm_params": price}
    session = Session(max_concurrency=1, max_cost_dollars=5)
    result, server = measure(perfect, groups, session=session, **options)
    assert (len(server.requests), result.verdicts, result.groups, result.not_judged) == (5, 5, 3, 17)
    assert (result.pairs, result.accuracy, result.call_failures) == (2, EXACT, 0), "the third has one order of two"
    assert result.last_error.startswith("$5.0000 are spent and the limit is $5")
    assert result.rows()["Groups"] == "3, in 2 orders each; 2 pairs to compare; 17 not judged"
    assert result.cost_per_group == pytest.approx(5 / 3)


def test_a_judge_that_has_answered_is_asked_on():
    def judge(messages):
        return perfect(messages) if '"question 3"' in messages[1]["content"] else 401

    groups = [group([0, 1], str(number)) for number in range(20)]
    result, _ = measure(judge, groups, permutations=1, session=Session(max_concurrency=1))
    assert (result.verdicts, result.call_failures) == (20, 19)


def test_a_group_that_cannot_be_judged_is_named():
    groups = [group([0, 1]), LabelledGroup([[], said("worth 1")], [0, 1])]
    with pytest.raises(JudgeInputError, match=r"^group 2: trajectory 1 must be a non-empty list"):
        calibrate(groups, "openai/judge")
    with pytest.raises(PromptTooLong, match=r"^group 1: "):
        calibrate(groups[:1], "openai/judge", max_prompt_tokens=100)


def test_a_group_that_is_too_long_is_named_and_the_others_are_measured(caplog):
    long = LabelledGroup([[*said("worth 0"), *said("no") * 500], said("worth 1")], [0, 1])
    result, server = measure(perfect, iter([group([0, 1]), long]), max_prompt_tokens=4_000, permutations=1)
    assert (result.groups, result.accuracy, len(server.requests)) == (1, EXACT, 1)
    assert "passed over: group 2: 2 trajectories with 1004 messages do not fit max_prompt_tokens=4000" in caplog.text


def test_the_interval_is_over_groups():
    def judge(messages):
        reverse = "question reversed" in messages[1]["content"]
        return score_by(lambda t: (abs(reverse - worth(t) / 10), ""))(messages)

    groups = [group([0, 1, 2], f"{how}{n}") for how in ("right", "reversed") for n in range(3)]
    result, _ = measure(judge, groups, permutations=1)
    # of six drawn from six, as many are right as of six tosses of a coin: none with 1.6 %, one or none with 10.9 %
    assert astuple(result.accuracy) == pytest.approx((1 / 2, 1 / 6, 5 / 6))
    assert astuple(result.kendall_tau) == pytest.approx((0, -2 / 3, 2 / 3))


def test_a_group_is_judged_by_its_own_rubric_unless_another_is_given():
    own = LabelledGroup([said("worth 0"), said("worth 1")], [0, 1], rubric="Its own words.")
    for given, other in (("Its own words.", {}), ("Other words.", {"rubric": "Other words."})):
        _, server = measure(perfect, [own], permutations=1, **other)
        assert f"Grading standards:\n{given}\n" in server.requests[0].body["messages"][0]["content"]


def test_labels_that_are_all_equal_say_nothing_about_agreement():
    groups = [LabelledGroup([said("worth 1"), said("worth 2")], [0, 0])]
    result, _ = measure(perfect, groups)
    assert result.accuracy == result.kendall_tau == Estimate(None, None, None)
    assert result.pairs == 0
    assert result.order_flips == 0.0
    assert result.rows()["Pairwise accuracy"].startswith("undefined")


def test_cost_and_tokens_are_per_group():
    price = {"input_cost_per_token": 1e-4, "output_cost_per_token": 1e-3}
    result, _ = measure(perfect, [group([0, 1], "a"), group([0, 1], "b")], permutations=2, extra_litellm_params=price)
    # the server counts 100 + 10 tokens a call, two calls a group
    assert result.cost_per_group == pytest.approx(2 * (100 * 1e-4 + 10 * 1e-3))
    assert result.rows()["Per group"] == "$0.0400, 220 tokens"


def test_a_session_that_was_used_before_adds_nothing_to_the_usage():
    session = Session()
    first, _ = measure(perfect, [group([0, 1], "a")], permutations=2, session=session)
    second, _ = measure(perfect, [group([0, 1], "b")], permutations=2, session=session)
    assert [result.usage.calls for result in (first, second)] == [2, 2]
    assert [result.rows()["Per group"] for result in (first, second)] == ["cost unknown, 220 tokens"] * 2
    assert session.usage.calls == 4


def write(path, *groups):
    path.write_text("".join(json.dumps({"trajectories": g.trajectories, "labels": g.labels}) + "\n" for g in groups))
    return path


def test_the_command_prints_the_figures_as_text_or_json(tmp_path):
    path = write(tmp_path / "l.jsonl", group([0, 1, 2], "a"), group([0, 1], "b"))
    with JudgeServer(perfect) as server:
        arguments = ["calibrate", str(path), "--judge-model", "openai/judge", "--judge-api-base", server.url]
        text = CliRunner().invoke(main, [*arguments, "--limit", "1", "--permutations", "3"])
        as_json = CliRunner().invoke(main, [*arguments, "--json"])
    assert text.exit_code == 0, text.output
    assert [line.rstrip() for line in text.output.splitlines()[:2]] == [
        "Groups                1, in 3 orders each; 3 pairs to compare",
        "Pairwise accuracy     1.000  [too few groups to say]  (one verdict; 0.5 is chance)",
    ]
    figures = json.loads(as_json.output)
    assert figures["accuracy"] == {"value": 1.0, "low": None, "high": None}
    assert (figures["groups"], figures["pairs"], figures["usage"]["calls"]) == (2, 4, 8)


def test_the_command_calls_the_judge_as_it_is_told(tmp_path):
    """A judge of one's own with a price, a context of 4,000 tokens and sampling settings."""
    long = LabelledGroup([said("x " * 9000 + f"worth {label}") for label in (0, 1)], [0, 1])
    words = ["calibrate", str(write(tmp_path / "l.jsonl", long)), "--judge-model", "local", "--permutations", "1"]
    params = json.dumps({"temperature": 0, "input_cost_per_token": 0.01, "output_cost_per_token": 0})
    call = ["--max-prompt-tokens", "4000", "--timeout-seconds", "50", "--extra-litellm-params", params]
    with JudgeServer(perfect) as server:
        shown = CliRunner().invoke(main, [*words, *call, "--judge-api-base", server.url, "--max-cost", "5", "--json"])
    assert shown.exit_code == 0, shown.output
    (request,) = server.requests
    assert request.body["temperature"] == 0
    assert len(request.body["messages"][1]["content"]) < 16_000
    assert json.loads(shown.output)["cost_per_group_dollars"] == pytest.approx(1.0)
    for wrong in ("[1]", "{"):
        refused = CliRunner().invoke(main, [*words, "--extra-litellm-params", wrong])
        assert (refused.exit_code, "it is no JSON object" in refused.output) == (2, True)
