"""Our losses and gradients against TRL's own ``_compute_loss`` on the same batch, in float32.

TRL's trainer cannot be built here without a data set and a sampler, so an empty one is given the attributes that its loss
reads; its method, its LM head and a plain padded peft model compute the reference.
"""

import importlib
import sys
import warnings
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
pytest.importorskip("trl", reason="the oracle needs trl (install the extra 'dev')")

from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from grpo.learner.update import UpdateConfig, normalizers  # noqa: E402
from grpo.learner.update_metrics import Update, update_metrics  # noqa: E402
from tests.support.tiny_model import tiny_engine, tiny_model_folder  # noqa: E402

pytestmark = pytest.mark.torch
MAX_COMPLETION_TOKENS = 90
LOSSES = ["dapo", "bnpo", "dr_grpo", "grpo", "gspo", "cispo"]


@pytest.fixture(scope="module")
def trl_trainer():
    """TRL's module, imported without vLLM, which it would load and which plays no part in its loss."""
    import_utils = importlib.import_module("trl.import_utils")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "trl.trainer.grpo_trainer" not in sys.modules:
            patch.setattr(import_utils, "is_vllm_available", lambda **version: False)
        return importlib.import_module("trl.trainer.grpo_trainer")


def rows_of_two_groups():
    """Prompts of two lengths, completions with observations in between, sampler logprobs near and far from the policy's."""
    generator = torch.Generator().manual_seed(4)
    rows = []
    for number in range(6):
        prompt = torch.randint(
            0, 260, (11 if number < 3 else 17,), generator=torch.Generator().manual_seed(number // 3)
        )
        completion = torch.randint(0, 260, (9 + 7 * number,), generator=generator)
        mask = (torch.rand(len(completion), generator=generator) < 0.6).tolist()
        mask[0] = mask[-1] = True
        sampler = (-5.6 + torch.randn(len(completion), generator=generator)).tolist()
        ids = [*prompt.tolist(), *completion.tolist()]
        acts = [False] * len(prompt) + mask
        logprobs = [0.0] * len(prompt) + [v if m else 0.0 for v, m in zip(sampler, mask, strict=True)]
        rows.append(Segment(ids, acts, logprobs, [1.2, -0.7, 0.0, 0.9, -1.1, 0.4][number]))
    return rows


def padded(rows, values, first, *, left=False):
    """Rows of numbers from ``first(row)`` on (or up to it, padded on the left) as one tensor."""
    cut = [v[: first(r)] if left else v[first(r) :] for r, v in zip(rows, values, strict=True)]
    width = max(map(len, cut))
    fill = [[0.0] * (width - len(c)) for c in cut]
    return torch.tensor([[*f, *c] if left else [*c, *f] for c, f in zip(cut, fill, strict=True)])


def trl_inputs(rows):
    first = lambda row: row.action_mask.index(True)  # noqa: E731
    ids, ones = [r.ids for r in rows], [[1] * len(r.ids) for r in rows]
    actions = padded(rows, [[float(a) for a in r.action_mask] for r in rows], first)
    return {
        "prompt_ids": padded(rows, ids, first, left=True).long(),
        "prompt_mask": padded(rows, ones, first, left=True).long(),
        "completion_ids": padded(rows, ids, first).long(),
        "completion_mask": padded(rows, ones, first).long(),
        "tool_mask": actions,
        "advantages": torch.tensor([r.advantage for r in rows]),
        "num_items_in_batch": actions.sum(),
        "sampling_per_token_logps": padded(rows, [r.sampler_logprobs for r in rows], first),
    }


@pytest.fixture(scope="module")
def models(trl_trainer, tmp_path_factory):
    """Our engine, and a plain peft model of the same weights with TRL's LM head."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = tiny_model_folder(tmp_path_factory.mktemp("tiny"))
    made = tiny_engine(folder, token_budget=70, threads=1)
    base = AutoModelForCausalLM.from_pretrained(str(folder), attn_implementation="eager")
    trl_trainer.add_fused_lm_head(base, outputs=("log_probs", "entropy"))
    spec = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")
    plain = get_peft_model(base, spec)
    ours, theirs = trainable(made.model), trainable(plain)
    assert theirs.keys() == ours.keys()
    for name, parameter in theirs.items():
        parameter.data.copy_(ours[name].data)
    return made, plain.train()


def trainable(model):
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def trl_loss(module, model, rows, loss, *, later):
    """TRL's loss, and what it logged; the gradients are in ``model``."""
    from accelerate import Accelerator

    trainer = object.__new__(module.GRPOTrainer)
    trainer.model = model
    trainer.accelerator = Accelerator(cpu=True)
    trainer.args = SimpleNamespace(
        use_bias_correction_kl=False, delta=loss.max_importance_weight if later else None, steps_per_generation=1
    )
    trainer.loss_type = "grpo" if loss.kind == "gspo" else loss.kind
    trainer.importance_sampling_level = "sequence" if loss.kind == "gspo" else "token"
    trainer.epsilon_low = loss.clip_low
    trainer.epsilon_high = 1 + loss.clip_high if loss.kind == "cispo" else loss.clip_high
    trainer.beta = loss.kl_coef
    trainer.max_completion_length = MAX_COMPLETION_TOKENS
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
    trainer.aux_loss_enabled = trainer._entropy_bonus_enabled = False
    trainer.top_entropy_quantile, trainer.off_policy_mask_threshold = 1.0, None
    trainer.current_gradient_accumulation_steps = 1
    trainer._metrics = {"train": defaultdict(list)}

    inputs = trl_inputs(rows)

    def logprobs():
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        with torch.no_grad():
            return trainer._get_per_token_logps_and_entropies(model, ids, mask, inputs["completion_ids"].size(1))[0]

    with model.disable_adapter():
        inputs["ref_per_token_logps"] = logprobs()
    sampler = inputs["sampling_per_token_logps"]
    old = inputs["old_per_token_logps"] = sampler if later else logprobs()
    difference = (old - sampler) * inputs["tool_mask"]
    inputs["importance_sampling_ratio"] = torch.exp(difference).clamp(max=loss.max_importance_weight)
    found = trainer._compute_loss(model, inputs)
    found.backward()
    return float(found.detach()), trainer._metrics["train"]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("later", [False, True], ids=["first-update", "later-update"])
@pytest.mark.parametrize("kl_coef", [0.0, 0.3], ids=["no-kl", "kl"])
@pytest.mark.parametrize("loss", LOSSES)
def test_loss_and_gradients_equal_trls(models, trl_trainer, loss, kl_coef, later, temperature):
    clip = {"clip_low": 0.02, "clip_high": 0.05} if loss == "gspo" else {"clip_low": 0.2, "clip_high": 0.28}
    rows = rows_of_two_groups()
    spec = LossSpec(
        loss, old_policy="sampler" if later else "current", kl_coef=kl_coef, temperature=temperature, **clip
    )
    (normalizer,) = normalizers(rows, [rows], UpdateConfig(1, 0.0, 1.0, spec, MAX_COMPLETION_TOKENS))
    made, plain = models
    trl_trainer.add_fused_lm_head(plain.get_base_model(), outputs=("log_probs", "entropy"), temperature=temperature)
    plain.zero_grad()
    made.optimizer.zero_grad()
    expected, logged = trl_loss(trl_trainer, plain, rows, spec, later=later)
    done = []
    statistics = made.forward_backward(rows[::-1], replace(spec, normalizer=normalizer), done.append)[::-1]
    assert len(done) == 4, "micro-batches"
    assert sum(row.loss for row in statistics) == pytest.approx(expected, abs=1e-6)
    reference = trainable(plain)
    for name, parameter in trainable(made.model).items():
        expected_gradient = reference[name].grad
        assert torch.linalg.norm(parameter.grad - expected_gradient) <= 1e-5 * torch.linalg.norm(expected_gradient), (
            name
        )
    if later and loss != "cispo":
        assert logged["clip_ratio/region_mean"][0] > 0, "the batch reaches the clipped range"
    metrics = update_metrics([Update(rows, spec, statistics, 0.0)])
    assert metrics["loss/policy"] == pytest.approx(expected, abs=1e-6)
    if kl_coef:
        assert metrics["loss/kl"] == pytest.approx(logged["kl"][0], abs=1e-6)
        assert metrics["loss/kl"] > 1e-4
