"""The loop in which litellm is called."""

import asyncio
import threading

import pytest

from judges.llm.one_loop import in_one_loop


async def thread_name(delay=0.0):
    await asyncio.sleep(delay)
    return threading.current_thread().name


def test_calls_from_every_loop_run_in_the_same_thread_and_raise_what_they_raise():
    async def fail():
        raise ValueError("seen 3")

    assert [asyncio.run(in_one_loop(thread_name())) for _ in range(2)] == ["judges-litellm"] * 2
    with pytest.raises(ValueError, match="seen 3"):
        asyncio.run(in_one_loop(fail()))


def test_what_is_cancelled_has_ended_when_the_caller_goes_on():
    steps = []

    async def slow_to_end():
        try:
            await asyncio.sleep(300)
        finally:
            await asyncio.sleep(0.2)
            steps.append("ended")

    async def call(after):
        calling = asyncio.ensure_future(in_one_loop(slow_to_end()))
        await asyncio.sleep(after)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        steps.append("goes on")

    asyncio.run(call(after=0.1))
    assert steps == ["ended", "goes on"]


def test_a_call_cancelled_before_its_first_step_ends_too():
    async def call():
        calling = asyncio.ensure_future(in_one_loop(thread_name(300)))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(calling, 60)
        return await in_one_loop(thread_name())

    assert asyncio.run(call()) == "judges-litellm", "the loop goes on"
