"""The coefficients by which a Tinker server's gradient is the one of our losses."""

import math

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.loss import ActionTokens, token_losses  # noqa: E402
from grpo.tinker.rows import weigh  # noqa: E402
from tests.grpo.learner.engine_runs import LOSSES, rows_of_groups  # noqa: E402

pytestmark = pytest.mark.torch
PLAIN = [loss for loss in LOSSES if loss.kl_coef == 0]
SMOOTH = [loss for loss in PLAIN if loss.kind != "cispo"]
"""Those whose gradient is their derivative; cispo's ratio has none."""


def logprobs_of(rows):
    generator = torch.Generator().manual_seed(3)
    return [(-5.6 + 0.6 * torch.randn(row.num_actions, generator=generator)).tolist() for row in rows]


@pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: loss.kind)
def test_coefficients_are_the_derivatives_of_the_loss(loss):
    rows = rows_of_groups()
    logprobs = logprobs_of(rows)
    statistics, weighed = weigh(rows, logprobs, loss)
    there_T = torch.tensor([value for row in logprobs for value in row], dtype=torch.float64)
    sampler_T = torch.tensor([value for row in rows for value in row.sampled_logprobs], dtype=torch.float64)
    advantages_T = torch.tensor([row.advantage for row in rows for _ in range(row.num_actions)], dtype=torch.float64)
    counts = [row.num_actions for row in rows]

    def value(at_T):
        return float(token_losses(ActionTokens(at_T, sampler_T, advantages_T, counts), loss, there_T).sum())

    for place in (0, 7, len(there_T) - 1):
        step_T = torch.zeros_like(there_T)
        step_T[place] = 1e-5
        derivative = (value(there_T + step_T) - value(there_T - step_T)) / 2e-5
        coefficients = [coefficient for row in weighed for coefficient in row.coefficients]
        assert coefficients[place] == pytest.approx(derivative, rel=1e-3, abs=1e-7)
    assert sum(row.loss for row in statistics) == pytest.approx(value(there_T), rel=1e-4)
    assert [row.logprobs for row in statistics] == logprobs
    assert all(row.entropies == [] for row in statistics)


def test_a_row_on_which_sampler_and_trainer_disagree_has_no_coefficients():
    rows = rows_of_groups()[:2]
    logprobs = [[-5.7] * rows[0].num_actions, [-6.4] * rows[1].num_actions]  # the sampler has -5.6
    _, (near, far) = weigh(rows, logprobs, LossSpec(max_row_gap=0.5))
    assert all(near.coefficients)
    assert not any(far.coefficients)


def test_cispos_coefficients_are_weights_times_advantages():
    rows = rows_of_groups()
    (loss,) = [loss for loss in PLAIN if loss.kind == "cispo"]
    logprobs = logprobs_of(rows)
    for row, values, weighed in zip(rows, logprobs, weigh(rows, logprobs, loss)[1], strict=True):
        weights = [min(math.exp(value + 5.6), loss.max_importance_weight) for value in values]
        assert weighed.coefficients == pytest.approx([-weight * row.advantage for weight in weights], rel=1e-4)
