"""Models of every known family: what the learner computes is what a plain loop over transformers computes."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from grpo.devices.shape import ModelShape  # noqa: E402
from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.lora_model import adapter_weights  # noqa: E402
from grpo.learner.segments import Segment  # noqa: E402
from judges.common.files import read_json  # noqa: E402
from tests.support.families import TINY, tiny_family  # noqa: E402
from tests.support.tiny_model import tiny_engine  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module", params=TINY)
def model(request, tmp_path_factory):
    return request.param, tiny_family(tmp_path_factory.mktemp("models") / request.param, request.param)


def rows():
    """Four rows of other lengths, three of which begin alike."""
    made = []
    for shared, length, seed in ((17, 30, 1), (17, 41, 2), (9, 30, 3), (0, 25, 4)):
        own = torch.randint(0, 260, (length - shared,), generator=torch.Generator().manual_seed(seed))
        mask = [at > 18 for at in range(length)]
        made.append(Segment([*range(shared), *own.tolist()], mask, [-5.5 * acts for acts in mask], seed - 2.5))
    return made


def plain_loop(folder, adapter, rows, normalizer):
    """DAPO's loss with a ratio of 1, row by row, by transformers and peft on the whole model, as it is published; the
    gradient of every trained weight, by its name in the adapter's file."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    whole = (
        AutoModelForImageTextToText if "vision_config" in read_json(folder / "config.json") else AutoModelForCausalLM
    )
    base = whole.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model = PeftModel.from_pretrained(base, str(adapter), is_trainable=True).eval()
    found = []
    for row in rows:
        logits = model(input_ids=torch.tensor([row.ids]), use_cache=False).logits[0, :-1]
        every = torch.log_softmax(logits.float(), -1).gather(1, torch.tensor(row.ids[1:])[:, None])[:, 0]
        logprobs = every[torch.tensor(row.action_mask[1:])]
        weights = torch.exp(logprobs.detach() + 5.5).clamp(max=2.0)
        loss = -(weights * torch.exp(logprobs - logprobs.detach()) * row.advantage).sum() / normalizer
        loss.backward()
        found.append((loss.item(), logprobs.tolist()))
    named = ((name.replace(".default.", "."), weight) for name, weight in model.named_parameters())
    return found, {name: weight.grad for name, weight in named if weight.requires_grad}


@pytest.mark.parametrize("checkpointing", [False, True])
def test_losses_and_gradients_are_those_of_a_plain_loop_over_transformers(model, tmp_path, checkpointing):
    _, folder = model
    engine = tiny_engine(folder, token_budget=100, longest_row=64, gradient_checkpointing=checkpointing)
    engine.save_adapter(tmp_path)
    found = engine.forward_backward(rows(), LossSpec(normalizer=50))
    expected, plain = plain_loop(folder, tmp_path, rows(), 50)
    for one, (loss, logprobs) in zip(found, expected, strict=True):
        assert one.logprobs == pytest.approx(logprobs, abs=2e-5)
        assert one.loss == pytest.approx(loss, abs=1e-5)
    mine = {name: weight.grad for name, weight in adapter_weights(engine.model).items()}
    assert mine.keys() == plain.keys()
    largest = max(float(gradient.norm()) for gradient in plain.values())
    for name, gradient in mine.items():
        assert float(gradient.norm()) > 0, name
        assert float((gradient - plain[name]).norm()) <= 1e-5 * largest, name


def test_nothing_of_a_row_is_left_for_the_next_one(model):
    _, folder = model
    engine = tiny_engine(folder, token_budget=100, longest_row=64)
    alone = [engine.logprobs([row])[0] for row in rows()]
    assert engine.logprobs(rows()) == [pytest.approx(values, abs=1e-5) for values in alone]
    other = replace(rows()[0], ids=[(number * 7) % 260 for number in rows()[0].ids])
    engine.logprobs([other])
    assert engine.logprobs([rows()[1]])[0] == alone[1], "to the bit, after another row"


def test_shape_and_adapter_count_every_weight(model):
    from transformers import AutoConfig

    name, folder = model
    engine = tiny_engine(folder, longest_row=64)
    shape = ModelShape.read(folder)
    trained = sum(parameter.numel() for parameter in engine.parameters)
    others = sum(parameter.numel() for parameter in engine.model.parameters() if not parameter.requires_grad)
    assert shape.parameters == pytest.approx(others, rel=0.03)
    assert shape.adapter_parameters(4) == pytest.approx(trained, rel=0.1)
    assert AutoConfig.from_pretrained(folder).model_type == name
    adapted = {name for name, weight in engine.model.named_parameters() if weight.requires_grad}
    assert adapted
    for place in adapted:
        assert not any(part in place for part in ("expert", "router", "linear_attn", "mamba", ".conv.", ".gate."))
