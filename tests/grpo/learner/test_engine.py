"""The learner on a tiny random model in float32: masks, batching, loss and state, against slow plain references."""

import asyncio
import json
import math
import platform
import resource
import shutil

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")


from grpo.envs.pool import EnvPool  # noqa: E402
from grpo.errors import CheckpointError, FullGpuError, ModelError  # noqa: E402
from grpo.learner.cpu.shared_rows import LENGTH_MULTIPLE, lay_out  # noqa: E402
from grpo.learner.engine import LossSpec  # noqa: E402
from grpo.learner.local_engine import ALLOCATOR_VARIABLES, LocalEngine, may_expand_segments  # noqa: E402
from grpo.learner.lora_model import LoraSpec, explained_where_full, usable_device  # noqa: E402
from grpo.learner.loss import ActionTokens, SelectedLogprobs, token_losses  # noqa: E402
from grpo.learner.segments import Segment, segments_of  # noqa: E402
from grpo.serving.policy import SamplingParams  # noqa: E402
from grpo.types import Task  # noqa: E402
from tests.support.envs import WORD_ENV  # noqa: E402
from tests.support.episodes import planned, player  # noqa: E402
from tests.support.policies import ByteChat, ScriptedPolicy  # noqa: E402
from tests.support.tiny_model import plain_logprobs, save_state, tiny_model_folder  # noqa: E402
from tests.support.tiny_model import tiny_engine as engine  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    return tiny_model_folder(tmp_path_factory.mktemp("tiny"))


def test_a_gpu_has_its_number_for_cuda_takes_no_other(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match="with a specified index"):
        torch.cuda.set_device(torch.device("cuda"))
    assert usable_device("cuda") == torch.device("cuda:0")
    assert usable_device("cuda:3") == torch.device("cuda:3")
    assert usable_device("cpu") == torch.device("cpu")


def test_the_setting_of_torchs_allocator_on_gpus_is_one_that_it_knows():
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
    with pytest.raises((RuntimeError, ValueError), match="Expected 'True' or 'False'"):
        torch._C._accelerator_setAllocatorSettings("expandable_segments:perhaps")


@pytest.mark.parametrize(
    ("kernel", "variables", "ours"),
    [
        ("6.8.0-45-generic", {}, True),
        ("6.8.0-45-generic", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, False),
        ("6.18.33.2-microsoft-standard-WSL2", {}, False),
    ],
)
def test_segments_expand_where_neither_user_nor_driver_say_otherwise(monkeypatch, kernel, variables, ours):
    machine = platform.uname()._replace(release=kernel)
    monkeypatch.setattr(platform, "uname", lambda: machine)
    for name in ALLOCATOR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert may_expand_segments() is ours


def rows_of_a_group():
    """Rows that branch at several places, one that ends where another goes on, and one that comes twice."""
    generator = torch.Generator().manual_seed(5)

    def ids(count):
        return torch.randint(0, 260, (count,), generator=generator).tolist()

    prompt, call, result = ids(21), ids(9), ids(13)
    lists = [
        prompt + call + result + ids(8),
        prompt + call + result + ids(15),
        prompt + call,
        prompt + ids(40),
        prompt + call + result + ids(8),
        ids(33),
    ]
    lists.append(lists[0])
    masks = [[(at >= 21 and at % 3 != 0) or at == len(row) - 1 for at in range(len(row))] for row in lists]
    return [
        Segment(row, mask, [-5.0 if acts else 0.0 for acts in mask], advantage=number - 2.5)
        for number, (row, mask) in enumerate(zip(lists, masks, strict=True))
    ]


@pytest.mark.parametrize("budget", [30, 120, 10_000])
def test_logprobs_loss_and_gradient_are_those_of_one_row_after_another_whatever_the_batches(model_folder, budget):
    made = engine(model_folder, token_budget=budget)
    segments = rows_of_a_group()
    normalizer = sum(s.num_actions for s in segments)
    expected = torch.zeros(())
    for segment, values in zip(segments, made.logprobs(segments), strict=True):
        logprobs = plain_logprobs(made, segment)
        assert values == pytest.approx(logprobs.tolist(), abs=1e-5)
        weight = torch.exp(logprobs.detach() + 5.0).clamp(max=2.0)
        expected = expected - (weight * torch.exp(logprobs - logprobs.detach()) * segment.advantage).sum() / normalizer
    expected.backward()
    reference = torch.cat([p.grad.flatten() for p in made.parameters])
    for rows in (segments, segments[::-1]):
        made.optimizer.zero_grad()
        statistics = made.forward_backward(rows, LossSpec(normalizer=normalizer))
        assert sum(row.loss for row in statistics) == pytest.approx(float(expected.detach()), abs=1e-6)
        found = torch.cat([p.grad.flatten() for p in made.parameters])
        assert torch.linalg.norm(found - reference) / torch.linalg.norm(reference) < 1e-5


def row(*ids):
    return Segment(list(ids), [False] + [True] * (len(ids) - 1), [0.0] * len(ids), 1.0)


def test_what_rows_have_in_common_stands_in_the_list_once():
    batch = sorted([row(1, 2, 3, 4), row(1, 2, 3), row(1, 2, 8, 9), row(1, 2, 3, 4)], key=lambda s: s.ids)
    layout = lay_out(batch)
    assert layout.ids[:6] == [1, 2, 3, 4, 8, 9]
    assert layout.positions[:6] == [0, 1, 2, 3, 2, 3]
    assert len(layout.ids) == LENGTH_MULTIPLE
    assert [[layout.ids[layout.place(r, p)] for p in range(len(s.ids))] for r, s in enumerate(batch)] == [
        s.ids for s in batch
    ]


@pytest.mark.parametrize("special", [{"sliding_window": 16}, {"attn_logit_softcapping": 50.0}])
def test_a_model_whose_attention_would_be_computed_wrong_is_refused(model_folder, tmp_path, special):
    folder = shutil.copytree(model_folder, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | special))
    with pytest.raises(ModelError, match=r"cannot be trained: .*docs/models.md has those"):
        engine(folder)


def test_reference_logprobs_are_those_of_a_plain_forward_with_the_adapter_disabled(model_folder):
    made = engine(model_folder, token_budget=120)
    segments = rows_of_a_group()
    with torch.no_grad(), made.model.disable_adapter():
        expected = {id(s): plain_logprobs(made, s) for s in segments}
    adapted = {id(s): torch.tensor(values) for s, values in zip(segments, made.logprobs(segments), strict=True)}
    assert all((adapted[key] - expected[key]).abs().max() > 1e-3 for key in expected), "the adapter does something"
    done = []
    statistics = made.forward_backward(segments, LossSpec(kl_coef=0.1), done.append)
    assert sum(done) == len(segments)
    assert len(done) > 1, "micro-batches"
    for row, segment in zip(statistics, segments, strict=True):
        assert row.reference_logprobs == pytest.approx(expected[id(segment)].tolist(), abs=1e-5)
        assert row.logprobs == pytest.approx(adapted[id(segment)].tolist(), abs=1e-5)
        assert len(row.entropies) == segment.num_actions
    assert all(p.requires_grad and float(p.grad.abs().max()) > 0 for p in made.parameters)
    assert made.forward_backward(segments, LossSpec())[-1].reference_logprobs == []


def test_only_the_predictions_of_sampled_tokens_have_a_gradient_in_a_whole_episode(model_folder):
    chat = ByteChat()
    policy = ScriptedPolicy(chat, ["is it oak?", "maybe pine", "falcon"])
    runner = player(EnvPool(WORD_ENV, {}), chat, policy, SamplingParams(1.0, 64), 400)
    (trajectory,) = asyncio.run(runner.all(planned(Task(0, "train-falcon"), 1)))
    (segment,) = segments_of(trajectory, 1.0)
    assert sum(segment.action_mask) == len("is it oak?maybe pinefalcon") + 3
    made = engine(model_folder)
    outputs = []

    def keep(_module, _inputs, output):
        output.last_hidden_state.retain_grad()
        outputs.append(output.last_hidden_state)

    made._body.register_forward_hook(keep)
    made.forward_backward([segment], LossSpec("imitation"))
    gradient = outputs[0].grad[0].abs().sum(-1)  # of what the model puts out at each position
    predicts_a_sampled_token = torch.tensor(segment.action_mask[1:])
    assert torch.all(gradient[: len(segment.ids) - 1][predicts_a_sampled_token] > 0)
    assert torch.all(gradient[: len(segment.ids) - 1][~predicts_a_sampled_token] == 0.0)
    assert torch.all(gradient[len(segment.ids) - 1 :] == 0.0)


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.5])
def test_selected_logprobs_have_the_value_entropy_and_gradient_of_log_softmax(temperature):
    torch.manual_seed(0)
    hidden = torch.randn(13, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(29, 8, dtype=torch.float64)
    target = torch.randint(0, 29, (13,))
    upstream = torch.randn(13)
    logprobs, entropy = SelectedLogprobs.apply(hidden, weight, target, 5, temperature)
    (logprobs * upstream).sum().backward()
    found, hidden.grad = hidden.grad, None
    full = torch.log_softmax(hidden @ weight.T / temperature, -1)
    expected = full.gather(1, target[:, None])[:, 0]
    (expected * upstream).sum().backward()
    assert torch.allclose(logprobs.double(), expected, atol=1e-6)
    assert torch.allclose(entropy.double(), -(full.exp() * full).sum(-1), atol=5e-5)
    assert torch.allclose(found, hidden.grad, atol=1e-6)


def test_a_sure_token_has_its_gradient_in_bfloat16():
    torch.manual_seed(0)
    weight = torch.randn(29, 64).bfloat16()
    target = torch.randint(0, 29, (13,))
    sure = (weight[target] * 0.18).requires_grad_()
    logprobs, _ = SelectedLogprobs.apply(sure, weight, target, 5)
    logprobs.sum().backward()
    assert logprobs.exp().max() > 0.999
    probs = torch.softmax(sure.detach().float() @ weight.float().T, -1)
    exact = (torch.nn.functional.one_hot(target, 29) - probs) @ weight.float()
    assert torch.all((sure.grad - exact).norm(dim=1) < 0.1 * exact.norm(dim=1))


def test_grpo_loss_clips_and_truncates_as_written():
    logprobs = torch.log(torch.tensor([0.5, 0.5, 0.2, 0.9])).requires_grad_()
    old = torch.log(torch.tensor([0.25, 0.5, 0.4, 0.3]))  # ratios 2, 1, 0.5, 3
    sampler = torch.log(torch.tensor([0.25, 0.1, 0.4, 0.3]))  # weights 1, 5 -> 2, 1, 1
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    loss = token_losses(ActionTokens(logprobs, sampler, advantages, [4]), LossSpec(normalizer=4), old)
    # min(2, 1.28) * 1, 2 * min(1, 1), min(-0.5, -0.8), min(-3, -1.28)
    assert loss.tolist() == pytest.approx([-1.28 / 4, -2.0 / 4, 0.8 / 4, 3.0 / 4], abs=1e-6)


def test_a_continued_engine_equals_an_uninterrupted_one_to_the_bit(model_folder, tmp_path):
    segments = rows_of_a_group()

    def step(made):
        made.forward_backward(segments, LossSpec("imitation", normalizer=50))
        return made.optim_step(1e-3, 1.0)

    straight = engine(model_folder)
    norms = [step(straight) for _ in range(4)]
    first = engine(model_folder)
    assert [step(first), step(first)] == norms[:2]
    save_state(first, tmp_path / "state")
    second = LocalEngine(model_folder, LoraSpec(rank=4, alpha=8), seed=9)
    second.load_state(tmp_path / "state")
    assert [step(second), step(second)] == norms[2:]
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters, second.parameters, strict=True))


def test_a_state_of_another_rank_is_refused(model_folder, tmp_path):
    save_state(engine(model_folder), tmp_path / "state")
    other = LocalEngine(model_folder, LoraSpec(rank=2, alpha=8), seed=9)
    with pytest.raises(CheckpointError, match="other shapes"):
        other.load_state(tmp_path / "state")
    with pytest.raises(CheckpointError, match="cannot be read"):
        other.load_state(tmp_path / "nowhere")
    path = tmp_path / "state" / "engine.pt"
    whole = path.read_bytes()
    for left in (0, 100, len(whole) // 2):
        path.write_bytes(whole[:left])
        with pytest.raises(CheckpointError, match=r"engine\.pt cannot be read: it is damaged; remove its folder"):
            other.load_state(tmp_path / "state")
    path.write_bytes(whole)
    weights = tmp_path / "state" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(CheckpointError, match=r"adapter_model\.safetensors cannot be read: .*remove its folder"):
        other.load_state(tmp_path / "state")


def test_the_gradient_norm_is_reported_before_clipping_and_clipping_bounds_the_update(model_folder):
    made = engine(model_folder)
    segments = rows_of_a_group()
    made.forward_backward(segments, LossSpec("imitation", normalizer=1e-3))
    expected = math.sqrt(sum(float((p.grad**2).sum()) for p in made.parameters))
    assert made.optim_step(0.0, 1.0) == pytest.approx(expected, rel=1e-5)


def test_a_sleeping_model_leaves_the_device_but_its_adapter_and_learns_what_one_that_stays_learns(tmp_path):
    model = tiny_model_folder(tmp_path)
    rows = [Segment(list(range(n)), [False] * 4 + [True] * (n - 4), [0.0] * n, 1.0) for n in (20, 33)]
    stays, sleeps = engine(model), engine(model, sleeps=True)
    frozen = [weight for weight in sleeps.model.parameters() if not weight.requires_grad]
    on_host = [weight.data_ptr() for weight in frozen]
    for step in range(2):
        sleeps.wake_up()
        assert not set(on_host) & {weight.data_ptr() for weight in frozen}, "they are computed with where the device is"
        found = [each.forward_backward(rows, LossSpec("imitation")) for each in (stays, sleeps)]
        assert found[0] == found[1], step
        for each in (stays, sleeps):
            each.optim_step(0.01, 1.0)
        sleeps.sleep()
        assert [weight.data_ptr() for weight in frozen] == on_host
    for one, other in zip(stays.parameters, sleeps.parameters, strict=True):
        assert torch.equal(one, other)


def test_a_full_gpu_is_one_line_that_says_what_to_lower():
    said = r"^the GPU's memory is full \(CUDA out of memory\. Tried 2 GiB\); lower its use with --set learner\.token_budget=N"
    with pytest.raises(FullGpuError, match=said), explained_where_full():
        raise torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB\nsee the documentation")
    with pytest.raises(RuntimeError, match="of another kind"), explained_where_full():
        raise RuntimeError("of another kind")


def test_a_disk_that_refuses_an_adapter_is_an_error_of_ours(tmp_path):
    learner = engine(tiny_model_folder(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match=r"cannot be written to .*File too large.*; make room, or check"):
            learner.save_adapter(tmp_path / "adapter")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
