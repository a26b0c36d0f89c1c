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
