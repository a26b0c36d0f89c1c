"""A step's batch from a real env and a scripted policy: what is complete when, what is dropped, what is counted."""

import asyncio
import json
import tempfile
import threading
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.config import load_config
from grpo.display.terminal import Display
from grpo.errors import CheckpointError, EnvError, JudgeFailure, ServerError
from grpo.files import read_jsonl
from grpo.rollout.rewards import EnvReward, HybridReward, RulerReward
from grpo.rollout.rollout import EnvPool
from grpo.rollout.tasks import TaskStream
from grpo.runs.unfinished_step import UnfinishedStep
from grpo.serving.policy import Policy
from grpo.training.batches import Batches
from grpo.types import Group, SampledTurn, StopReason, Task, Trajectory
from judges import Session
from tests.fakes import WORD_ENV, ByteChat, always
from tests.judge_server import JudgeServer, Reply, score_by

IDS = [f"train-{word}" for word in ("falcon", "maple", "harbor", "quartz")]


class Guesser(Policy):
    """Sees the first letter of the word in its prompt; what it says is up to ``turn(letter, member)``."""

    version = 0

    def __init__(self, turn):
        self.chat = ByteChat()
        self.turn = turn
        self.asked = dict.fromkeys("fmhq", 0)

    async def sample(self, prompt_ids, params, *, max_tokens, seed):
        letter = self.chat.decode(prompt_ids).split("begins with ")[1][0]
        self.asked[letter] += 1
        said = self.turn(letter, self.asked[letter])
        if asyncio.iscoroutine(said):
            said = await said
        if isinstance(said, Exception):
            raise said
        ids = [*self.chat.encode(said), ByteChat.END]
        return SampledTurn(ids, [-0.5] * len(ids), "stop")


def batches(reward, **settings):
    rollout = {"groups_per_step": 4, "group_size": 2, "max_tokens": 400}
    config = load_config(None, {"env": WORD_ENV, "rollout": rollout, **settings})
    pool = EnvPool(WORD_ENV, {})
    return Batches(config, pool, ByteChat(), TaskStream(IDS, 0), reward, Display(quiet=True))


def batch(made, turn):
    return asyncio.run(made.next(0, always(Guesser(turn))))


WORDS = {word[0]: word for word in ("falcon", "maple", "harbor", "quartz")}


def right_at_first(letter, number):
    """The first to ask is right; all others guess wrong three times."""
    return WORDS[letter] if number == 1 else "oak"


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


@pytest.mark.timeout(120)
def test_a_group_is_judged_while_others_still_roll_out():
    judged = threading.Event()

    def score(messages):
        judged.set()
        return (0.9, "") if "falcon" in messages[-2]["content"] else (0.1, "")

    async def turn_of(letter, number):
        while letter != "f" and not judged.is_set():  # the others wait until the judge was asked about this group
            await asyncio.sleep(0.01)
        return right_at_first(letter, number)

    with JudgeServer(score_by(score)) as server:
        made = batch(batches(RulerReward("openai/judge", Session(), server.url)), turn_of)
    assert judged.is_set()
    assert len(server.requests) == 4
    assert [g.rewards for g in made.rewarded if g.task.scenario_id == "train-falcon"] == [[0.9, 0.1]]


def by_length(messages):
    """Prefers who guessed often."""
    return min(1.0, 0.1 * len(messages)), "longer"


def test_judged_rewards_are_trained_on_written_down_and_compared_with_the_envs():
    with JudgeServer(score_by(by_length)) as server:
        made = batch(batches(RulerReward("openai/judge", Session(), server.url)), right_at_first)
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
        reward = RulerReward("openai/o4-mini", Session(), server.url)
        maker = batches(reward)
        costs = [batch(maker, right_at_first).metrics()["judge/cost_usd"] for _ in range(2)]
    assert costs[0] > 0
    assert costs == pytest.approx([reward.cost_usd / 2] * 2)


def test_in_the_hybrid_the_right_answer_stays_above():
    with JudgeServer(score_by(by_length)) as server:
        made = batch(batches(HybridReward(RulerReward("openai/judge", Session(), server.url))), right_at_first)
    assert [g.rewards for g in made.groups] == [pytest.approx([1.0 + 0.05, 0.0 + 0.15])] * 4
    assert made.metrics()["judge/disagreement"] == 1.0


def fails_for(letters):
    """A judge that gives no verdict on some words."""

    def answer(messages):
        refuses = any(f"begins with {letter}" in messages[1]["content"] for letter in letters)
        return Reply("no") if refuses else score_by(by_length)(messages)

    return answer


def test_a_failed_verdict_drops_and_counts_its_group():
    with JudgeServer(fails_for("m")) as server:
        made = batch(batches(RulerReward("openai/judge", Session(), server.url)), right_at_first)
    assert {g.task.scenario_id for g in made.groups} == {"train-falcon", "train-harbor", "train-quartz"}
    assert (made.dropped, made.unrewarded, made.metrics()["judge/failures"]) == (1, 1, 1.0)
    unjudged = [t for t in made.sampled if t.task.scenario_id == "train-maple"]
    assert [(t.reward, t.explanation) for t in unjudged] == [(1.0, None), (0.0, None)]
    assert made.metrics()["reward/mean"] == pytest.approx(0.4), "the unjudged group is no part of the mean"


@pytest.mark.parametrize(("letters", "bound"), [("mfh", 0.5), ("fmhq", 1.0), ("m", 0.0)])
def test_too_many_failed_verdicts_stop_the_run(letters, bound):
    with JudgeServer(fails_for(letters)) as server:
        made = batches(RulerReward("openai/judge", Session(), server.url), **{"judge.max_failures": bound})
        with pytest.raises(
            JudgeFailure, match=rf"^{len(letters)} of 4 groups .* above the bound of {bound:g} "
        ) as stop:
            batch(made, right_at_first)
    assert "no usable verdict" in str(stop.value)
    assert "--resume" in str(stop.value)


def test_failed_rollouts_are_not_shown_to_the_judge_and_not_trained_on():
    def turn(letter, number):
        return ServerError("cut off") if (letter, number) == ("m", 2) else right_at_first(letter, number)

    with JudgeServer(score_by(by_length)) as server:
        made = batch(batches(RulerReward("openai/judge", Session(), server.url)), turn)
    (maple,) = [g for g in made.rewarded if g.task.scenario_id == "train-maple"]
    assert len(maple.trajectories) == 1
    assert (made.dropped, made.unrewarded, len(made.sampled)) == (1, 0, 8)
    assert made.metrics()["episodes/failed"] == 1.0


def test_a_step_whose_episodes_mostly_fail_stops_with_the_first_failure():
    with pytest.raises(EnvError, match="8 of 8 episodes of a step failed; the first: gone"):
        batch(batches(EnvReward()), lambda letter, number: ServerError("gone"))


class ByScenario:
    """A reward of the user's own."""

    last_error = "it is a maple"
    cost_usd = None

    async def reward(self, group: Group) -> Group | None:
        assert all(t.stop_reason is not StopReason.FAILED for t in group.trajectories)
        if group.task.scenario_id == "train-maple":
            return None
        return replace(group, trajectories=[replace(t, reward=t.sample_index + 5.0) for t in group.trajectories])


def test_any_object_with_reward_serves():
    made = batch(batches(ByScenario()), right_at_first)
    assert [g.rewards for g in made.groups] == [[5.0, 6.0]] * 3
    assert made.unrewarded == 1


def test_groups_that_were_complete_before_an_interruption_are_neither_sampled_nor_judged_again(tmp_path):
    def made(server):
        return replace(batches(RulerReward("openai/judge", Session(), server.url)), unfinished=UnfinishedStep(tmp_path))

    path = tmp_path / "step-0000.jsonl"

    async def interrupted(letter, number):
        while letter == "q" and len(read_jsonl(path)) < 3:
            await asyncio.sleep(0.01)
        if letter == "q":
            raise RuntimeError("the process ends here")
        return right_at_first(letter, number)

    with JudgeServer(score_by(by_length)) as server:
        expected = batch(batches(RulerReward("openai/judge", Session(), server.url)), right_at_first)
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
    again.unfinished.clear()
    assert list(tmp_path.iterdir()) == []


class Paced(Guesser):
    """A version of the policy whose groups end when they are told to; ``slow`` words do not end by themselves."""

    def __init__(self, version, slow=(), release=None):
        super().__init__(lambda letter, number: right_at_first(letter, (number - 1) % 4 + 1))  # a group asks four times
        self.version, self.slow, self.release = version, slow, release

    async def sample(self, prompt_ids, params, *, max_tokens, seed):
        letter = self.chat.decode(prompt_ids).split("begins with ")[1][0]
        if letter in self.slow:
            await self.release.wait()
        return await super().sample(prompt_ids, params, max_tokens=max_tokens, seed=seed)


def versions_of(made):
    return [(g.task.scenario_id[6], g.trajectories[0].policy_version) for g in made.groups]


def overlapped(slow="", **settings):
    """Three steps of two groups, in one event loop: the batches, and what is open after each."""
    settings = {"steps": 3, "rollout.groups_per_step": 2, **settings}

    async def steps():
        made = batches(EnvReward(), **settings)
        release = asyncio.Event()
        policies = {version: Paced(version, slow, release) for version in range(3)}
        found, left = [], []
        for step in range(3):
            found.append(await made.next(step, lambda version: nullcontext(policies[version])))
            left.append([task.scenario_id[6] for task in made.open_tasks])
            await asyncio.sleep(0.05)  # the learner
        await made.close()
        return found, left

    return asyncio.run(steps())


ORDER = "".join(task.scenario_id[6] for task in TaskStream(IDS, 0).take(8))
"""First letters of the words, in the order in which they come."""


def test_with_staleness_the_next_steps_groups_are_played_while_a_step_is_learned():
    found, left = overlapped(**{"rollout.max_staleness": 1})
    assert [versions_of(made) for made in found] == [
        [(ORDER[0], 0), (ORDER[1], 0)],
        [(ORDER[2], 0), (ORDER[3], 0)],  # begun before step 1 was learned
        [(ORDER[4], 1), (ORDER[5], 1)],
    ]
    assert left == [[*ORDER[2:4]], [*ORDER[4:6]], []]
    assert [{row.staleness for row in made.segments} for made in found] == [{0}, {1}, {1}]
    assert [made.metrics()["groups/stale"] for made in found] == [0.0] * 3


def test_two_steps_ahead_the_policy_is_up_to_two_steps_old():
    found, left = overlapped(**{"rollout.max_staleness": 2})
    assert [{row.staleness for row in made.segments} for made in found] == [{0}, {1}, {2}]
    assert [len(tasks) for tasks in left] == [4, 2, 0], "no more than the run has use for"


def test_without_staleness_nothing_is_left_of_a_step_and_no_row_is_stale():
    found, left = overlapped()
    assert [versions_of(made) for made in found] == [
        [(ORDER[2 * step], step), (ORDER[2 * step + 1], step)] for step in range(3)
    ]
    assert left == [[]] * 3
    assert {row.staleness for made in found for row in made.segments} == {0}


ONE_OF_TWO = {"rollout.groups_per_step": 1, "rollout.oversample": 1}


@pytest.mark.timeout(120)
def test_a_long_tail_holds_no_step_and_its_task_comes_again():
    found, left = overlapped(slow=ORDER[0], **ONE_OF_TWO)
    assert [versions_of(made) for made in found] == [[(ORDER[1], 0)], [(ORDER[2], 1)], [(ORDER[3], 2)]]
    assert left == [[ORDER[0]]] * 3
    assert [made.metrics()["groups/stale"] for made in found] == [1.0, 1.0, 1.0], "no other policy may use it"


@pytest.mark.timeout(120)
def test_a_group_that_is_too_old_for_the_next_step_is_dropped_and_counted():
    found, left = overlapped(slow=ORDER[0], **ONE_OF_TWO, **{"rollout.max_staleness": 1})
    assert [versions_of(made) for made in found] == [[(ORDER[1], 0)], [(ORDER[2], 0)], [(ORDER[3], 1)]]
    assert left == [[ORDER[0], ORDER[2]], [ORDER[0], ORDER[3]], [ORDER[0]]]
    assert [made.metrics()["groups/stale"] for made in found] == [0.0, 1.0, 1.0], "in the end the run needs none"


@pytest.mark.timeout(120)
def test_a_killed_run_takes_the_whole_groups_of_older_policies_that_it_may_learn_from(tmp_path):
    settings = {"steps": 3, "rollout.groups_per_step": 2, "rollout.max_staleness": 1}

    async def first():
        made = replace(batches(EnvReward(), **settings), unfinished=UnfinishedStep(tmp_path, 1))
        batch = await made.next(0, always(Paced(0)))
        made.unfinished.finish(1)
        kept = [(task.key, task.seed) for task in made.open_tasks]
        while len(read_jsonl(tmp_path / "step-0000.jsonl")) < 4:
            await asyncio.sleep(0.01)
        return batch, kept, made.tasks.position

    async def resumed(kept, position):
        made = replace(batches(EnvReward(), **settings), unfinished=UnfinishedStep(tmp_path, 1))
        made.tasks.position, made.tasks.again = position, [Task.of_key(key, seed) for key, seed in kept]
        policy = Paced(1)
        batch = await made.next(1, always(policy))
        asked = dict(policy.asked)
        await made.close()
        return batch, asked

    _, kept, position = asyncio.run(first())
    batch, asked = asyncio.run(resumed(kept, position))
    assert versions_of(batch) == [(ORDER[2], 0), (ORDER[3], 0)]
    assert {row.staleness for row in batch.segments} == {1}
    assert set(asked.values()) == {0}, "nothing was played again"
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000.jsonl"]


def test_a_group_with_a_failed_episode_is_tried_again(tmp_path):
    made = replace(batches(EnvReward()), unfinished=UnfinishedStep(tmp_path))
    batch(made, lambda letter, n: ServerError("gone") if letter == "m" and n == 1 else right_at_first(letter, n))
    kept = UnfinishedStep(tmp_path).groups(0)
    assert {task.scenario_id for task in kept} == {"train-falcon", "train-harbor", "train-quartz"}
    assert UnfinishedStep(tmp_path).groups(1) == {}, "another step's groups were sampled by another policy"
    assert not list(tmp_path.iterdir())


def test_damaged_groups_of_an_unfinished_step_are_named(tmp_path):
    whole = Trajectory("e", Task(3), 1, 7).to_record()
    damages = ({"seed": "x"}, {"token_ids": [1]}, {"stop_reason": "?"}, {"metrics": 1.0})
    for line in ({"trajectories": []}, *({"trajectories": [{**whole, **damage}]} for damage in damages)):
        (tmp_path / "step-0000.jsonl").write_text(json.dumps(line))
        with pytest.raises(CheckpointError, match=r"step-0000\.jsonl is damaged .*remove it"):
            UnfinishedStep(tmp_path).groups(0)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, min_size=1), st.text(), st.booleans(), st.none() | st.text())
def test_a_kept_group_comes_back_as_it_was(logprobs, text, truncated, scenario):
    trajectory = Trajectory("e", Task(3, scenario), 1, 7, seconds=logprobs[0])
    trajectory.append([1, 2])
    trajectory.append(list(range(len(logprobs))), logprobs)
    trajectory.messages = [{"role": "tool", "content": text + "\udc80", "ok": True, "n": None}]
    trajectory.metrics, trajectory.reward = {"success": logprobs[0]}, logprobs[-1]
    trajectory.turn_errors, trajectory.explanation = [text], text
    trajectory.stop_reason = StopReason.TRUNCATED if truncated else StopReason.TERMINATED
    group = Group(trajectory.task, [trajectory, replace(trajectory, sample_index=2)])
    with tempfile.TemporaryDirectory() as folder:
        UnfinishedStep(Path(folder)).add(7, group)
        assert UnfinishedStep(Path(folder)).groups(7) == {group.task: group}
