"""What is said of the memory before a run starts."""

import json

import pytest

from grpo.config import TrainConfig
from grpo.devices.memory import GIB, learner_memory, server_memory
from grpo.devices.shape import ModelShape
from grpo.doctor.checks import Trouble
from grpo.doctor.memory import CPU_SLACK, MemoryNeeds, check_memory, memory_needs
from grpo.settings import ServerSettings
from tests.support.envs import WORD_ENV

SMOLLM2 = ModelShape(30, 576, 1536, 9, 3, 64, 49152, tied=True)
CONFIG = TrainConfig(env=WORD_ENV, dtype="float32", learner={"token_budget": 2048}, rollout={"concurrency": 48})


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMOLLM2.to_config()))
    return tmp_path


def test_trainer_and_server_are_added_and_a_server_of_the_users_is_not(model):
    needs = memory_needs(CONFIG, model)
    learner = learner_memory(
        SMOLLM2, 16, "float32", tokens=2048, rows_per_token=1.0, gradient_checkpointing=False, logit_chunk_tokens=512
    )
    server = server_memory(SMOLLM2, 16, "float32", adapters=3, sampled_tokens=48 + 341, kv_cache=2 * GIB)
    assert needs.trainer == pytest.approx((learner.total + (CPU_SLACK - 1) * learner.activations) / GIB)
    assert needs.trainer == pytest.approx(5.2, abs=0.05), "GiB"
    whole_rows = CONFIG.model_copy(update={"learner": CONFIG.learner.model_copy(update={"kernels": ("fused_lora",)})})
    assert memory_needs(whole_rows, model).trainer == pytest.approx(6.1, abs=0.05), "GiB, with torch's attention"
    assert needs.server == pytest.approx(server.total / GIB), "48 sampled tokens, and 64 MiB of guessed ones: 341"
    assert needs.least == pytest.approx((learner.total - learner.activations + server.total) / GIB)
    named = TrainConfig(env=WORD_ENV, dtype="float32", server={"urls": ("http://127.0.0.1:8000",)})
    assert memory_needs(named, model).server == 0.0


def test_every_server_is_counted_with_its_cache_and_its_guesses(model):
    settings = {"replicas": 2, "kv_cache_gib": 0.5, "draft_tokens": 0}
    needs = memory_needs(CONFIG.model_copy(update={"server": ServerSettings(**settings)}), model)
    server = server_memory(SMOLLM2, 16, "float32", adapters=3, sampled_tokens=48, kv_cache=GIB // 2)
    assert needs.server == pytest.approx(2 * server.total / GIB)
    assert needs.least == pytest.approx(
        memory_needs(CONFIG, model).least - memory_needs(CONFIG, model).server + needs.server
    )


def test_every_learner_of_this_machine_needs_its_own(model, monkeypatch):
    alone = memory_needs(CONFIG, model)
    for name, value in {"RANK": 0, "WORLD_SIZE": 6, "LOCAL_WORLD_SIZE": 3, "MASTER_ADDR": "node0"}.items():
        monkeypatch.setenv(name, str(value))
    needs = memory_needs(CONFIG, model)
    assert (needs.trainer, needs.server) == (pytest.approx(3 * alone.trainer), alone.server)
    assert needs.least - needs.server == pytest.approx(3 * (alone.least - alone.server))


def test_enough_memory_is_said_and_a_shortage_names_what_to_lower(model):
    needs = memory_needs(CONFIG, model)
    assert check_memory(CONFIG, model, 64.0).startswith("64.0 GiB of memory are free, and the run needs about ")
    with pytest.raises(Trouble, match=r"only 8\.0 GiB of memory are free, and the run needs about .*vLLM") as short:
        check_memory(CONFIG, model, 8.0)
    assert needs.with_smaller_budget < needs.total
    smaller = f"lower it with --set learner.token_budget=1024 (about {needs.with_smaller_budget:.1f} GiB)"
    assert short.value.fix == f"end other programs, {smaller}"
    assert MemoryNeeds(3.0, 2.0, 1.0, 5.0).advice() == "end other programs, or take a smaller model"


def test_where_it_is_not_known_nothing_is_said(model, tmp_path):
    assert check_memory(CONFIG, model, None) == ""
    assert memory_needs(TrainConfig(env=WORD_ENV, device="cuda", dtype="bfloat16"), model) is None
    (tmp_path / "config.json").write_text("{}")
    assert memory_needs(CONFIG, tmp_path) is None
