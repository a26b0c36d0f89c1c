"""Requests to a server that ends while many are under way: it is restarted once, and every request is answered."""

import asyncio
import threading
import time
from typing import ClassVar

import pytest

from grpo.errors import ServerDiedError, ServerError
from grpo.serving import pulse
from grpo.serving.connection import Connection
from grpo.serving.fleet import Fleet
from grpo.serving.policy import CompletionsPolicy, SamplingParams
from grpo.serving.sampler import VllmSampler
from grpo.serving.server import ExternalServer
from tests.support.http_stub import Response
from tests.support.policy_server import PolicyStub, save_nothing


class MortalServer(PolicyStub):
    """Ends for good ``lives`` times, after so many answers each."""

    headers: ClassVar = {}
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


class StandingServer(PolicyStub):
    """Takes requests and answers none while it ``stands``, health checks but not sampling; its counters say so."""

    stands = True
    counts = 0

    def answer(self, request):
        if request.path == "/metrics":
            self.counts += not self.stands
            return Response(f"vllm:generation_tokens_total {self.counts}")
        if request.path == "/v1/completions" and self.stands:
            self.wait(60)
        return super().answer(request)


def external(server, told):
    outside = ExternalServer(server.url, patience_seconds=30.0)
    outside.model = "base"
    return Fleet([outside], check_seconds=0.05, on_change=[told.append])


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(pulse, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(pulse, "STILL_SECONDS", 0.5)
    monkeypatch.setattr("grpo.serving.server.WELL_SECONDS", 0.5)


def sampled(fleet):
    async def sample():
        async with Connection(fleet) as connection:
            policy = CompletionsPolicy(connection, "base", [9])
            return await policy.sample([5], SamplingParams(), max_tokens=1, seed=0)

    return asyncio.run(sample())


def test_a_server_that_answers_all_but_samples_is_named_waited_for_and_asked_again(quick):
    told = []
    with StandingServer() as server:
        fleet = external(server, told)
        threading.Timer(2.0, lambda: setattr(server, "stands", False)).start()
        turn = sampled(fleet)
        fleet.stop()
    assert turn.ids == [7]
    assert "takes requests, and nothing has moved there for 0.5 s" in told[0]
    assert told[-1].endswith("answers again and is in")


def test_a_server_whose_counters_move_is_left_to_work(quick, monkeypatch):
    monkeypatch.setattr(pulse, "STILL_SECONDS", 3.0)
    told = []

    class SlowServer(StandingServer):
        stands = False

        def complete(self, body):
            time.sleep(4.5)
            return super().complete(body)

    with SlowServer() as server:
        fleet = external(server, told)
        assert sampled(fleet).ids == [7]
        fleet.stop()
    assert not told
    assert server.counts > 3


def test_a_server_that_refuses_to_sample_for_a_while_is_waited_for(quick):
    told = []

    class RefusingServer(PolicyStub):
        refuses = True

        def answer(self, request):
            if request.path == "/v1/completions" and self.refuses:
                return Response("no engine", 500)
            return super().answer(request)

    with RefusingServer() as server:
        fleet = external(server, told)
        threading.Timer(2.5, lambda: setattr(server, "refuses", False)).start()
        assert sampled(fleet).ids == [7]
        fleet.stop()
    assert "answered 500 for model 'base': no engine" in told[0]
    assert told[-1].endswith("answers again and is in")


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
