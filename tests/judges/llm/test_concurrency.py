"""Questions at the same time over event loops and threads: equal ones are asked once, others as many as the limit."""

import asyncio
import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import judges
from judges import MalformedVerdict, Session
from tests.judges.recorded_groups import GROUP, USER, by_table, judge, said
from tests.support.judge_server import JudgeServer, Reply, score_by
from tests.support.wait import wait_until


def slowly(answer, seconds=0.4):
    return lambda messages: Reply(content=answer(messages), delay_seconds=seconds)


async def test_equal_judgements_at_the_same_time_are_asked_once_and_one_after_another_twice(tmp_path):
    session = Session(record=tmp_path / "judgements.jsonl")
    with JudgeServer(slowly(by_table)) as server:
        scored = await asyncio.gather(*(judge(server, copy.deepcopy(GROUP), session=session) for _ in range(5)))
        assert len(server.requests) == 1
        await judge(server, session=session)
        await asyncio.gather(judge(server, session=session), judge(server, session=session, seed=1))
    assert len(server.requests) == 4, "without a cache nothing is kept, and another order is another question"
    assert [[score.score for score in scores] for scores in scored] == [[0.1, 0.4, 0.2, 0.0]] * 5
    assert (session.usage.calls, session.usage.cached) == (4, 4)


async def test_an_error_is_that_of_all_who_wait():
    session = Session()
    with JudgeServer(slowly(lambda messages: "no", 0.2)) as server:
        asked = (judge(server, session=session) for _ in range(3))
        failures = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(failure) for failure in failures] == [MalformedVerdict] * 3
    assert len(server.requests) == 2


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_one_who_gives_up_does_not_take_the_answer_from_the_others(cancelled):
    session = Session()
    with JudgeServer(slowly(by_table)) as server:
        tasks = [asyncio.create_task(judge(server, session=session)) for _ in range(3)]
        await asyncio.to_thread(wait_until, lambda: server.requests)
        tasks[cancelled].cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(ends.pop(cancelled), asyncio.CancelledError)
    assert [[score.score for score in scores] for scores in ends] == [[0.1, 0.4, 0.2, 0.0]] * 2
    assert len(server.requests) == (2 if cancelled == 0 else 1)


def test_threads_with_a_loop_each_share_an_answer():
    session = Session()

    def when_three_wait(messages):
        (asked,) = session._asked.values()
        wait_until(lambda: len(asked._callbacks or ()) >= 3)
        return by_table(messages)

    with JudgeServer(when_three_wait) as server:
        options = {"api_base": server.url, "session": session, "timeout_seconds": 120}
        with ThreadPoolExecutor(4) as pool:
            scored = list(pool.map(lambda _: judges.score(GROUP, "openai/o4-mini", **options), range(4)))
    assert [[score.score for score in scores] for scores in scored] == [[0.1, 0.4, 0.2, 0.0]] * 4
    assert len(server.requests) == 1


class Crowd:
    """Answers only once ``size`` requests are waiting, and counts how many there ever were at the same time."""

    def __init__(self, size):
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.full = threading.Barrier(size)

    def __call__(self, messages):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.full.wait(timeout=60)
        with self.lock:
            self.now -= 1
        return score_by(lambda trajectory: (0.5, ""))(messages)


async def test_as_many_calls_as_the_limit_are_under_way_and_all_are_made():
    crowd = Crowd(3)
    session = Session(max_concurrency=3)
    with JudgeServer(crowd) as server:
        lists = [[[USER, said(str(n))]] for n in range(9)]
        await asyncio.gather(*(judge(server, group, session=session, timeout_seconds=60) for group in lists))
    assert (crowd.most, session.usage.calls) == (3, 9)


async def test_who_hands_in_no_session_shares_a_limit():
    crowd = Crowd(16)
    with JudgeServer(crowd) as server:
        lists = [[[USER, said(str(n))]] for n in range(32)]
        await asyncio.gather(*(judge(server, group, timeout_seconds=60) for group in lists))
    assert crowd.most == 16


def test_the_limit_holds_over_threads_with_loops_of_their_own():
    crowd = Crowd(2)
    session = Session(max_concurrency=2)

    def work(name):
        for n in range(2):
            judges.score([[USER, said(f"{name} {n}")]], "o4-mini", api_base=server.url, session=session)

    with JudgeServer(crowd) as server, ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    assert (crowd.most, session.usage.calls) == (2, 8)


async def test_a_waiter_that_is_cancelled_gives_its_place_to_the_next():
    session, given_up = Session(max_concurrency=1), threading.Event()
    with JudgeServer(lambda messages: by_table(messages) if given_up.wait(60) else 500) as server:
        tasks = [asyncio.create_task(judge(server, session=session, seed=seed)) for seed in range(3)]
        await asyncio.to_thread(wait_until, lambda: server.requests)
        tasks[0].cancel()  # holds the slot
        tasks[1].cancel()  # waits for it
        given_up.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in done[:2]] == [asyncio.CancelledError] * 2
    assert [score.score for score in done[2]] == [0.1, 0.4, 0.2, 0.0]
