"""The LoRA plugin for vLLM on the CPU: against a plain loop over tokens, and in a real server against peft."""

import asyncio
import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from grpo.machine.processes import PARENT_VARIABLE  # noqa: E402
from grpo.serving import vllm_main  # noqa: E402
from grpo.serving.cpu import lora  # noqa: E402
from grpo.serving.cpu.lora import install, plan_rows  # noqa: E402
from grpo.serving.vllm import VllmServer  # noqa: E402
from tests.grpo.serving.published import MAX_GAPS, PROMPTS, Published, request  # noqa: E402

SLOTS, RANK, IN = 3, 4, 6


def weights(widths: tuple[int, ...], dtype: torch.dtype) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    lora_a = tuple(torch.randn(SLOTS, 1, RANK, IN, dtype=dtype) for _ in widths)
    lora_b = tuple(torch.randn(SLOTS, 1, width, RANK, dtype=dtype) for width in widths)
    return lora_a, lora_b


def token_by_token(
    y: torch.Tensor,
    x: torch.Tensor,
    lora_a: tuple[torch.Tensor, ...],
    lora_b: tuple[torch.Tensor, ...],
    scale: float,
    widths: tuple[int, ...],
    slots: list[int],
) -> torch.Tensor:
    """LoRA, arXiv 2106.09685, eq. 3, one token and one slice at a time."""
    out = y.clone()
    for row, slot in enumerate(slots):
        if slot < 0:
            continue
        start = 0
        for a, b, width in zip(lora_a, lora_b, widths, strict=True):
            out[row, start : start + width] += scale * (b[slot, 0] @ (a[slot, 0] @ x[row]))
            start += width
    return out


class StandIn:
    """What the plugin needs of vLLM's wrapper."""

    def update_metadata(self, slots: list[int]) -> None:
        self.token_lora_indices = torch.tensor(slots)
        self.sampler_indices = torch.tensor(slots)


install(StandIn)


@given(
    slots=st.lists(st.integers(-1, SLOTS - 1), min_size=1, max_size=9),
    widths=st.sampled_from([(5,), (4, 2, 2), (7, 7)]),
    scale=st.sampled_from([1.0, 0.5, 3.0]),
)
@settings(deadline=None)
def test_every_token_gets_its_own_adapter_and_the_base_model_none(
    slots: list[int], widths: tuple[int, ...], scale: float
):
    lora_a, lora_b = weights(widths, torch.float64)
    x, y = torch.randn(len(slots), IN, dtype=torch.float64), torch.randn(len(slots), sum(widths), dtype=torch.float64)
    expected = token_by_token(y, x, lora_a, lora_b, scale, widths, slots)
    wrapper = StandIn()
    wrapper.update_metadata(slots)
    assert wrapper.add_lora_linear(y, x, lora_a, lora_b, scale, widths) is None
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


@given(slots=st.lists(st.integers(-1, SLOTS - 1), min_size=1, max_size=5))
@settings(deadline=None)
def test_logits_get_their_own_adapter_where_vocabularies_are_padded_differently(slots: list[int]):
    (lora_a,), (lora_b,) = weights((8,), torch.float64)
    x, y = torch.randn(len(slots), IN, dtype=torch.float64), torch.randn(len(slots), 7, dtype=torch.float64)
    expected = token_by_token(y, x, (lora_a,), (lora_b[:, :, :7],), 0.5, (7,), slots)
    wrapper = StandIn()
    wrapper.update_metadata(slots)
    wrapper.add_lora_logits(y, x, lora_a, lora_b, 0.5)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("slots", [[1, 1, 1], [1, -1, 0]])
def test_adapters_of_another_precision_are_added_in_the_outputs_precision(slots: list[int]):
    lora_a, lora_b = weights((5,), torch.bfloat16)
    x, y = torch.randn(3, IN), torch.randn(3, 5)
    expected = token_by_token(y, x, (lora_a[0].float(),), (lora_b[0].float(),), 2.0, (5,), slots)
    wrapper = StandIn()
    wrapper.update_metadata(slots)
    wrapper.add_lora_linear(y, x, lora_a, lora_b, 2.0, (5,))
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, expected, rtol=0.05, atol=0.1)


def test_a_batch_of_one_kind_is_not_gathered():
    assert plan_rows(torch.tensor([2, 2])) == [(2, None)]
    assert plan_rows(torch.tensor([-1, -1])) == []
    assert plan_rows(torch.tensor([], dtype=torch.long)) == []
    ((slot, rows),) = plan_rows(torch.tensor([-1, 0, 0]))
    assert slot == 0
    assert rows is not None
    assert rows.tolist() == [1, 2]


def test_another_release_is_left_alone_and_no_server_of_a_run(monkeypatch, caplog):
    assert lora.is_known(lora.RELEASE)
    assert lora.is_known(f"{lora.RELEASE}+cpu")
    monkeypatch.delenv(PARENT_VARIABLE, raising=False)
    with caplog.at_level(logging.WARNING, logger="vllm.grpo_cpu_lora"):
        assert not lora.is_known("0.99.1")
    assert f"plugin for the CPU is off: grpo.serving.cpu knows vLLM {lora.RELEASE}, and this is 0.99.1" in caplog.text
    monkeypatch.setenv(PARENT_VARIABLE, "1")
    with pytest.raises(RuntimeError, match=r"this is 0\.99\.1; on a CPU a run needs that release"):
        lora.is_known("0.99.1")


@pytest.mark.parametrize(("on_cpu", "is_there"), [(True, True), (True, False), (False, True)])
def test_vllm_gets_the_room_on_a_cpu_alone_and_where_it_is_there(monkeypatch, on_cpu, is_there):
    platforms, called = ModuleType("vllm.platforms"), []
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: on_cpu)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm.platforms", platforms)
    monkeypatch.setattr(vllm_main, "has_room", lambda name: is_there and name == "grpo.serving.cpu")
    monkeypatch.setattr(lora, "register", lambda: called.append("registered"))
    vllm_main.register()
    assert called == ["registered"] * (on_cpu and is_there)


# -- in a real server ------------------------------------------------------------------------------------------------


@pytest.mark.vllm
def test_prompt_and_sampled_logprobs_of_a_published_adapter_are_pefts(published: Published):
    prompt = published.tokenize(PROMPTS[0])
    body = request(published.model(0), prompt, prompt_logprobs=0)
    (choice,) = asyncio.run(published.answers([body]))
    sampled = choice["token_ids"]
    prompt_logprobs = [
        entry[str(token)]["logprob"] for token, entry in zip(prompt[1:], choice["prompt_logprobs"][1:], strict=True)
    ]
    served = torch.tensor(prompt_logprobs + choice["logprobs"]["token_logprobs"])
    assert len(served) == len(prompt) + 24 - 1
    own = (served - published.reference(0, prompt + sampled)).abs()
    assert own.mean() < MAX_GAPS[published.server.options.dtype]
    for other in (None, 1):
        assert (served - published.reference(other, prompt + sampled)).abs().mean() > 3 * own.mean()


@pytest.mark.vllm
async def test_base_model_and_two_adapters_in_flight_at_once_each_answer_as_themselves(published: Published):
    jobs = [(which, published.tokenize(text)) for text in PROMPTS for which in (None, 0, 1, 0, None)]
    bodies = [request(published.model(which), ids, seed=100 + i) for i, (which, ids) in enumerate(jobs)]
    published.check(*zip(*jobs, strict=True), await published.answers(bodies))


@pytest.mark.vllm
async def test_an_adapter_that_is_alone_is_merged_and_answers_as_peft_does_as_does_the_next_one(published: Published):
    for which in (0, 1):
        texts = [f"{number + 24 * which}. " + " ".join(PROMPTS * 2) for number in range(24)]  # none begins alike
        prompts = [published.tokenize(text) for text in texts]
        bodies = [request(published.model(which), ids, seed=n, max_tokens=4) for n, ids in enumerate(prompts)]
        published.check([which] * 24, prompts, await published.answers(bodies))
    assert "An adapter is alone" in published.server.log_path.read_text()


@pytest.mark.vllm
def test_the_plugin_is_on_in_the_real_server_and_wanted_by_this_vllm(vllm_server: VllmServer):
    log = vllm_server.log_path.read_text()
    assert "grpo's LoRA plugin for the CPU is on" in log
    for part in ("lora", "memory", "merge", "sampler", "kernels", "drafts", "verifier"):
        assert f'serving/cpu/{part}.py", line' not in log, "no traceback goes through the plugin"
