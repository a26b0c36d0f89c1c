"""Settings of the whole suite."""

import functools
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from grpo.machine.hardware import share_cores

settings.register_profile("suite", deadline=None)  # a busy machine is no failure
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and children inherit it: the tests that press Ctrl-C would wait in vain.
    signal.signal(signal.SIGINT, signal.default_int_handler)

share_cores()  # as the commands do: else the shared vLLM spends nine tenths of its CPU time waiting for a busy core
for _name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
    os.environ.pop(_name, None)  # no test asks anyone but its own servers
os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")  # importing trl would make it ERROR, for the servers of all tests


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers: the files with real vLLM, which take longest, come first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not _starts_vllm(item.location[0]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers: one of them has all files with real vLLM; no file is torn apart.

    The rest fills the core that is idle while processes start. With half of these files on each worker the suite took a
    third more CPU time and was done no sooner: each vLLM computes with all cores.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "vllm" if _starts_vllm(file) else file

    return ByFile(config, log)


@functools.cache
def _starts_vllm(file: str) -> bool:
    return "mark.vllm" in (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
