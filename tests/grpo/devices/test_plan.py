"""The plan of a run on GPUs: shares that fit, what is given up first, and what an error says."""

import re
from dataclasses import replace

import pytest

from grpo.config import load_config
from grpo.devices.memory import GIB
from grpo.devices.plan import SLACK_GIB, USABLE, Placement, place, plan_gpus
from grpo.devices.shape import RECIPES_MODELS
from grpo.errors import ConfigError
from grpo.machine.hardware import Gpu
from tests.support.processes import under_torchrun

SMALL, LARGE, LARGEST = (RECIPES_MODELS[f"Qwen/Qwen2.5-{size}-Instruct"] for size in ("0.5B", "7B", "14B"))


def gpus(*memory_gib):
    return [Gpu(f"card of {memory}", memory, f"GPU-{number}") for number, memory in enumerate(memory_gib)]


def config(**settings):
    sizes = {"learner.token_budget": 16384, "rollout.max_tokens": 4096, "rollout.concurrency": 64}
    return load_config(None, {"env": "X-v0", "device": "cuda", **sizes, **settings})


@pytest.mark.parametrize(
    ("cards", "asked", "servers", "learners", "shared"),
    [
        (1, {}, ((0,),), (0,), True),
        (2, {}, ((0,),), (1,), False),
        (8, {}, ((0,),), (7,), False),
        (8, {"tensor_parallel": 4}, ((0, 1, 2, 3),), (7,), False),
        (2, {"tensor_parallel": 2}, ((0, 1),), (1,), True),
        (8, {"servers": 3, "tensor_parallel": 2, "learners": 2}, ((0, 1), (2, 3), (4, 5)), (6, 7), False),
        (8, {"learners": 8}, ((0,),), (0, 1, 2, 3, 4, 5, 6, 7), True),
        (2, {"servers": 0}, (), (1,), False),
        (2, {"learners": 0}, ((0,),), (), False),
    ],
)
def test_servers_take_gpus_from_the_front_and_learners_from_the_back(cards, asked, servers, learners, shared):
    placement = place(cards, **asked)
    assert placement == Placement(servers, learners)
    assert placement.shared is shared


@pytest.mark.parametrize(("cards", "asked"), [(1, {"tensor_parallel": 2}), (4, {"learners": 5}), (2, {"servers": 3})])
def test_too_few_gpus_are_refused(cards, asked):
    with pytest.raises(ConfigError, match=rf"{cards} GPU\(s\) are visible; ask for fewer, show more"):
        place(cards, **asked)


def test_no_gpu_at_all_is_an_error_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1a2b")
    with pytest.raises(ConfigError, match=r"shows no GPU \(CUDA_VISIBLE_DEVICES = 'MIG-1a2b'\); show whole ones"):
        place(0)


def test_one_gpu_does_both_and_keeps_activations_where_they_fit():
    plan = plan_gpus(config(), SMALL, gpus(80))
    assert (plan.learner_devices, plan.server_cards()) == (("cuda:0",), ("GPU-0",))
    assert not plan.gradient_checkpointing
    assert plan.sequences == (64, 64)
    assert plan.server.kv_cache == (64 * 4096 + 64) * 2 * 24 * 128 * 2, "and the block that vLLM keeps empty"
    assert plan.learner.total + plan.server.total <= USABLE * 80 * GIB


def test_activations_are_computed_again_before_the_cache_shrinks():
    plan = plan_gpus(config(), SMALL, gpus(24))
    assert plan.gradient_checkpointing
    assert plan.sequences == (64, 64)
    plan = plan_gpus(config(**{"rollout.concurrency": 512}), SMALL, gpus(24))
    assert plan.gradient_checkpointing
    assert 64 <= plan.sequences[0] < 512
    assert plan.learner.total + plan.server.total == pytest.approx((USABLE * 24 - SLACK_GIB) * GIB, abs=2)


def test_two_gpus_are_shared_by_nobody():
    plan = plan_gpus(config(), LARGE, gpus(80, 40))
    assert (plan.learner_devices, plan.server_cards()) == (("cuda:1",), ("GPU-0",))
    assert plan.learner.total <= USABLE * 40 * GIB
    assert plan.server.kv_cache == (64 * 4096 + 64) * LARGE.kv_bytes("bfloat16")
    assert plan.gpu_memory_utilization == int(1000 * plan.server.total / (80 * GIB)) / 1000


def test_a_server_of_ones_own_leaves_the_gpu_to_the_learner():
    plan = plan_gpus(config(**{"server.urls": ["http://a"]}), SMALL, gpus(24))
    assert plan.server is None
    assert plan.learner_devices == ("cuda:0",)
    assert [line[:7] for line in plan.lines()] == ["learner"]
    with pytest.raises(
        ConfigError, match=r"Lower learner.token_budget \(16384\), rollout.max_tokens \(4096\), take a smaller"
    ):  # how many sequences are sampled at once is the server's matter
        plan_gpus(config(**{"server.urls": ["http://a"]}), LARGE, gpus(12))


def test_vllms_adapters_on_gpus_are_not_in_float32():
    with pytest.raises(ConfigError, match="with device = 'cuda': vLLM's LoRA kernels for GPUs compute no float32"):
        plan_gpus(config(dtype="float32"), SMALL, gpus(80))


T4, L4 = Gpu("T4", 24.0, "0", 7.5), Gpu("L4", 24.0, "1", 8.9)
PART, WHOLE = Gpu("A100", 40.0, "0", 8.0, divided=True), Gpu("A100", 40.0, "1", 8.0)
TOO_OLD = r"^GPU 0 \(T4\) has compute capability 7.5, and .* from 8.0 .* alone; show {}, .*--set dtype=float32, or"
DIVIDED = r"^GPU 0 \(A100\) is divided into parts \(MIG\), .*; show {}, or"
OTHERS, THE_SECOND = "other GPUs", r"the others alone \(CUDA_VISIBLE_DEVICES=1\)"
LEARNER_ALONE = {"server.urls": ["http://a"]}


@pytest.mark.parametrize(
    ("cards", "settings", "why", "remedy"),
    [
        ([T4], {}, TOO_OLD, OTHERS),
        ([T4, L4], {}, TOO_OLD, THE_SECOND),  # servers take GPUs from the front
        ([L4, T4], {}, TOO_OLD, THE_SECOND),  # and learners from the back
        ([T4], LEARNER_ALONE, TOO_OLD, OTHERS),  # torch has an attention without L x L scores there for float32 alone
        ([L4, T4], LEARNER_ALONE | {"dtype": "bfloat16"}, TOO_OLD, THE_SECOND),
        ([PART], {}, DIVIDED, OTHERS),  # a seventh of an A100 in place of GPU 0 would get a plan of 40 GB
        ([PART, WHOLE], {}, DIVIDED, THE_SECOND),
    ],
)
def test_a_gpu_that_computes_no_bfloat16_or_is_divided_is_refused(cards, settings, why, remedy):
    with pytest.raises(ConfigError, match=why.format(remedy)):
        plan_gpus(config(**settings), SMALL, cards)


EXCLUSIVE, CLOSED = (replace(WHOLE, mode=mode) for mode in ("Exclusive_Process", "Prohibited"))


@pytest.mark.parametrize(
    ("cards", "settings", "mode"),
    [
        ([EXCLUSIVE], {}, "Exclusive_Process"),
        ([CLOSED], LEARNER_ALONE, "Prohibited"),
        ([WHOLE, CLOSED], {}, "Prohibited"),
        ([EXCLUSIVE, EXCLUSIVE], {}, None),  # each has one process
        ([WHOLE, CLOSED, WHOLE], {}, None),  # nobody computes there
    ],
)
def test_a_gpu_that_lets_in_too_few_processes_is_refused_with_what_opens_it(cards, settings, mode):
    if mode is None:
        assert plan_gpus(config(**settings), SMALL, cards).learner is not None
        return
    said = rf"^GPU 1 \(A100\) is in compute mode {mode}, .* \(sudo nvidia-smi -i 1 -c DEFAULT\), or show other GPUs$"
    with pytest.raises(ConfigError, match=said):
        plan_gpus(config(**settings), SMALL, cards)


def test_what_others_have_of_a_gpu_is_planned_around_and_shown():
    desktop = replace(L4, used_gib=13.0)
    plan = plan_gpus(config(), SMALL, [desktop])
    assert plan.learner.total + plan.server.total <= (USABLE * 24 - 13 - SLACK_GIB) * GIB
    assert plan.sequences[0] < plan_gpus(config(), SMALL, [L4]).sequences[0]
    assert plan.gpu_memory_utilization == int(1000 * plan.server.total / (24 * GIB)) / 1000, "of all of the card"
    assert plan.lines()[0].startswith("vLLM on GPU 1 (L4, 24.0 GiB, 13.0 of them used by others): ")
    assert "used by others" not in plan_gpus(config(), SMALL, [replace(L4, used_gib=0.3)]).lines()[0]
    with pytest.raises(ConfigError, match=r"where 3\.8 are usable on the same GPU"):
        plan_gpus(config(), SMALL, [replace(L4, used_gib=19.0)])


@pytest.mark.parametrize("memory", [16, 24, 48, 80, 141])
def test_a_policy_that_is_served_alone_leaves_slack_on_every_card(memory):
    plan = plan_gpus(config(**{"rollout.concurrency": 768}), SMALL, gpus(memory), learners=0)
    assert plan.server.total <= (USABLE * memory - SLACK_GIB) * GIB
    assert plan.gpu_memory_utilization * memory <= memory - 0.9, "vLLM wants it free when CUDA has taken its part"


def test_a_learner_in_float32_may_be_on_an_old_gpu_and_others_are_taken_whole():
    plan = plan_gpus(config(dtype="float32", **LEARNER_ALONE), SMALL, [T4])
    assert (plan.server, plan.learner.weights) == (None, 4 * SMALL.parameters)
    assert plan_gpus(config(), SMALL, [L4]).server_cards() == ("1",)
    assert plan_gpus(config(), SMALL, [L4, L4]).learner_devices == ("cuda:1",)
    assert plan_gpus(config(), SMALL, [WHOLE]).server_cards() == ("1",)


def test_a_policy_that_is_only_served_has_the_gpu_to_itself():
    plan = plan_gpus(config(**{"rollout.concurrency": 256}), LARGE, gpus(80), learners=0)
    assert plan.learner is None
    assert plan.sequences[0] > plan_gpus(config(**{"rollout.concurrency": 256}), LARGE, gpus(80)).sequences[0]


def test_the_least_cache_holds_a_sequence_after_vllms_rounding():
    plan = plan_gpus(config(**{"rollout.concurrency": 1, "rollout.max_tokens": 4090}), SMALL, gpus(24))
    blocks_of_16 = plan.server.kv_cache // (16 * SMALL.kv_bytes("bfloat16"))
    assert blocks_of_16 - 1 >= 4090 / 16, "one stays empty (vllm/v1/core/kv_cache_utils.py)"


def test_a_model_that_no_card_holds_is_trained_where_its_layers_are_shared(monkeypatch):
    under_torchrun(monkeypatch, 0, 4)
    settings, cards = {"server.tensor_parallel": 4, "learner.token_budget": 4096}, gpus(*[24] * 8)
    with pytest.raises(ConfigError, match=r"the model does not fit: needed are \d+\.\d GiB for the learner"):
        plan_gpus(config(**settings), LARGEST, cards)
    plan = plan_gpus(config(**settings, **{"learner.shard": True}), LARGEST, cards)
    whole = 2 * 152064 * 5120 + 5120  # embedding, vocabulary head, last norm
    assert plan.learner.weights == 2 * (whole + (48 / 4 + 3) * LARGEST.block_parameters)
    assert plan.learner_devices == ("cuda:4", "cuda:5", "cuda:6", "cuda:7")


def test_each_process_of_torchrun_has_a_gpu(monkeypatch):
    under_torchrun(monkeypatch, 0, 3)
    plan = plan_gpus(config(), SMALL, gpus(24, 24, 24, 24))
    assert plan.learner_devices == ("cuda:1", "cuda:2", "cuda:3")
    assert not plan.placement.shared


def test_what_is_set_is_taken_and_refused_where_it_does_not_fit():
    assert not plan_gpus(config(**{"learner.gradient_checkpointing": False}), SMALL, gpus(80)).gradient_checkpointing
    assert plan_gpus(config(**{"learner.gradient_checkpointing": True}), SMALL, gpus(80)).gradient_checkpointing
    assert plan_gpus(config(**{"server.kv_cache_gib": 1.5}), SMALL, gpus(24)).server.kv_cache == 1.5 * GIB
    with pytest.raises(
        ConfigError, match=r"needed are 3\d\.\d GiB .*, set learner.gradient_checkpointing = true, take"
    ):
        plan_gpus(config(**{"learner.gradient_checkpointing": False}), SMALL, gpus(24))
    with pytest.raises(ConfigError, match=r"server.kv_cache_gib = 0.01, but .* takes 0.0; raise the one"):
        plan_gpus(config(**{"server.kv_cache_gib": 0.01}), SMALL, gpus(24))


def test_what_does_not_fit_is_refused_with_what_is_needed_and_usable_and_what_changes_it():
    with pytest.raises(ConfigError) as caught:
        plan_gpus(config(), LARGE, gpus(24))
    assert re.fullmatch(
        r"the model does not fit: needed are 2\d\.\d GiB for the learner, where 22\.8 are usable and 2\d\.\d GiB for vLLM, "
        r"where 22\.8 are usable on the same GPU\. Lower learner\.token_budget \(16384\), rollout\.concurrency \(64\) or "
        r"server\.kv_cache_gib, rollout\.max_tokens \(4096\), take a smaller model or lora\.rank, or show more GPUs than 1",
        str(caught.value),
    )


SHORT = {"learner.token_budget": 4096, "rollout.max_tokens": 2048, "rollout.concurrency": 16}


def test_learner_and_vllm_take_turns_on_a_gpu_that_has_room_for_one():
    plan = plan_gpus(config(**SHORT), LARGE, gpus(24), host_gib=48)
    learner, server, usable = plan.learner, plan.server, (USABLE * 24 - SLACK_GIB) * GIB
    assert plan.in_turns
    assert learner.total + server.total > usable
    assert learner.total + server.runtime <= usable
    assert server.total + learner.runtime + learner.adapter <= usable
    assert plan.sequences == (16, 16)
    assert plan.gpu_memory_utilization == int(1000 * server.total / (24 * GIB)) / 1000
    assert plan.lines()[-1] == (
        "they take turns on it (sleep mode); their models wait in 35.8 GiB of the host's memory"
    )
    with pytest.raises(ConfigError, match=r"models would wait in 35.8 GiB of memory, of which this machine has 32"):
        plan_gpus(config(**SHORT), LARGE, gpus(24), host_gib=32)


def test_processes_of_torchrun_take_no_turns(monkeypatch):
    under_torchrun(monkeypatch, 0, 1)
    with pytest.raises(ConfigError, match=r"on the same GPU. Lower .*, let them take turns .* and no torchrun\), take"):
        plan_gpus(config(**SHORT), LARGE, gpus(24), host_gib=48)
    under_torchrun(monkeypatch, 0, 2)
    with pytest.raises(ConfigError, match=r"the model does not fit: .* show more GPUs than 2$"):
        plan_gpus(config(**SHORT), LARGE, gpus(24, 24), host_gib=48)


def test_turns_are_taken_where_nothing_else_fits_and_not_where_they_may_not():
    fits = plan_gpus(config(), SMALL, gpus(38))
    assert (fits.in_turns, fits.gradient_checkpointing) == (False, True)
    refused = r"let them take turns \(server.sleep_mode, with rollout.max_staleness = 0"
    for never in ({"server.sleep_mode": False}, {"rollout.max_staleness": 1}):
        with pytest.raises(ConfigError, match=refused):
            plan_gpus(config(**SHORT, **never), LARGE, gpus(24))
    too_much = r"^(?!.*take turns).*take a smaller model or lora.rank, or show more GPUs than 1$"
    with pytest.raises(ConfigError, match=too_much):  # not even in turns
        plan_gpus(config(**SHORT), LARGEST, gpus(24), host_gib=128)
    with pytest.raises(ConfigError, match=too_much):  # what is only served takes turns with nobody
        plan_gpus(config(**SHORT), LARGEST, gpus(24), host_gib=128, learners=0)


def test_the_chunk_of_logits_follows_the_card():
    assert [plan_gpus(config(), SMALL, gpus(memory)).logit_chunk_tokens for memory in (24, 48, 80)] == [256, 512, 1024]


def test_the_plan_is_shown_by_card():
    assert plan_gpus(config(), SMALL, gpus(24)).lines() == [
        "vLLM on GPU-0 (card of 24, 24.0 GiB): 7.0 GiB, 3.0 of it for 64 of 64 sequences at full length",
        "learner on GPU-0 (card of 24, 24.0 GiB): 4.3 GiB; activations are computed again for the gradient",
    ]
