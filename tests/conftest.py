"""Settings of the whole suite."""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None)  # a busy machine is no failure
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and children inherit it: the tests that press Ctrl-C would wait in vain.
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")  # importing trl would make it ERROR, for the servers of all tests


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers: one of them has all tests with real vLLM, and begins with them; files are not torn apart.

    The rest fills the core that is idle while processes start. Two real vLLMs at once would not fit into the memory.
    """
    if not hasattr(config, "workerinput"):
        return
    items.sort(key=lambda item: item.get_closest_marker("vllm") is None)
    for item in items:
        group = "vllm" if item.get_closest_marker("vllm") else item.location[0]
        item.add_marker(pytest.mark.xdist_group(group))
