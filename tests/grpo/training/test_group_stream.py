"""Which groups a step takes and when, on a simulated clock: latencies are exact and cost no time."""

import asyncio

import pytest

from grpo.machine.background import BackgroundLoop
from grpo.training.group_stream import GroupStream
from grpo.types import Task
from tests.support.simulated_clock import simulate


def now():
    return asyncio.get_running_loop().time()


async def lasts(seconds, what):
    await asyncio.sleep(seconds)
    return what


def begun(*seconds, version=0):
    """A stream with a group for each latency, called by its place."""
    stream = GroupStream()
    for place, latency in enumerate(seconds):
        stream.begin(Task(place), version, lasts(latency, place))
    return stream


def test_a_step_closes_when_enough_groups_are_whole_and_takes_them_in_the_order_they_were_begun():
    async def step():
        stream = begun(3.0, 100.0, 1.0, 2.0)
        first = await stream.take(2), now()
        second = await stream.take(1), now()
        left = [task.seed for task in stream.tasks]
        return first, second, left, await stream.take(1), now()

    found, seconds = simulate(step())
    assert found == (([2, 3], 2.0), ([0], 3.0), [1], [1], 100.0)
    assert seconds == 100.0


def test_groups_go_on_while_nobody_waits_for_them():
    async def overlapped():
        stream = begun(5.0, 5.0)
        await stream.take(2)
        stream.begin(Task(2), 0, lasts(4.0, "next"))
        await asyncio.sleep(10.0)  # the learner
        at = now()
        return await stream.take(1), now() - at

    assert simulate(overlapped()) == ((["next"], 0.0), 15.0)


def test_what_is_too_old_ends_and_its_task_is_named():
    async def dropped():
        ended = []

        async def forever(name):
            try:
                await asyncio.sleep(1e9)
            finally:
                ended.append(name)

        stream = GroupStream()
        for version in (0, 1, 2):
            stream.begin(Task(version), version, forever(version))
        await asyncio.sleep(1.0)
        tasks = stream.drop_before(2)
        await asyncio.sleep(0)
        before_close = list(ended)
        await stream.close()
        return tasks, before_close, ended, len(stream)

    (tasks, before_close, ended, left), _ = simulate(dropped())
    assert (tasks, before_close, ended, left) == ([Task(0), Task(1)], [0, 1], [0, 1, 2], 0)


def test_a_group_that_raises_ends_the_wait_for_the_others():
    async def raises():
        await asyncio.sleep(1.0)
        raise LookupError("no such scenario")

    async def step():
        stream = begun(50.0)
        stream.begin(Task(9), 0, raises())
        with pytest.raises(LookupError, match="no such scenario"):
            await stream.take(2)
        at = now()
        await stream.close()
        return at

    assert simulate(step())[0] == 1.0


def test_a_background_loop_plays_on_between_two_calls_and_ends_all_when_it_is_closed():
    ended = []

    async def play(found):
        try:
            for number in range(10**9):
                found.append(number)
                await asyncio.sleep(0.001)
        finally:
            ended.append("played")

    async def begin(found):
        tasks.append(asyncio.create_task(play(found)))

    async def fails():
        raise KeyError("told")

    found, tasks = [], []
    with BackgroundLoop("rollouts") as loop:
        loop.run(begin(found))
        while len(found) < 5:  # this thread computes; the other plays on
            pass
        assert loop.run(lasts(0.0, "an answer")) == "an answer"
        with pytest.raises(KeyError, match="told"):
            loop.run(fails())
    assert ended == ["played"]
    loop.close()
