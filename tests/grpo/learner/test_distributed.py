"""Two real processes over gloo against one: gradients, updated weights and metrics, on a tiny random model."""

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.learner.distributed import gather, share  # noqa: E402
from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from grpo.learner.update import UpdateConfig, update_policy  # noqa: E402
from tests import processes  # noqa: E402
from tests.fakes import tiny_engine, tiny_model_folder  # noqa: E402

pytestmark = pytest.mark.torch


def rows_of_groups():
    generator = torch.Generator().manual_seed(7)
    rows = []
    for number in range(9):
        prompt = [(31 * (number // 3) + at) % 250 for at in range(15)]
        ids = prompt + torch.randint(0, 260, (8 + 5 * number,), generator=generator).tolist()
        mask = [at >= 15 and at % 4 != 0 for at in range(len(ids) - 1)] + [True]
        rows.append(Segment(ids, mask, [-5.6 * acts for acts in mask], 0.4 * (number % 3) - 0.5))
    return rows


def train(folder, rows):
    """Gradients of one pass, then two updates: what they are and where they lead."""
    made = tiny_engine(folder, token_budget=60, threads=1)
    found = made.forward_backward(rows, LossSpec("imitation", kl_coef=0.1))
    with_gradient = [p.grad is not None for p in made.parameters]
    made.optim_step(0.0, 1e9)  # sums the gradients over the processes; a rate of 0 keeps the weights
    moments = [made.optimizer.state[p]["exp_avg"] / 0.1 for p in made.parameters]
    config = UpdateConfig(2, 1e-2, 0.5, LossSpec("gspo", kl_coef=0.1))
    metrics = update_policy(made, rows, config, seed=3, on_rows=lambda count: None)
    return {
        "gradients": [m.clone() for m in moments],
        "weights": [p.detach().clone() for p in made.parameters],
        "metrics": metrics,
        "worked": any(with_gradient),
        "statistics": [(row.loss, row.logprobs, row.entropies, row.reference_logprobs) for row in found],
    }


def worker(rank, size, folder, rows, rendezvous, out):
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    torch.save(train(folder, rows) | {"share": [len(row.ids) for row in share(rows)]}, out / f"{rank}.pt")
    dist.destroy_process_group()


def in_two_processes(folder, rows, tmp_path):
    workers = [processes.start(worker, rank, 2, folder, rows, tmp_path / "meet", tmp_path) for rank in range(2)]
    for process in workers:
        process.join(400)
        assert process.exitcode == 0
    return [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("count", [9, 1], ids=["shared-rows", "one-row-and-an-idle-process"])
def test_two_processes_compute_what_one_does(tmp_path, count):
    folder = tiny_model_folder(tmp_path / "model")
    rows = rows_of_groups()[:count]
    alone = train(folder, rows)
    both = in_two_processes(folder, rows, tmp_path)
    assert sorted(both[0]["share"] + both[1]["share"]) == [len(row.ids) for row in rows]
    if count > 1:
        tokens = sum(len(row.ids) for row in rows)
        assert sum(both[0]["share"]) == pytest.approx(tokens / 2, rel=0.25)
        assert all(one["worked"] for one in both)
    for found in both:
        for mine, expected in zip(found["gradients"], alone["gradients"], strict=True):
            assert torch.linalg.norm(mine - expected) <= 1e-5 * torch.linalg.norm(expected)
        for mine, expected in zip(found["weights"], alone["weights"], strict=True):
            assert torch.allclose(mine, expected, atol=1e-6, rtol=0)
        assert found["metrics"] == pytest.approx(alone["metrics"], rel=1e-4, abs=1e-6)
        for row, expected in zip(found["statistics"], alone["statistics"], strict=True):
            assert row[0] == pytest.approx(expected[0], rel=1e-4)
            assert all(
                mine == pytest.approx(other, abs=1e-5) for mine, other in zip(row[1:], expected[1:], strict=True)
            )
    for one, other in zip(both[0]["weights"], both[1]["weights"], strict=True):
        assert torch.equal(one, other), "the processes stay together to the bit"


def test_one_process_keeps_its_rows_and_values():
    rows = rows_of_groups()
    assert share(rows) is rows
    assert gather({"mine": 1.0}) == [{"mine": 1.0}]
