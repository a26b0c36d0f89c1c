"""A step's updates on a tiny random model in float32, against updates written out by hand."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.errors import TrainingError  # noqa: E402
from grpo.learner.engine import LossSpec, RowStatistics  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from grpo.learner.update import (  # noqa: E402
    UpdateConfig,
    normalizers,
    scheduled_learning_rate,
    split,
    update_policy,
)
from grpo.learner.update_metrics import Update, check_gap, update_metrics  # noqa: E402
from grpo.settings import OptimizerSettings  # noqa: E402
from tests.support.tiny_model import plain_logprobs, tiny_model_folder  # noqa: E402
from tests.support.tiny_model import tiny_engine as engine  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    return tiny_model_folder(tmp_path_factory.mktemp("tiny"))


def segment(number, advantage, logprob=-5.5):
    ids = [(7 * number + at) % 250 for at in range(12)]
    return Segment(ids, [False] * 6 + [True] * 6, [0.0] * 6 + [logprob] * 6, advantage)


def update(made, rows, count=1, loss=None):
    seen = []
    config = UpdateConfig(count, 1e-3, 1.0, loss or LossSpec(max_importance_weight=100.0))
    metrics = update_policy(made, rows, config, seed=3, on_rows=seen.append)
    return metrics, sum(seen)


def loss_by_hand(made, rows, most=100.0):
    """Of 12 actions in all: each weighs as much as its probability has grown since it was sampled, at ``most``."""
    losses = []
    for row in rows:
        sampled = plain_logprobs(made, row)
        weight = torch.exp(sampled.detach() + 5.5).clamp(max=most)
        losses.append(-(weight * row.advantage * torch.exp(sampled - sampled.detach())).sum() / 12)
    return torch.stack(losses).sum()


def test_one_update_is_the_importance_weighted_policy_gradient(model_folder):
    ours, plain = engine(model_folder), engine(model_folder)
    rows = [segment(0, 1.0), segment(1, -0.5)]
    metrics, seen = update(ours, rows)
    expected = loss_by_hand(plain, rows)
    expected.backward()
    norm = plain.optim_step(1e-3, 1.0)
    assert seen == 2
    assert metrics["loss/policy"] == pytest.approx(float(expected.detach()), abs=1e-7)
    assert metrics["loss/grad_norm"] == pytest.approx(norm, rel=1e-6)
    for one, other in zip(ours.parameters, plain.parameters, strict=True):
        assert torch.allclose(one, other, atol=1e-7)


def test_rows_without_advantage_are_counted_but_not_computed(model_folder):
    alone, _ = update(engine(model_folder), [segment(0, 1.0)])
    beside, seen = update(engine(model_folder), [segment(0, 1.0), segment(1, 0.0), segment(2, 0.0)])
    assert seen == 1
    assert beside["loss/policy"] == pytest.approx(alone["loss/policy"] / 3, rel=1e-5)
    assert update(engine(model_folder), [segment(0, 0.0)]) == ({"loss/policy": 0.0, "loss/grad_norm": 0.0}, 0)


def test_later_updates_take_the_clipped_ratio_against_the_sampler(model_folder):
    made = engine(model_folder)
    rows = [segment(number, 1.0) for number in range(4)]
    sampled = made.logprobs(rows)
    rows = [Segment(r.ids, r.action_mask, [0.0] * 6 + values, 1.0) for r, values in zip(rows, sampled, strict=True)]
    config = UpdateConfig(4, 0.05, 1.0, LossSpec())
    losses = []
    forward_backward = made.forward_backward

    def recorded(share, *arguments):
        logprobs = torch.tensor(made.logprobs(share)[0])
        ratio = torch.exp(logprobs - torch.tensor(share[0].sampler_logprobs[6:])).clamp(max=1.28)
        (found,) = forward_backward(share, *arguments)
        losses.append((found.loss, -float(ratio.sum()) / 6))
        return [found]

    made.forward_backward = recorded
    metrics = update_policy(made, rows, config, seed=0, on_rows=lambda rows: None)
    assert losses[0][0] == pytest.approx(-1.0, abs=1e-5)
    assert [found for found, _ in losses] == pytest.approx([expected for _, expected in losses], abs=1e-5)
    assert losses[-1][0] != pytest.approx(-1.0, abs=1e-2), "the policy had moved"
    assert metrics["gap/mean_abs"] == pytest.approx(0.0, abs=1e-5), "measured before it moved"
    assert metrics["loss/clip_share"] > 0


def test_of_gspo_a_rows_ratio_is_truncated_and_not_that_of_a_token():
    """By hand: the row's ratio is exp(0.5), below the bound of 2; a token's alone is exp(3)."""
    found = RowStatistics(0.0, [-1.0, -3.0], [])
    row = Segment([1, 2, 3], [False, True, True], [0.0, -4.0, -1.0], -1.0)

    def clipped(kind, old_policy):
        loss = LossSpec(kind, old_policy=old_policy, max_importance_weight=2.0)
        return update_metrics([Update([row], loss, [found], 1.0)])["loss/clip_share"]

    assert clipped("gspo", "sampler") == 0.0
    assert clipped("gspo", "current") == 0.5, "weights are those of tokens"
    assert clipped("dapo", "sampler") == 1.0, "one is truncated, and one (exp(-2), with a loss) clipped"


def test_with_a_kl_term_rows_without_advantage_are_computed_and_pulled_to_the_reference(model_folder):
    made = engine(model_folder)
    rows = [segment(0, 0.0), segment(1, 0.0)]
    loss = LossSpec(kl_coef=0.5)
    first, seen = update(made, rows, loss=loss)
    assert seen == 2
    assert first["loss/policy"] == pytest.approx(0.5 * first["loss/kl"], rel=1e-3)
    for _ in range(8):
        last, _ = update(made, rows, loss=loss)
    assert 0 <= last["loss/kl"] < 0.5 * first["loss/kl"]
    assert "loss/kl" not in update(made, [segment(0, 1.0)])[0]


def test_every_loss_divides_by_its_own_count():
    def row(actions, advantage):
        return Segment([1] * 20, [at >= 20 - actions for at in range(20)], [0.0] * 20, advantage)

    first, second, idle = row(12, 1.0), row(10, -1.0), row(8, 0.0)

    def divisors(loss):
        config = UpdateConfig(2, 1e-3, 1.0, LossSpec(loss), max_completion_tokens=50)
        return normalizers([idle, first, second], [[first], [second]], config)

    assert divisors("dapo") == divisors("cispo") == [15.0, 15.0]
    assert divisors("bnpo") == [20.0, 10.0], "the row that is not computed is counted with the first update"
    assert divisors("dr_grpo") == [75.0, 75.0]
    halves = [replace(first, rollout_share=0.5)] * 2
    config = UpdateConfig(1, 1e-3, 1.0, LossSpec("dr_grpo"), max_completion_tokens=50)
    assert normalizers([*halves, second], [halves], config) == [100.0], "it counts rollouts, not their rows"
    assert divisors("grpo") == divisors("gspo") == [1.5, 1.5]


def group(task, *actions):
    """Rows of a task: two ids in common, then ids of their own, as many as they have actions."""
    return [
        Segment([7, 8] + [number] * acts, [False] * 2 + [True] * acts, [0.0] * (2 + acts), 1.0, task=task)
        for number, acts in enumerate(actions)
    ]


def shares_of(rows, count, seed):
    """The updates, each as its rows' tasks and numbers of actions."""
    return [sorted((row.task, row.num_actions) for row in share) for share in split(rows, count, seed)]


def test_a_group_stays_in_one_update_and_the_updates_have_as_many_action_tokens():
    a, b, c, d = group("a", 9, 9), group("b", 3, 5), group("c", 4, 4, 1), group("d", 6)
    rows = [row for groups in zip(a, b, c[:2], strict=True) for row in groups] + c[2:] + d
    # of 41 actions a has 18, and of the other update c has 9, b 8 and d, which comes last, 6
    expected = [[("a", 9), ("a", 9)], [("b", 3), ("b", 5), ("c", 1), ("c", 4), ("c", 4), ("d", 6)]]
    assert sorted(shares_of(rows, 2, seed=0)) == expected
    assert shares_of(rows, 2, seed=5) == shares_of(rows, 2, seed=5)
    orders = {tuple(map(tuple, shares_of(rows, 2, seed))) for seed in range(20)}
    assert len(orders) == 2, "the seed says which is the first"
    assert shares_of(rows, 1, seed=0) == [sorted([*expected[0], *expected[1]])]


def test_a_group_is_cut_where_there_are_too_few_or_it_is_more_than_an_even_share():
    rows = group("a", 3, 3, 2, 2) + group("b", 6)  # an even share is 8, of three updates 5.3
    assert sorted(shares_of(rows, 2, seed=0)) == [[("a", 2), ("a", 2), ("b", 6)], [("a", 3), ("a", 3)]]
    assert sorted(shares_of(rows, 3, seed=0)) == [[("a", 2), ("a", 2)], [("a", 3), ("a", 3)], [("b", 6)]]
    assert sorted(map(len, shares_of(rows, 9, seed=0))) == [1, 1, 1, 1, 1], "no more updates than rows"
    assert split([], 4, seed=0) == []


def test_the_updates_of_a_step_add_up_to_one_update_of_all_rows(model_folder):
    rows = [replace(segment(number, 0.3 * number - 1.0), task=str(number // 3)) for number in range(9)]
    found = []
    for count in (1, 3):
        made = engine(model_folder)
        config = UpdateConfig(count, 0.0, 1.0, LossSpec())
        shares = split(rows, count, seed=1)
        for share, normalizer in zip(shares, normalizers(rows, shares, config), strict=True):
            made.forward_backward(share, replace(config.loss, normalizer=normalizer * len(shares)))
        found.append([parameter.grad for parameter in made.parameters])
    assert any(gradient.abs().max() > 1e-4 for gradient in found[0])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_loss_that_is_not_finite_stops_the_step(model_folder):
    with pytest.raises(TrainingError, match="the gradient's norm is nan in update 1"):
        update(engine(model_folder), [segment(0, float("nan"))])


def test_a_gradient_that_is_not_finite_stops_the_step_before_anything_is_kept(model_folder):
    made = engine(model_folder)
    made.parameters[0].register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(TrainingError, match=r"the gradient's norm is (nan|inf) in update 1"):
        update(made, [segment(0, 1.0)])


def test_the_learning_rate_rises_evenly_and_falls_evenly():
    rising = OptimizerSettings(learning_rate=8.0, warmup_steps=3)
    falling = OptimizerSettings(learning_rate=8.0, final_lr_share=0.5)
    assert [scheduled_learning_rate(step, 5, rising) for step in range(5)] == [2.0, 4.0, 6.0, 8.0, 8.0]
    assert [scheduled_learning_rate(step, 5, falling) for step in range(5)] == [8.0, 7.0, 6.0, 5.0, 4.0]
    assert scheduled_learning_rate(0, 1, falling) == 8.0
    replanned = [scheduled_learning_rate(step, steps, falling) for step, steps in enumerate((7, 5, 5, 6, 5))]
    assert replanned == pytest.approx([8.0, 7.0, 6.0, 5.6, 4.0]), "the share of the steps that are planned now"


def test_a_sampler_of_another_policy_stops_the_run_with_the_reason(model_folder):
    made = engine(model_folder)
    rows = [segment(0, 1.0), segment(1, -0.5)]
    trained = [value for values in made.logprobs(rows) for value in values]
    same = [replace(r, sampler_logprobs=[0.0] * 6 + v) for r, v in zip(rows, made.logprobs(rows), strict=True)]
    metrics, _ = update(made, same)
    assert metrics["gap/mean_abs"] == pytest.approx(0.0, abs=1e-5)
    check_gap(metrics, 0.25, 3)

    metrics, _ = update(engine(model_folder), [segment(0, 1.0, -1.5), segment(1, -0.5, -1.5)])
    gap = sum(abs(value + 1.5) for value in trained) / len(trained)
    assert metrics["gap/mean_abs"] == pytest.approx(gap, rel=1e-5)
    check_gap(metrics, gap + 0.01, 3)
    with pytest.raises(
        TrainingError, match=rf"step 3: .* disagree by {gap:.3f} nats a token .* above loss\.max_gap = 0\.25"
    ):
        check_gap(metrics, 0.25, 3)


def test_the_gap_that_stops_a_run_is_of_the_rows_that_the_steps_own_policy_sampled(model_folder):
    made = engine(model_folder)
    fresh, stale = segment(0, 1.0), replace(segment(1, 1.0, -1.5), staleness=2)
    own, other = made.logprobs([fresh, stale])
    fresh = replace(fresh, sampler_logprobs=[0.0] * 6 + [value - 0.02 for value in own])
    metrics, _ = update(made, [fresh, stale])
    moved = sum(abs(value + 1.5) for value in other) / 6
    assert moved > 1.0, "the older policy was another one"
    assert (metrics["gap/mean_abs"], metrics["gap/max"]) == pytest.approx((0.02, 0.02), abs=1e-5)
    assert metrics["gap/stale_mean_abs"] == pytest.approx(moved, rel=1e-5)
    check_gap(metrics, 0.25, 3)

    alone, _ = update(engine(model_folder), [stale])
    assert "gap/mean_abs" not in alone
    assert alone["gap/stale_mean_abs"] == pytest.approx(moved, rel=1e-5)
    check_gap(alone, moved + 0.01, 3)
    with pytest.raises(
        TrainingError, match=rf"step 3: .* by {moved:.3f} nats .* of an older policy .* raise loss\.max_gap"
    ):
        check_gap(alone, 0.25, 3)
    assert "gap/stale_mean_abs" not in update(engine(model_folder), [fresh])[0]


def test_rows_of_an_older_policy_are_weighed_from_it_to_the_weights_of_each_update(model_folder):
    """The decoupled objective: a ratio of 1, and a weight min(p / q, bound) that leads from the sampler to the update."""
    rows = [replace(segment(number, (-1.0) ** number), staleness=1, task=str(number)) for number in range(4)]
    ours, plain = engine(model_folder), engine(model_folder)
    metrics, _ = update(ours, rows, count=2, loss=LossSpec(max_importance_weight=1.5))
    for share in split(rows, 2, 3):
        loss_by_hand(plain, share, most=1.5).backward()
        plain.optim_step(1e-3, 1.0)
    for got, expected in zip(ours.parameters, plain.parameters, strict=True):
        torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-4)
    ages = (metrics["staleness"], metrics["staleness/max"])
    assert ages == (2.5, 3.0), "a step of two updates, and 0 or 1 of this one"


def test_staleness_counts_the_updates_since_the_policy_that_sampled(model_folder):
    rows = [segment(number, 1.0) for number in range(4)]
    assert update(engine(model_folder), rows)[0]["staleness"] == 0.0
    assert update(engine(model_folder), rows, count=4)[0]["staleness"] == 1.5
