"""Shared by the tests of servers: a model for the stand-in for vLLM, and adapters on a real one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo.serving.adapters import AdapterStore
from grpo.serving.fleet import Fleet
from grpo.serving.vllm import VllmServer
from tests.grpo.serving.published import Published
from tests.support.runs import weights_file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["Fake"], "max_position_embeddings": 4096}')
    (folder / "model.safetensors").write_bytes(weights_file())
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.fixture(scope="session")
def published(
    vllm_server: VllmServer,
    model_dir: Path,
    save_random_adapter: Callable[[Path, int], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Published]:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    store = AdapterStore(Fleet([vllm_server]), tmp_path_factory.mktemp("adapters"))
    handles = []
    for seed in (0, 1):
        store.publish(lambda folder, seed=seed: save_random_adapter(folder, seed), seed)
        handles.append(store.acquire(seed))
    base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, handles[0].path, adapter_name="0")
    model.load_adapter(handles[1].path, adapter_name="1")
    model.eval()

    @torch.no_grad()
    def reference(which: int | None, ids: list[int]) -> torch.Tensor:
        """Log-probabilities of ids[1:] in float32."""
        if which is None:
            with model.disable_adapter():
                logits = model(torch.tensor([ids])).logits[0, :-1]
        else:
            model.set_adapter(str(which))
            logits = model(torch.tensor([ids])).logits[0, :-1]
        return torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]

    yield Published(vllm_server, handles, reference)
    for handle in handles:
        store.release(handle)
