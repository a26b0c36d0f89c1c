"""Adapter versions: written whole, a new name each, kept while used."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from grpo.errors import AdapterError
from grpo.serving.adapters import AdapterStore
from grpo.serving.fleet import Fleet
from grpo.serving.server import ExternalServer, models_of
from grpo.serving.vllm import VllmServer
from tests.support.policy_server import PolicyStub, save_nothing


@pytest.fixture
def fake() -> Iterator[PolicyStub]:
    with PolicyStub() as server:
        yield server


@pytest.fixture
def store(fake: PolicyStub, tmp_path: Path) -> AdapterStore:
    return AdapterStore(Fleet([ExternalServer(fake.url)]), tmp_path / "adapters")


def test_each_version_gets_a_new_name_and_replaces_the_one_before(store: AdapterStore, fake: PolicyStub):
    handles = [store.publish(save_nothing, version) for version in (0, 1, 1, 2)]
    assert len({handle.name for handle in handles}) == 4
    assert [handle.version for handle in handles] == [0, 1, 1, 2]
    assert fake.loaded == {handles[-1].name: str(handles[-1].path)}
    assert [handle.path.exists() for handle in handles] == [False, False, False, True]
    assert [path.name for path in handles[-1].path.parent.iterdir()] == [handles[-1].name]


def test_a_version_in_use_is_kept_until_its_last_user_ends(store: AdapterStore, fake: PolicyStub):
    first = store.publish(save_nothing, 0)
    assert store.acquire(0) == store.acquire(0) == first
    second = store.publish(save_nothing, 1)
    assert set(fake.loaded) == {first.name, second.name}
    store.release(first)
    assert set(fake.loaded) == {first.name, second.name}
    store.release(first)
    assert set(fake.loaded) == {second.name}
    with pytest.raises(AdapterError, match=r"version 0 is not served; loaded are \[1\]"):
        store.acquire(0)
    store.release(store.acquire(1))
    assert set(fake.loaded) == {second.name}  # the newest stays, used or not


def test_a_server_that_goes_on_after_the_run_keeps_no_adapter_of_it(fake: PolicyStub, tmp_path: Path):
    gone = PolicyStub()
    gone.start()
    fleet = Fleet([ExternalServer(fake.url), ExternalServer(gone.url)])
    store = AdapterStore(fleet, tmp_path / "adapters")
    store.publish(save_nothing, 0)
    store.acquire(0)
    store.publish(save_nothing, 1)
    assert len(fake.loaded) == 2, "an episode that is cut by Ctrl-C has its version still"
    gone.stop()
    fleet.stop()
    fleet.stop()
    assert fake.loaded == {}


def test_an_adapter_that_was_not_saved_whole_or_that_a_server_refuses_leaves_the_former_version_in_place(
    store: AdapterStore, fake: PolicyStub
):
    first = store.publish(save_nothing, 0)

    def half(folder: Path) -> None:
        folder.mkdir()
        (folder / "adapter_config.json").write_text("{}")

    def failing(folder: Path) -> None:
        half(folder)
        raise OSError("disk full")

    with pytest.raises(AdapterError, match=r"version 1 was saved without adapter_model\.safetensors"):
        store.publish(half, 1)
    with pytest.raises(OSError, match="disk full"):
        store.publish(failing, 1)
    fake.has_adapter_routes = False
    with pytest.raises(AdapterError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
        store.publish(save_nothing, 1)
    assert store.acquire(0) == first
    assert set(fake.loaded) == {first.name}
    assert [path.name for path in first.path.parent.iterdir()] == [first.name]


def test_after_a_restart_every_live_version_is_loaded_again(fake: PolicyStub, tmp_path: Path):
    fleet = Fleet([ExternalServer(fake.url)])
    store = AdapterStore(fleet, tmp_path / "adapters")
    store.publish(save_nothing, 0)
    first = store.acquire(0)
    second = store.publish(save_nothing, 1)
    del fake.loaded[first.name]  # a restart loses all, a lost connection none
    for action in fleet.on_return:
        action(fleet.servers[0])
    assert set(fake.loaded) == {first.name, second.name}
    store.release(first)
    assert set(fake.loaded) == {second.name}


def test_a_version_that_the_server_lost_can_still_be_dropped(
    store: AdapterStore, fake: PolicyStub, caplog: pytest.LogCaptureFixture
):
    first = store.publish(save_nothing, 0)
    fake.loaded.clear()
    second = store.publish(save_nothing, 1)
    assert set(fake.loaded) == {second.name}
    assert f"/v1/unload_lora_adapter answered 404: The lora adapter '{first.name}'" in caplog.text


def test_what_an_earlier_process_left_is_removed_and_nothing_else(
    store: AdapterStore, fake: PolicyStub, tmp_path: Path
):
    root = store.publish(save_nothing, 0).path.parent
    (root / ".policy-0a1b2c-0007.3").mkdir()
    (root / "notes").mkdir()
    AdapterStore(Fleet([ExternalServer(fake.url)]), root)
    assert [path.name for path in root.iterdir()] == ["notes"]


def test_threads_may_use_and_publish_at_once(store: AdapterStore, fake: PolicyStub):
    store.publish(save_nothing, 0)
    failures: list[BaseException] = []

    def use() -> None:
        try:
            for _ in range(20):
                handle = store.acquire(0)
                assert handle.path.exists()
                assert handle.name in fake.loaded
                store.release(handle)
        except BaseException as error:
            failures.append(error)

    users = [threading.Thread(target=use) for _ in range(4)]
    for user in users:
        user.start()
    published = [store.publish(save_nothing, 0) for _ in range(9)]
    for user in users:
        user.join()
    assert failures == []
    assert set(fake.loaded) == {published[-1].name}


@pytest.mark.vllm
def test_a_real_server_swaps_adapters(
    vllm_server: VllmServer, save_random_adapter: Callable[[Path, int], None], tmp_path: Path
):
    def served() -> set[str]:
        return {name for name, parent in models_of(vllm_server).items() if parent}

    def answer(model: str) -> float:
        """Log-probability of the first token after a fixed prompt, its prefix cached by a first request.

        With the prefix cached and without it vLLM computes in different shapes, so only like is compared with like.
        """
        body = {"model": model, "prompt": list(range(1000, 1080)), "max_tokens": 1, "temperature": 0.0, "logprobs": 0}
        for _ in range(2):
            url, key = f"{vllm_server.url}/v1/completions", vllm_server.headers
            reply = httpx.post(url, json=body, timeout=120, trust_env=False, headers=key)
        return reply.raise_for_status().json()["choices"][0]["logprobs"]["token_logprobs"][0]

    others = served()
    store = AdapterStore(Fleet([vllm_server]), tmp_path)
    store.publish(lambda folder: save_random_adapter(folder, 10), 0)
    first = store.acquire(0)
    of_first = answer(first.name)
    second = store.publish(lambda folder: save_random_adapter(folder, 11), 1)
    of_second = answer(second.name)
    assert served() - others == {first.name, second.name}
    assert abs(of_second - of_first) > 0.1  # the same prompt: nothing of the first version's cache is used
    assert answer(first.name) == pytest.approx(of_first, abs=0.05)  # and an episode keeps its version
    store.release(first)
    assert served() - others == {second.name}
    third = store.publish(lambda folder: save_random_adapter(folder, 10), 2)
    assert answer(third.name) == pytest.approx(of_first, abs=0.05)  # the same weights under a new name
    with pytest.raises(AdapterError, match="answered"):
        store.publish(lambda folder: save_broken_adapter(folder), 3)
    assert store.acquire(2) == third


def save_broken_adapter(folder: Path) -> None:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(
        '{"peft_type": "LORA", "r": 8, "lora_alpha": 8, "target_modules": ["q_proj"]}'
    )
    (folder / "adapter_model.safetensors").write_bytes(b"not a tensor file")
