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
    estimated_pace,
    measured_pace,
    recorded_seconds,
    step_seconds,
)
from tests.support.envs import WORD_ENV

ESTIMATE = Pace(warm_start_step=2.0, episode=1.0)
STEP = {"rollout": {"groups_per_step": 5, "group_size": 8}, "warm_start": {"batch": 1}}
"""By hand: with the estimate 40 episodes of 1 s and 20 rows of 2 s make a step of 80 s."""


def settings_of(minutes=None, steps=100, warm_start=0, **evaluation):
    """Those of a run whose steps are estimated at 80 s, with 96 questions before and after."""
    evaluation = {"scenarios": 96, "baselines": "scripts"} | evaluation
    return TrainConfig(
        env=WORD_ENV, minutes=minutes, steps=steps, rollout=STEP["rollout"], eval=evaluation,
        warm_start=STEP["warm_start"] | {"steps": warm_start},
    )  # fmt: skip


def test_what_is_left_is_added_up_where_it_is_known():
    assert Todo(45, 384, 9).seconds(Pace(2.0, 1.0, 80.0)) == 45 * 2.0 + 384 * 1.0 + 9 * 80.0
    assert Todo(0, 10, 0).seconds(Pace(episode=0.5)) == 5.0
    assert math.isnan(Todo(0, 10, 1).seconds(Pace(episode=0.5)))


def test_the_estimate_is_the_works_operations_over_the_speed():
    """By hand: 2 and 4 operations for each of a model's weights and each token; half of the rollouts are learned from."""
    shape = ModelShape(layers=1, hidden=8, intermediate=16, heads=2, kv_heads=1, head_dim=4, vocab=100, tied=True)
    rollout = {"groups_per_step": 3, "group_size": 4}
    config = TrainConfig(env=WORD_ENV, rollout=rollout, warm_start={"batch": 5})
    pace = estimated_pace(config, shape, 10.0, 500.0)
    token = shape.parameters / 10e9
    assert pace.episode == pytest.approx(500 * (2 * token / SAMPLER_SHARE + SAMPLER_TOKEN_SECONDS))
    assert pace.warm_start_step == pytest.approx(5 * 500 * 4 * token / LEARNER_SHARE)
    assert step_seconds(config, pace) == pytest.approx(12 * pace.episode + 6 * 500 * 4 * token / LEARNER_SHARE)
    fast, faster = estimated_pace(config, shape, 700.0, 500.0), estimated_pace(config, shape, 1850.0, 500.0)
    assert fast.warm_start_step == faster.warm_start_step
    assert fast.episode > faster.episode > 500 * SAMPLER_TOKEN_SECONDS


def a_run(folder, warm=(), evaluations=(), steps=()):
    """A run directory in which that much was done: seconds; (name, seconds, episodes); seconds."""
    run = RunDirectory(folder)
    (folder / "eval").mkdir(parents=True)
    run.warm_start_path.write_text("".join(json.dumps({"seconds": s}) + "\n" for s in warm))
    for name, seconds, episodes in evaluations:
        summary = {"policy": 0, "seconds": seconds, "episodes": episodes - 1, "failed": 1}
        run.evaluation(name).write_text(json.dumps(summary))
    lines = [{"step": number, "time/step": seconds} for number, seconds in enumerate(steps, 1)]
    run.metrics_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


DONE = {
    "warm": (4, 5, 2, 3),
    "evaluations": (("before-sampled", 40, 96), ("before-greedy", 56, 96)),
    "steps": (999, 60, 90, 80),
}


def test_the_pace_is_read_from_the_run_directory(tmp_path):
    """By hand: medians of the warm start's newer half and of the newest three steps, seconds over episodes of the evaluations."""
    run = a_run(tmp_path, **DONE)
    assert measured_pace(run) == Pace(2.5, 0.5, 80)
    assert recorded_seconds(run) == 14 + 96 + 999 + 60 + 90 + 80
    empty = RunDirectory(tmp_path / "empty")
    assert all(map(math.isnan, measured_pace(empty)))
    assert recorded_seconds(empty) == 0.0


@pytest.mark.parametrize(
    ("minutes", "every", "steps"),
    [(31, 0, 9), (32.7, 0, 10), (22, 0, 4), (1, 0, 4), (None, 0, None), (52, 2, 20)],
    ids=["five more", "six more", "none more", "too few", "no limit", "with evaluations of checkpoints"],
)
def test_minutes_choose_the_steps_and_count_what_was_done_before(tmp_path, minutes, every, steps):
    """By hand: 1339 s are done, 192 episodes of 0.5 s come after the last step, and a step takes 80 s.

    This process has run for 10 s. 31 minutes leave 1860 - 1339 - 10 - 96 = 415 s: five steps. 32.7 leave 517: six. 52
    leave 1675: 16 steps take 1280 and the evaluations of eight checkpoints 8 x 48; another step would not fit.
    """
    run = a_run(tmp_path, **DONE)
    run.opened_at = time.monotonic() - 10
    assert Clock(settings_of(minutes, every=every), run).steps(4) == steps


def test_before_the_warm_start_all_of_it_is_left(tmp_path):
    """By hand: 45 x 2 + 192 x 2 x 1 + 9 x 80 s; after it 90 s less; after five steps one evaluation and four steps."""
    config = settings_of(warm_start=45)
    clock = Clock(config, RunDirectory(tmp_path), ESTIMATE)
    assert clock.left(None, 9) == 90 + 384 + 720
    assert clock.left(0, 9) == 384 + 720
    assert clock.left(5, 9) == 192 + 320
    whole = "about 20 min (warm start 1 min 30 s, 9 steps of 1 min 20 s, evaluations 6 min)"
    assert clock.describe(None, 9) == whole
    assert Clock(config, RunDirectory(tmp_path)).describe(None, 9) == ""


@pytest.mark.parametrize(
    ("done", "left"),
    [
        ({"evaluations": (("before-sampled", 48, 96),)}, 288 * 0.5 + 40 * 0.5 + 20 * 2),
        ({"evaluations": DONE["evaluations"]}, 192 * 0.5 + 40 * 0.5 + 20 * 2),
        ({"warm": (6,)}, 384 * 1 + 40 * 1 + 20 * 6),
    ],
    ids=["sampled", "both", "slow updates"],
)
def test_what_was_measured_tells_of_the_steps_and_an_evaluation_that_is_done_is_not_left(tmp_path, done, left):
    """By hand: of 2 x 192 episodes 288 are left after the sampled ones before, 192 after the greedy ones."""
    assert Clock(settings_of(), a_run(tmp_path, **done), ESTIMATE).left(0, 1) == left


def test_the_base_model_plays_before_a_run_that_begins_elsewhere_and_scripts_take_no_time(tmp_path):
    """By hand: 96 episodes more than those before, 96 less once they are there; a script's 96 change no pace."""

    def left(*done):
        run = a_run(tmp_path / str(len(done)), evaluations=(*DONE["evaluations"][:1], *done))
        return Clock(settings_of(warm_start=45, baselines="all"), run, ESTIMATE).left(0, 0)

    assert left() == (96 + 96) * 40 / 96
    assert left(("keyword-baseline", 0.1, 96)) == (96 + 96) * 40 / 96
    assert left(("base-model-baseline", 40, 96), ("keyword-baseline", 0.1, 96)) == 96 * 40 / 96


def test_without_an_estimate_the_warm_start_and_the_evaluation_before_tell_how_long_a_step_takes(tmp_path):
    run = a_run(tmp_path, warm=(6,))
    assert math.isnan(Clock(settings_of(), run).left(0, 1))
    run = a_run(tmp_path / "evaluated", warm=(6,), evaluations=DONE["evaluations"])
    assert Clock(settings_of(), run).left(0, 1) == 192 * 0.5 + 40 * 0.5 + 20 * 6


def test_a_run_of_no_steps_has_no_evaluation_after_them(tmp_path):
    """By hand: 45 x 2 s and 192 episodes of 1 s, once."""
    config = settings_of(steps=0, warm_start=45)
    clock = Clock(config, RunDirectory(tmp_path / "new"), ESTIMATE)
    assert clock.left(None, 0) == 90 + 192
    assert clock.describe(None, 0) == "about 5 min (warm start 1 min 30 s, evaluations 3 min)"
    evaluated = Clock(config, a_run(tmp_path / "evaluated", evaluations=DONE["evaluations"]), ESTIMATE)
    assert (evaluated.left(0, 0), evaluated.describe(0, 0)) == (0.0, "about 0.0 s")


@pytest.mark.parametrize(("minutes", "steps"), [(10, 1), (12.5, 3), (9, 1)], ids=["one", "three", "too few for one"])
def test_minutes_count_the_evaluation_after_before_there_is_a_step(tmp_path, minutes, steps):
    """By hand: 90 + 2 x 192 s go to all but steps; of 10 minutes 126 s are left and of 12.5 276; without the evaluation
    after there would be five steps.
    """
    run = RunDirectory(tmp_path)
    run.opened_at = time.monotonic()
    assert Clock(settings_of(minutes, warm_start=45), run, ESTIMATE).steps(None) == steps


@pytest.mark.parametrize(
    ("evaluation", "steps", "left"),
    [
        ({"every": 3, "greedy": 0}, 9, 10 * (2 + 2 + 3 * 2) + 720),
        ({"every": 3, "greedy": 0}, 10, 10 * (2 + 2 + 4 * 2) + 800),
        ({"every": 3, "greedy": 0}, 0, 10 * (2 + 2)),
        ({"greedy": 3}, 9, 2 * (20 + 30) + 720),
    ],
    ids=["after 3, 6, 9", "after 3, 6, 9 and 10", "before, and of step 0", "greedy ones of three times the tasks"],
)
def test_evaluations_of_checkpoints_and_greedy_ones_of_more_tasks_are_counted(tmp_path, evaluation, steps, left):
    config = settings_of(scenarios=10, samples=2, **evaluation)
    assert Clock(config, RunDirectory(tmp_path), ESTIMATE).left(0, steps) == left
