"""A step's batch from a real env and a scripted policy: what is complete when, what is dropped, what is counted."""

import asyncio
import threading
from dataclasses import replace

import pytest

from grpo.errors import EnvError, JudgeFailure, ServerError
from grpo.settings import JudgeSettings
from grpo.training.rewards import EnvReward, RulerReward
from grpo.training.unfinished_step import UnfinishedStep
from judges import Session
from judges.common.files import read_jsonl
from tests.support.batches import Guesser, batch, batches, judged, right_at_first
from tests.support.judge_server import JudgeServer, Reply, score_by
from tests.support.policies import always


def test_groups_without_spread_are_dropped_and_counted_and_the_rest_is_trained_on():
    made = batch(batches(EnvReward()), lambda letter, n: "oak" if letter == "m" else right_at_first(letter, n))
    assert [g.rewards for g in made.groups] == [[1.0, 0.0]] * 3
    assert [g.advantages for g in made.groups] == [[0.5, -0.5]] * 3
    assert (made.dropped, made.unrewarded, len(made.sampled), len(made.segments)) == (1, 0, 8, 6)
    metrics = made.metrics()
    assert metrics["reward/mean"] == pytest.approx(3 / 8)
    assert (metrics["groups/used"], metrics["groups/dropped"], metrics["judge/failures"]) == (3.0, 1.0, 0.0)
    assert metrics["groups/zero_variance_share"] == pytest.approx(1 / 4)
    assert metrics["env/success"] == pytest.approx(3 / 8)
    assert "judge/disagreement" not in metrics


def test_dropped_groups_are_refilled_with_the_next_tasks():
    made = batch(
        batches(EnvReward(), **{"rollout.groups_per_step": 2, "rollout.refill_rounds": 9}),
        lambda letter, n: right_at_first(letter, n) if letter in "hq" else "oak",
    )
    assert {g.task.scenario_id for g in made.groups} == {"train-harbor", "train-quartz"}
    assert made.dropped == len(made.sampled) / 2 - 2 > 0


def test_with_turn_credit_later_guesses_are_compared_with_those_that_also_went_on():
    made = batch(batches(EnvReward(), **{"rollout.group_size": 4, "loss.turn_credit": True}), right_at_first)
    group = made.groups[0]
    assert (group.rewards, group.advantages) == ([1.0, 0.0, 0.0, 0.0], [0.75, -0.25, -0.25, -0.25])
    rows = [row for row in made.segments if row.task == group.task.key]
    wrong = [(-0.25, 0.5), (0.0, 0.5)]  # the first guess, and the two after it
    assert [(row.advantage, row.rollout_share) for row in rows] == [(0.75, 1.0), *wrong * 3]


def test_a_group_is_judged_while_others_still_roll_out():
    was_asked = threading.Event()

    def score(messages):
        was_asked.set()
        return (0.9, "") if "falcon" in messages[-2]["content"] else (0.1, "")

    async def turn_of(letter, number):
        while letter != "f" and not was_asked.is_set():  # the others wait until the judge was asked about this group
            await asyncio.sleep(0.01)
        return right_at_first(letter, number)

    with JudgeServer(score_by(score)) as server:
        made = batch(batches(judged(server)), turn_of)
    assert was_asked.is_set()
    assert len(server.requests) == 4
    assert [g.rewards for g in made.rewarded if g.task.scenario_id == "train-falcon"] == [[0.9, 0.1]]


def by_length(messages):
    """Prefers who guessed often."""
    return min(1.0, 0.1 * len(messages)), "longer"


def test_judged_rewards_are_trained_on_written_down_and_compared_with_the_envs():
    with JudgeServer(score_by(by_length)) as server:
        made = batch(batches(judged(server)), right_at_first)
    assert [g.rewards for g in made.groups] == [pytest.approx([0.2, 0.6])] * 4
    assert [t.reward for t in made.sampled] == pytest.approx([0.2, 0.6] * 4)
    assert made.sampled[1].explanation == "longer"
    metrics = made.metrics()
    assert metrics["reward/mean"] == metrics["judge/score"] == pytest.approx(0.4)
    assert metrics["reward/env"] == 0.5
    assert metrics["judge/disagreement"] == 1.0
    assert "judge/cost_usd" not in metrics, "the price of this judge is not known"


def test_what_judging_a_step_cost_is_logged():
    with JudgeServer(score_by(by_length)) as server:
        reward = judged(server, model="openai/o4-mini")
        maker = batches(reward)
        costs = [batch(maker, right_at_first).metrics()["judge/cost_usd"] for _ in range(2)]
    assert costs[0] > 0
    assert costs == pytest.approx([reward.cost_usd / 2] * 2)


def fails_for(letters):
    """A judge that gives no verdict on some words."""

    def answer(messages):
        refuses = any(f"begins with {letter}" in messages[1]["content"] for letter in letters)
        return Reply("no") if refuses else score_by(by_length)(messages)

    return answer


def test_a_failed_verdict_drops_and_counts_its_group():
    with JudgeServer(fails_for("m")) as server:
        made = batch(batches(judged(server)), right_at_first)
    assert {g.task.scenario_id for g in made.groups} == {"train-falcon", "train-harbor", "train-quartz"}
    assert (made.dropped, made.unrewarded, made.metrics()["judge/failures"]) == (1, 1, 1.0)
    unjudged = [t for t in made.sampled if t.task.scenario_id == "train-maple"]
    assert [(t.reward, t.explanation) for t in unjudged] == [(1.0, None), (0.0, None)]
    assert made.metrics()["reward/mean"] == pytest.approx(0.4), "the unjudged group is no part of the mean"


@pytest.mark.parametrize(
    ("letters", "bound", "size", "failed"),
    [
        ("mfh", 0.5, 4, "6 of the newest 8"),
        ("fmhq", 1.0, 4, "8 of the newest 8"),
        ("fmhq", 0.5, 2, "6 of the newest 6"),
        ("fmhq", 1.0, 2, "8 of the newest 8"),
        ("fmhq", 1.0, 3, "9 of the newest 9"),
        ("m", 0.0, 4, "1 of the newest 4"),
    ],
)
def test_too_many_failed_verdicts_of_eight_groups_stop_the_run(letters, bound, size, failed):
    groups = int(failed.split()[-1])
    with JudgeServer(fails_for(letters)) as server:
        made = batches(judged(server), **{"judge.max_failures": bound, "rollout.groups_per_step": size})
        for _ in range(groups // size - 1):
            few = batch(made, right_at_first)
            assert few.unrewarded == few.metrics()["judge/failures"] == min(size, len(letters))
            assert len(few.groups) == few.metrics()["groups/used"] == size - few.unrewarded
        with pytest.raises(JudgeFailure, match=rf"^{failed} groups have no rewards.* {bound:g} of a step's") as stop:
            batch(made, right_at_first)
    assert "no usable answer" in str(stop.value)
    assert "--resume" in str(stop.value)


def test_a_judge_that_fails_on_half_of_every_small_step_does_not_stop_the_run_and_spent_money_does():
    with JudgeServer(fails_for("mh")) as server:
        made = batches(judged(server))
        assert [len(batch(made, right_at_first).groups) for _ in range(5)] == [2] * 5
        spent = RulerReward(JudgeSettings(model="openai/o4-mini", api_base=server.url), Session(max_cost_dollars=1e-9))
        spent.session.usage.cost_dollars = 1.0
        with pytest.raises(JudgeFailure, match=r"^4 of the newest 4 groups .* the last error: \$1\.0000 are spent"):
            batch(batches(spent), right_at_first)


def test_failed_rollouts_are_not_shown_to_the_judge_and_not_trained_on():
    def turn(letter, number):
        return ServerError("cut off") if (letter, number) == ("m", 2) else right_at_first(letter, number)

    with JudgeServer(score_by(by_length)) as server:
        made = batch(batches(judged(server)), turn)
    (maple,) = [g for g in made.rewarded if g.task.scenario_id == "train-maple"]
    assert len(maple.episodes) == 1
    assert (made.dropped, made.unrewarded, len(made.sampled)) == (1, 0, 8)
    assert made.metrics()["episodes/failed"] == 1.0


def test_a_step_whose_episodes_mostly_fail_stops_with_the_first_failure():
    with pytest.raises(
        EnvError, match=r"8 of 8 episodes of a step failed; the first: gone\. .* mend that and go on with --resume"
    ):
        batch(batches(EnvReward()), lambda letter, number: ServerError("gone"))


def test_groups_that_were_complete_before_an_interruption_are_neither_sampled_nor_judged_again(tmp_path):
    def made(server):
        return replace(batches(judged(server)), unfinished=UnfinishedStep(tmp_path))

    path = tmp_path / "step-0000.jsonl"

    async def interrupted(letter, number):
        while letter == "q" and len(read_jsonl(path)) < 3:
            await asyncio.sleep(0.01)
        if letter == "q":
            raise RuntimeError("the process ends here")
        return right_at_first(letter, number)

    with JudgeServer(score_by(by_length)) as server:
        expected = batch(batches(judged(server)), right_at_first)
        assert len(server.requests) == 4
        with pytest.raises(ExceptionGroup):
            batch(made(server), interrupted)
        assert len(server.requests) == 4 + 3
        with path.open("a") as file:
            file.write('{"task": {"seed": 1')  # what a killed process leaves of a line
        again = made(server)
        policy = Guesser(right_at_first)
        result = asyncio.run(again.next(0, always(policy)))
        assert len(server.requests) == 4 + 3 + 1
    assert {letter for letter, count in policy.asked.items() if count} == {"q"}
    assert [(g.task, g.rewards, g.advantages) for g in result.groups] == [
        (g.task, g.rewards, g.advantages) for g in expected.groups
    ]
    assert result.segments == expected.segments
    assert [t.explanation for t in result.sampled] == ["longer"] * 8
    new = [t for group in result.rewarded if group.task.scenario_id == "train-quartz" for t in group.episodes]
    tokens = sum(t.num_sampled_tokens for t in new)
    assert 0 < tokens == sum(t.num_sampled_tokens for t in result.sampled) - result.found_tokens
    speed = result.metrics()["speed/sample_tokens_per_second"]
    assert speed == tokens / result.sampling_seconds, "of what was sampled now"
    with JudgeServer([]) as server:
        found = asyncio.run(made(server).next(0, always(policy)))
    assert "speed/sample_tokens_per_second" not in found.metrics(), "all of it was sampled before"
    again.unfinished.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_group_with_a_failed_episode_is_tried_again(tmp_path):
    made = replace(batches(EnvReward()), unfinished=UnfinishedStep(tmp_path))
    batch(made, lambda letter, n: ServerError("gone") if letter == "m" and n == 1 else right_at_first(letter, n))
    kept = UnfinishedStep(tmp_path).groups(0)
    assert {task.scenario_id for task in kept} == {"train-falcon", "train-harbor", "train-quartz"}
    assert UnfinishedStep(tmp_path).groups(1) == {}, "another step's groups were sampled by another policy"
    assert list(tmp_path.iterdir()), "they are needed until a step that learned from them has happened"
    made.unfinished.finish(1)
    assert not list(tmp_path.iterdir())
