"""Calls at the same time: as many as the limit over event loops and threads, and none lost."""

import asyncio
import threading

import judges
from judges import Session
from tests.judges.recorded_groups import USER, by_table, judge, said
from tests.support.judge_server import JudgeServer, score_by
from tests.support.wait import wait_until


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


def test_the_limit_holds_over_threads_with_loops_of_their_own():
    crowd = Crowd(2)
    session = Session(max_concurrency=2)

    def work(name):
        for n in range(2):
            judges.score([[USER, said(f"{name} {n}")]], "o4-mini", api_base=server.url, session=session)

    with JudgeServer(crowd) as server:
        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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
