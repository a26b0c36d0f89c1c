"""The whole of GRPO on one page, as it stands in examples/: with a tiny model, and with a real one on a real vLLM."""

import pytest

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from safetensors.torch import load_file

from examples import grpo_loop
from grpo.learner.advantages import has_spread
from grpo.serving.fleet import Fleet
from grpo.serving.server import ExternalServer
from tests.support.policy_server import TinyPolicyServer
from tests.support.tiny_model import tiny_chat_model_folder


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(grpo_loop, "GROUPS", 2)
    monkeypatch.setattr(grpo_loop, "GROUP_SIZE", 3)


def check_two_steps(model, servers, folder):
    """Each step samples what the step before has trained."""
    steps = grpo_loop.train(model, servers, folder, 2)
    for number, groups in enumerate(steps):
        assert len({group.task for group in groups}) == len(groups) == grpo_loop.GROUPS
        for group in groups:
            assert [t.sample_index for t in group.episodes] == list(range(grpo_loop.GROUP_SIZE))
            assert {t.policy_version for t in group.episodes} == {number}
            assert [t.error for t in group.episodes] == [""] * grpo_loop.GROUP_SIZE
            by_hand = [
                t.metrics["success"] * (1.1 - 0.1 * t.num_turns) + t.turn_errors.count("") / t.num_turns
                for t in group.episodes
            ]
            assert group.rewards == pytest.approx(by_hand)
    learned = any(has_spread(group.rewards) for group in steps[0])
    (adapter,) = folder.glob("adapters/*/adapter_model.safetensors")  # of step 1; B is 0 until something is learned
    assert any(tensor.any() for name, tensor in load_file(adapter).items() if "lora_B" in name) == learned


@pytest.mark.torch
def test_a_tiny_model_samples_what_it_has_learned(tmp_path):
    model = tiny_chat_model_folder(tmp_path / "model")
    with TinyPolicyServer(model) as server:
        check_two_steps(model, Fleet([ExternalServer(server.url)]), tmp_path)


@pytest.mark.vllm
def test_a_real_model_samples_what_it_has_learned(model_dir, vllm_server, tmp_path, monkeypatch):
    monkeypatch.setattr(grpo_loop, "GROUP_SIZE", 2)
    monkeypatch.setattr(grpo_loop, "TURNS", 2)
    check_two_steps(model_dir, Fleet([vllm_server]), tmp_path)
