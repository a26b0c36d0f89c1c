"""What is kept of a model of each kind: a checkpoint goes on to the bit, and an export computes the same."""

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.local_engine import LocalEngine  # noqa: E402
from grpo.learner.lora_model import LoraSpec, load_base  # noqa: E402
from grpo.machine.models import ResolvedModel  # noqa: E402
from grpo.runs.export import export_policy  # noqa: E402
from grpo.runs.trained_policy import TrainedPolicy  # noqa: E402
from tests.grpo.learner.test_families import rows  # noqa: E402
from tests.support.families import tiny_family  # noqa: E402
from tests.support.tiny_model import save_state, tiny_engine  # noqa: E402

pytestmark = pytest.mark.torch
KINDS = ["qwen3_5", "qwen3_5_text", "qwen3_next", "granitemoehybrid", "lfm2", "qwen3_moe"]


def stepped(engine):
    engine.forward_backward(rows(), LossSpec(normalizer=50))
    engine.optim_step(0.01, 1.0)
    return engine.logprobs(rows())


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_goes_on_and_an_export_computes_the_same(tmp_path, kind):
    folder = tiny_family(tmp_path / "model", kind)
    engine = tiny_engine(folder, longest_row=64, token_budget=100)
    before = stepped(engine)
    save_state(engine, tmp_path / "kept")
    after = stepped(engine)
    again = LocalEngine(folder, LoraSpec(4, 8), seed=9, longest_row=64, token_budget=100)
    again.load_state(tmp_path / "kept")
    assert again.logprobs(rows()) == before
    assert stepped(again) == after
    policy = TrainedPolicy(tmp_path / "kept", str(folder), "mine", 4)
    export_policy(policy, ResolvedModel(folder, str(folder)), tmp_path / "merged", merge=True)
    whole = load_base(tmp_path / "merged", dtype=torch.float32).eval()
    for row, values in zip(rows(), before, strict=True):
        with torch.no_grad():
            logprobs = whole(torch.tensor([row.ids]), use_cache=False).logits[0, :-1].log_softmax(-1)
        found = logprobs.gather(1, torch.tensor(row.ids[1:])[:, None])[:, 0][torch.tensor(row.action_mask[1:])]
        assert values == pytest.approx(found.tolist(), abs=1e-4)
