"""How long a run takes and how many steps fit: figures worked out by hand."""

import json
import math
import time

import pytest

from grpo.config import TrainConfig
from grpo.devices.shape import ModelShape
from grpo.runs.directory import RunDirectory
from grpo.training.pace import (
    LEARNER_SHARE,
    SAMPLER_SHARE,
    SAMPLER_TOKEN_SECONDS,
    Clock,
    Pace,
    Todo,
    corrected,
    estimated_pace,
    measured_pace,
    recorded_seconds,
    steps_that_fit,
)
from tests.support.envs import WORD_ENV

ESTIMATE = Pace(warm_start_step=2.0, episode=1.0, rollout=50.0, update=30.0)
NAN = math.nan


@pytest.mark.parametrize(
    ("seconds", "per_step", "done", "steps"),
    [
        (600, 100, 0, 6),
        (599, 100, 0, 5),
        (250, 100, 3, 5),
        (99, 100, 3, 3),  # no further one fits
        (50, 100, 0, 1),  # a run has one step at least
        (-40, 100, 0, 1),
        (-40, 100, 4, 4),
        (600, 0, 2, 2),
    ],
)
def test_the_steps_that_fit(seconds, per_step, done, steps):
    assert steps_that_fit(seconds, per_step, done) == steps


@pytest.mark.parametrize(
    ("measured", "pace"),
    [
        (Pace(), ESTIMATE),
        (Pace(warm_start_step=6.0), Pace(6.0, 3.0, 150.0, 90.0)),  # three times as slow in all
        (Pace(warm_start_step=6.0, episode=0.5), Pace(6.0, 0.5, 25.0, 90.0)),  # slow updates, quick rollouts
        (Pace(episode=2.0), Pace(2.0, 2.0, 100.0, 30.0)),  # no warm start
        (Pace(6.0, 0.5, 20.0, 40.0), Pace(6.0, 0.5, 20.0, 40.0)),
    ],
    ids=["nothing", "warm start", "evaluation", "no warm start", "a step"],
)
def test_what_was_measured_corrects_the_rest_of_its_kind(measured, pace):
    assert corrected(ESTIMATE, measured) == pace


def test_without_an_estimate_only_what_was_measured_is_known():
    pace = corrected(Pace(), Pace(episode=0.5))
    assert pace.episode == 0.5
    assert math.isnan(pace.step)
    assert Todo(0, 10, 0).seconds(pace) == 5.0
    assert math.isnan(Todo(0, 10, 1).seconds(pace))


def test_what_is_left_is_added_up():
    assert Todo(45, 384, 9).seconds(ESTIMATE) == 45 * 2.0 + 384 * 1.0 + 9 * 80.0


def test_the_estimate_is_the_works_operations_over_the_speed():
    """By hand: 2 and 4 operations for each of a model's weights and each token; half of the rollouts are learned from."""
    shape = ModelShape(layers=1, hidden=8, intermediate=16, heads=2, kv_heads=1, head_dim=4, vocab=100, tied=True)
    rollout = {"groups_per_step": 3, "group_size": 4}
    config = TrainConfig(env=WORD_ENV, rollout=rollout, warm_start={"batch": 5}, loss={"negative_weight": 0.0})
    pace = estimated_pace(config, shape, 10.0, 500.0)
    token = shape.parameters / 10e9
    assert pace.episode == pytest.approx(500 * (2 * token / SAMPLER_SHARE + SAMPLER_TOKEN_SECONDS))
    assert pace.rollout == pytest.approx(12 * pace.episode)
    assert pace.warm_start_step == pytest.approx(5 * 500 * 4 * token / LEARNER_SHARE)
    assert pace.update == pytest.approx(6 * 500 * 4 * token / LEARNER_SHARE)
    fast, faster = estimated_pace(config, shape, 700.0, 500.0), estimated_pace(config, shape, 1850.0, 500.0)
    assert (fast.warm_start_step, fast.update) == (faster.warm_start_step, faster.update)
    assert fast.episode > faster.episode > 500 * SAMPLER_TOKEN_SECONDS


def a_run(folder, warm=(), evaluations=(), steps=()):
    """A run directory in which that much was done: seconds; (name, seconds, episodes); (rollout, step)."""
    run = RunDirectory(folder)
    (folder / "eval").mkdir(parents=True)
    run.warm_start_path.write_text("".join(json.dumps({"seconds": s}) + "\n" for s in warm))
    for name, seconds, episodes in evaluations:
        summary = {"policy": 0, "seconds": seconds, "episodes": episodes - 1, "failed": 1}
        run.evaluation(name).write_text(json.dumps(summary))
    lines = [{"step": i, "time/rollout": r, "time/step": s} for i, (r, s) in enumerate(steps, 1)]
    run.metrics_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


DONE = {
    "warm": (4, 5, 2, 3),
    "evaluations": (("before-sampled", 40, 96), ("before-greedy", 56, 96)),
    "steps": ((900, 999), (40, 60), (50, 90), (60, 80)),
}


def test_the_pace_is_read_from_the_run_directory(tmp_path):
    """By hand: medians of the warm start's newer half and of the newest three steps, seconds over episodes of the evaluations."""
    run = a_run(tmp_path, **DONE)
    assert measured_pace(run) == Pace(2.5, 0.5, 50, 20)
    assert recorded_seconds(run) == 14 + 96 + 999 + 60 + 90 + 80
    empty = measured_pace(RunDirectory(tmp_path / "empty"))
    assert all(map(math.isnan, (empty.warm_start_step, empty.episode, empty.rollout, empty.update)))
    assert recorded_seconds(RunDirectory(tmp_path / "empty")) == 0.0


@pytest.mark.parametrize(
    ("minutes", "steps"),
    [(30, 9), (31.2, 10), (22, 4), (1, 4), (None, None)],
    ids=["five more", "six more", "none more", "too few", "no limit"],
)
def test_minutes_choose_the_steps_and_count_what_was_done_before(tmp_path, minutes, steps):
    """By hand: 1339 s are done, 192 episodes of 0.5 s come after the last step, and a step takes 70 s.

    This process has run for 10 s. 30 minutes leave 1800 - 1339 - 10 - 96 = 355 s: five steps. 31.2 leave 427: six.
    """
    config = TrainConfig(env=WORD_ENV, minutes=minutes, eval={"scenarios": 96})
    run = a_run(tmp_path, **DONE)
    run.opened_at = time.monotonic() - 10
    assert Clock(config, run).steps(4) == steps


def test_evaluations_between_the_steps_take_their_part_of_the_minutes(tmp_path):
    """By hand: 22 minutes more leave 355 + 1320 s; a step takes 70 s, and every second is followed by 96 x 0.5 s."""
    config = TrainConfig(env=WORD_ENV, minutes=52, eval={"scenarios": 96, "every": 2})
    run = a_run(tmp_path, **DONE)
    run.opened_at = time.monotonic() - 10
    assert Clock(config, run).steps(4) == 4 + int(1675 / (70 + 24))


def test_before_the_warm_start_all_of_it_is_left(tmp_path):
    """By hand: 45 x 2 + 192 x 2 x 1 + 9 x 80 s; after it 90 s less; after five steps one evaluation and four steps."""
    config = TrainConfig(env=WORD_ENV, eval={"scenarios": 96}, warm_start={"steps": 45})
    clock = Clock(config, RunDirectory(tmp_path), ESTIMATE)
    assert clock.left(None, 9) == 90 + 384 + 720
    assert clock.left(0, 9) == 384 + 720
    assert clock.left(5, 9) == 192 + 320
    whole = "about 20 min (warm start 1 min 30 s, 9 steps of 1 min 20 s, evaluations 6 min)"
    assert clock.describe(None, 9) == whole
    assert Clock(config, RunDirectory(tmp_path)).describe(None, 9) == ""


def test_an_evaluation_that_is_done_is_not_left(tmp_path):
    """By hand: of 2 x 192 episodes of 0.5 s 288 are left after the sampled ones before, 192 after the greedy ones.

    The rollout of the one step takes half of the estimate's 50 s, as episodes do, its update 30 s.
    """
    config = TrainConfig(env=WORD_ENV, eval={"scenarios": 96})
    sampled, greedy = DONE["evaluations"]
    run = a_run(tmp_path / "one", evaluations=[(sampled[0], 48, 96)])
    assert Clock(config, run, ESTIMATE).left(0, 1) == 288 * 0.5 + 25 + 30
    run = a_run(tmp_path / "both", evaluations=[sampled, greedy])
    assert Clock(config, run, ESTIMATE).left(0, 1) == 192 * 0.5 + 25 + 30


def test_a_run_of_no_steps_has_no_evaluation_after_them(tmp_path):
    """By hand: 45 x 2 s and 192 episodes of 1 s, once."""
    config = TrainConfig(env=WORD_ENV, steps=0, eval={"scenarios": 96}, warm_start={"steps": 45})
    clock = Clock(config, RunDirectory(tmp_path / "new"), ESTIMATE)
    assert clock.left(None, 0) == 90 + 192
    assert clock.describe(None, 0) == "about 5 min (warm start 1 min 30 s, evaluations 3 min)"
    evaluated = a_run(tmp_path / "evaluated", evaluations=DONE["evaluations"])
    assert Clock(config, evaluated, ESTIMATE).left(0, 0) == 0.0
    assert Clock(config, evaluated, ESTIMATE).describe(0, 0) == "about 0.0 s"


def test_minutes_count_the_evaluation_after_before_there_is_a_step(tmp_path):
    """By hand: 10 minutes are 600 s; 90 + 2 x 192 s go to all but steps, and one of 80 s fits into the 126 s left."""
    config = TrainConfig(env=WORD_ENV, minutes=10, eval={"scenarios": 96}, warm_start={"steps": 45})
    run = RunDirectory(tmp_path)
    run.opened_at = time.monotonic()
    assert Clock(config, run, ESTIMATE).steps(None) == 1
    longer = config.model_copy(update={"minutes": 12.5})  # 276 s are left: with the evaluation after 3 steps, else 5
    assert Clock(longer, run, ESTIMATE).steps(None) == 3


def test_minutes_that_are_too_few_for_one_step_are_said_to_be(tmp_path):
    """By hand: 45 x 2 + 384 x 1 + 80 = 554 s, which are 9 min 14 s."""
    run = RunDirectory(tmp_path)
    config = TrainConfig(env=WORD_ENV, minutes=9, eval={"scenarios": 96}, warm_start={"steps": 45})
    said = Clock(config, run, ESTIMATE).too_long()
    assert said.startswith("with one step alone the run takes about 9 min, more than 9 minutes; fewer warm_start.steps")
    assert Clock(config.model_copy(update={"minutes": 9.25}), run, ESTIMATE).too_long() == ""
    assert Clock(config, run).too_long() == ""


def test_evaluations_of_checkpoints_are_counted(tmp_path):
    """By hand: one every three steps, and one of the last step whatever its number: after 3, 6, 9 and 10 of ten."""
    config = TrainConfig(env=WORD_ENV, eval={"scenarios": 10, "samples": 2, "every": 3, "greedy": 0})
    clock = Clock(config, RunDirectory(tmp_path), ESTIMATE)
    assert clock.left(0, 9) == 10 * (2 + 2 + 3 * 2) + 720
    assert clock.left(0, 10) == 10 * (2 + 2 + 4 * 2) + 800
    assert clock.left(0, 0) == 10 * (2 + 2), "before, and of the checkpoint of step 0"


def test_greedy_episodes_of_more_tasks_are_counted(tmp_path):
    """By hand: 10 tasks twice at temperature 1 and 30 greedily, before and after."""
    config = TrainConfig(env=WORD_ENV, eval={"scenarios": 10, "samples": 2, "greedy": 3})
    assert Clock(config, RunDirectory(tmp_path), ESTIMATE).left(0, 9) == 2 * (20 + 30) + 720
