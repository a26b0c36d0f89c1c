import asyncio

import pytest

from judges.llm.client import JudgeClient
from tests.support.judge_server import JudgeServer


@pytest.fixture(scope="session", autouse=True)
def loaded_litellm():
    """litellm's import and first call take seconds; tests of timeouts must not pay them."""
    with JudgeServer(["hello"]) as server:
        judge = JudgeClient("openai/warm-up", api_base=server.url)
        asyncio.run(judge.complete([{"role": "user", "content": "hello"}]))


@pytest.fixture(autouse=True)
def _no_keys_or_urls_from_the_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
