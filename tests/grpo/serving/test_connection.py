"""Requests to a server that ends while many are under way: it is restarted once, and every request is answered."""

import asyncio
import time

import pytest

from grpo.errors import ServerDiedError, ServerError
from grpo.serving.connection import Connection
from grpo.serving.fleet import Fleet
from grpo.serving.policy import CompletionsPolicy, SamplingParams
from grpo.serving.sampler import VllmSampler
from tests.support.policy_server import PolicyStub, save_nothing


class MortalServer(PolicyStub):
    """Ends for good ``lives`` times, after so many answers each."""

    trust_env = False
    patience_seconds = 0.0
    model = "base"

    def __init__(self, lives=1, answers=10**9):
        super().__init__(models=("m",))
        self.lives_left, self.answers_left = lives, answers
        self.recoveries, self.restarts = 0, 0
        self.start()

    def complete(self, body):
        if not self.is_well():  # nothing is answered any more
            raise ConnectionAbortedError
        self.answers_left -= 1
        return super().complete(body)

    def is_well(self):
        return self.answers_left > 0

    def recover(self):
        self.recoveries += 1
        if self.is_well():
            return False
        if self.lives_left == 0:
            raise ServerDiedError("it ended again after a restart")
        self.lives_left -= 1
        self.stop()
        time.sleep(0.1)  # the others wait for this
        self.answers_left = 10**9
        self.start()
        self.restarts += 1
        return True


async def sample_all(server, count):
    async with Connection(Fleet([server], on_change=[]), count) as connection:
        policy = CompletionsPolicy(connection, "m", [9])
        turns = (policy.sample([n], SamplingParams(), max_tokens=1, seed=n) for n in range(count))
        return await asyncio.gather(*turns, return_exceptions=True)


def test_a_server_that_ends_is_restarted_once_and_every_request_is_answered():
    server = MortalServer(answers=5)
    turns = asyncio.run(sample_all(server, 20))
    server.stop()
    assert [turn.ids for turn in turns] == [[7]] * 20
    assert server.restarts == server.recoveries == 1
    assert sorted(body["seed"] for body in server.asked) == list(range(20)), "none was answered twice"


def test_a_server_that_ends_for_good_fails_what_is_under_way():
    server = MortalServer(lives=0, answers=5)
    turns = asyncio.run(sample_all(server, 8))
    server.stop()
    assert sum(isinstance(turn, ServerDiedError) for turn in turns) == 3


def test_a_sampler_gives_each_version_under_its_own_name_as_long_as_it_is_used(tmp_path):
    server = MortalServer()
    sampler = VllmSampler(Fleet([server]), tmp_path, [9], 4)

    async def sample():
        sampler.publish(save_nothing, 3)
        async with sampler.policy(3) as old:
            sampler.publish(save_nothing, 4)
            async with sampler.policy(4) as new:
                for policy in (old, new):
                    await policy.sample([policy.version], SamplingParams(), max_tokens=1, seed=0)
        async with sampler.policy(3):
            raise AssertionError("version 3 is not served any more")

    with pytest.raises(ServerError, match=r"version 3 is not served; loaded are \[4\]"):
        asyncio.run(sample())
    server.stop()
    first, second = server.asked
    assert (first["prompt"], second["prompt"]) == ([3], [4])
    assert first["model"] != second["model"]
