"""A row on which sampler and trainer disagree is not learned from: the loss by hand, the metrics, and the run's end."""

import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.config import load_config  # noqa: E402
from grpo.errors import TrainingError  # noqa: E402
from grpo.learner.engine import LossSpec, RowStatistics  # noqa: E402
from grpo.learner.loss import ActionTokens, token_losses  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from grpo.learner.update import UpdateConfig, update_config, update_policy  # noqa: E402
from grpo.learner.update_metrics import Update, check_gap, update_metrics  # noqa: E402
from grpo.settings import LossSettings  # noqa: E402
from tests.support.tiny_model import tiny_engine, tiny_model_folder  # noqa: E402

pytestmark = pytest.mark.torch

NEAR, FAR = ([-1.0, -2.0], [-1.1, -1.8]), ([-0.5, -3.0, -1.0], [-1.75, -2.0, -0.25])
"""The trainer's and the sampler's log-probabilities of a row: they differ by 0.15 and by 1.0 on average."""


def tokens_of(*rows, bounds=None, advantages=(1.0, -1.0)):
    trained = torch.tensor([value for row in rows for value in row[0]], requires_grad=True)
    sampled = torch.tensor([value for row in rows for value in row[1]])
    counts = [len(row[0]) for row in rows]
    each = torch.tensor([a for a, count in zip(advantages, counts, strict=False) for _ in range(count)])
    return ActionTokens(trained, sampled, each, counts, row_bounds=bounds)


W1, W2 = 1.105171, 0.818731
"""exp(0.1) and exp(-0.2): the weights, or in a later update the ratios, of the near row's two tokens."""


@pytest.mark.parametrize(
    ("loss", "losses", "gradient"),
    [
        (LossSpec("dapo", 5.0), [-W1 / 5, -W2 / 5], [-W1 / 5, -W2 / 5]),
        (LossSpec("bnpo", 5.0), [-W1 / 5, -W2 / 5], [-W1 / 5, -W2 / 5]),
        (LossSpec("dr_grpo", 200.0), [-W1 / 200, -W2 / 200], [-W1 / 200, -W2 / 200]),
        (LossSpec("grpo", 2.0), [-W1 / 4, -W2 / 4], [-W1 / 4, -W2 / 4]),
        (LossSpec("gspo", 2.0), [-W1 / 4, -W2 / 4], [-(W1 + W2) / 8] * 2),  # the mean, for the ratio is the row's
        (LossSpec("gspo", 2.0, "sampler"), [-0.951229 / 4] * 2, [-0.951229 / 4] * 2),  # exp(-0.05)
        (LossSpec("cispo", 5.0), [W1 * 1.0 / 5, W2 * 2.0 / 5], [-W1 / 5, -W2 / 5]),  # times log p
        (LossSpec("dapo", 5.0, "sampler"), [-W1 / 5, -W2 / 5], [-W1 / 5, -W2 / 5]),
    ],
    ids=lambda value: f"{value.kind}-{value.old_policy}" if isinstance(value, LossSpec) else "",
)
def test_a_row_above_its_bound_has_weight_0_and_the_divisor_counts_it(loss, losses, gradient):
    tokens = tokens_of(NEAR, FAR, bounds=[0.5, 0.5])
    found = token_losses(tokens, loss)
    found.sum().backward()
    assert found.tolist() == pytest.approx([*losses, 0.0, 0.0, 0.0], abs=1e-6)
    assert tokens.logprobs_T.grad.tolist() == pytest.approx([*gradient, 0.0, 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(
    ("bounds", "learned"),
    [([1.0, 1.0], [True, True]), ([0.125, 1.0], [False, True]), ([0.125, 0.99], [False, False]), (None, [True, True])],
    ids=["at the bound", "a bound of its own", "both", "no bound"],
)
def test_each_row_has_its_own_bound(bounds, learned):
    found = token_losses(tokens_of(NEAR, FAR, bounds=bounds), LossSpec()).split([2, 3])
    assert [bool(part.abs().min() > 0) for part in found] == learned


@pytest.mark.parametrize("loss", [LossSpec(), LossSpec(old_policy="sampler"), LossSpec("gspo", old_policy="sampler")])
def test_a_dropped_row_leaves_no_gradient_however_far_it_is(loss):
    """A ratio of exp(9998), which is infinite, and the divergence that goes with it."""
    tokens = tokens_of(NEAR, ([-1.0, -1.0], [-9999.0, -9999.0]), bounds=[0.5, 0.5])
    tokens.reference_logprobs_T = torch.tensor([-1.0, -2.0, -1.0, -1.0])
    found = token_losses(tokens, replace(loss, kl_coef=0.1))
    found.sum().backward()
    assert found[2:].tolist() == tokens.logprobs_T.grad[2:].tolist() == [0.0, 0.0]
    assert torch.isfinite(tokens.logprobs_T.grad).all()
    assert found[:2].abs().min() > 0.1


def test_a_trainer_without_a_number_is_not_taken_for_one_that_disagrees():
    found = token_losses(tokens_of(([math.nan, -1.0], [-1.0, -1.0]), bounds=[0.5]), LossSpec())
    assert math.isnan(float(found.detach().sum()))


def test_a_long_row_is_not_dropped_for_its_length():
    """2,000 tokens that each differ by 0.02: their product is exp(40)."""
    row = [-1.0] * 2000, [-1.02] * 2000
    (learned,) = token_losses(tokens_of(row, bounds=[0.5]), LossSpec("grpo")).split([2000])
    assert float(learned.detach().sum()) == pytest.approx(-math.exp(0.02), rel=1e-4)


def row_of(gap, staleness=0):
    """Two action tokens, of which the sampler was surer by ``gap`` than a trainer at -2.0."""
    return Segment([1, 2, 3], [False, True, True], [0.0, gap - 2.0, gap - 2.0], 1.0, staleness=staleness)


def metrics_of(*updates, loss=LossSpec(max_row_gap=0.5, max_stale_row_gap=1.0)):  # noqa: B008
    made = [Update(rows, loss, [RowStatistics(0.0, [-2.0, -2.0], []) for _ in rows], 1.0) for rows in updates]
    return update_metrics(made)


def test_the_gap_is_taken_over_all_rows_the_dropped_ones_too():
    rows = [row_of(0.1), row_of(1.5), row_of(0.75, staleness=1), row_of(1.25, staleness=1)]
    metrics = metrics_of(rows, [row_of(0.2)])
    assert metrics["gap/dropped_share"] == 2 / 5, "of the rows of both updates"
    assert metrics["gap/mean_abs"] == pytest.approx(0.8)
    assert metrics["gap/stale_mean_abs"] == pytest.approx(1.0)
    assert metrics["gap/max"] == 1.5


def test_a_run_bears_a_tenth_of_dropped_rows_and_no_more():
    check_gap(metrics_of([row_of(1.5)] + [row_of(0.0)] * 9), 0.25, 3)
    with pytest.raises(
        TrainingError,
        match=r"step 3: sampler and trainer disagree on 11% of the rows, above 10%, by more than loss\.max_row_gap each\. "
        r"The server does not sample the adapter .* trajectories; the last checkpoint is whole$",
    ):
        check_gap(metrics_of([row_of(1.5)] + [row_of(0.0)] * 8), 0.25, 3)
    with pytest.raises(
        TrainingError, match=r"by more than loss\.max_stale_row_gap each.* raise loss\.max_stale_row_gap"
    ):
        check_gap(metrics_of([row_of(1.5, staleness=1)] + [row_of(0.0)] * 8), 0.25, 3)
    with pytest.raises(TrainingError, match=r"disagree by 0\.500 nats a token on average, above loss\.max_gap = 0\.25"):
        check_gap(metrics_of([row_of(1.5)] + [row_of(0.0)] * 2), 0.25, 3)


class Recorder:
    """An engine that computes nothing, and keeps the losses that it was asked for."""

    def __init__(self):
        self.asked = []

    def forward_backward(self, rows, loss, on_rows):
        self.asked.append(loss)
        return [RowStatistics(0.0, row.sampled_logprobs, []) for row in rows]

    def optim_step(self, learning_rate, max_grad_norm):
        return 0.0


def test_rows_of_an_older_policy_have_the_wider_bound_and_so_have_all_once_the_step_has_moved():
    settings = {"loss.max_row_gap": 0.3, "loss.max_stale_row_gap": 0.7, "optimizer.updates_per_step": 3}
    engine, rows = Recorder(), [replace(row_of(0.0), task=str(number)) for number in range(3)]
    config = update_config(load_config(None, {"env": "E", **settings}), 0)
    update_policy(engine, rows, config, seed=0, on_rows=lambda rows: None)
    fresh, stale = row_of(0.0), row_of(0.0, staleness=1)
    assert [(loss.row_bound(fresh), loss.row_bound(stale)) for loss in engine.asked] == [(0.3, 0.7)] + [(0.7, 0.7)] * 2
    assert LossSettings().max_row_gap < LossSettings().max_stale_row_gap


def test_the_engine_learns_from_the_other_rows_alone(tmp_path):
    """Two rows, the second of which was sampled otherwise: the weights are those of a step on the first."""
    folder = tiny_model_folder(tmp_path)
    near = Segment([5, 6, 7, 8], [False, True, True, True], [0.0] * 4, 1.0)
    far = Segment([5, 9, 7, 6], [False, True, True, True], [0.0] * 4, -0.7)
    made = [tiny_engine(folder), tiny_engine(folder)]
    logprobs = made[0].logprobs([near, far])
    rows = [
        replace(row, sampler_logprobs=[0.0, *(value + gap for value in values)])
        for row, values, gap in zip((near, far), logprobs, (0.1, 2.0), strict=True)
    ]
    config = UpdateConfig(1, 1e-2, 1.0, LossSpec(max_row_gap=0.5))
    metrics = update_policy(made[0], rows, config, seed=0, on_rows=lambda rows: None)
    made[1].forward_backward(rows[:1], LossSpec(normalizer=6.0))
    made[1].optim_step(1e-2, 1.0)
    assert metrics["gap/dropped_share"] == 0.5
    for one, other in zip(made[0].parameters, made[1].parameters, strict=True):
        torch.testing.assert_close(one, other, atol=1e-7, rtol=1e-4)
