"""Learner and server in turns on one GPU: who sleeps when, and what becomes of a server that ends in its sleep."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from grpo.serving.fleet import Fleet
from grpo.serving.sampler import VllmSampler
from grpo.serving.sleep_mode import Turns
from grpo.serving.vllm import VllmServer
from grpo.serving.vllm_options import ServerOptions
from tests.grpo.serving.published import PROMPTS, Published, request
from tests.grpo.serving.test_server import kill_api_server
from tests.support.policy_server import save_nothing
from tests.support.wait import wait_until


class Learner:
    """Notes in the server's log, so that the order of both is seen."""

    def __init__(self, log: Path):
        self.log = log

    def say(self, what: str) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"asked for {what}\n")

    def sleep(self) -> None:
        self.say("the learner's sleep")

    def wake_up(self) -> None:
        self.say("the learner's weights")


@contextmanager
def taking_turns(model: Path, folder: Path) -> Iterator[tuple[VllmServer, Fleet, Turns, list[str]]]:
    """A server and a learner that take turns, and what is told of the server."""
    told: list[str] = []
    with VllmServer(model, folder / "log", ServerOptions(threads=1, sleep_mode=True)) as server:
        fleet = Fleet([server], on_change=[told.append])
        yield server, fleet, Turns(Learner(server.log_path), fleet), told
        fleet.stop()


def asked(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("asked for ") for line in lines if line.startswith("asked for ")]


def test_one_gives_the_gpu_back_before_the_other_takes_it(model: Path, fake_vllm: str, tmp_path: Path):
    with taking_turns(model, tmp_path) as (server, _, turns, _):
        turns.sample()  # the server's is the first turn
        turns.train()
        turns.train()
        turns.sample()
        turns.sample()
        turns.train()
    assert asked(server.log_path) == [
        "/sleep?level=1", "the learner's weights", "the learner's sleep", "/wake_up", "/sleep?level=1",
        "the learner's weights",
    ]  # fmt: skip


@pytest.mark.parametrize("asleep", [True, False])
def test_a_server_that_ends_in_its_sleep_or_before_it_is_started_again_when_it_is_its_turn(
    model: Path, fake_vllm: str, tmp_path: Path, asleep: bool
):
    with taking_turns(model, tmp_path) as (server, fleet, turns, told):
        sampler = VllmSampler(fleet, tmp_path / "adapters", [], 8)
        sampler.publish(save_nothing, 0)
        if asleep:
            turns.train()
            kill_api_server(server)
        else:
            kill_api_server(server)
            turns.train()
        assert not server.is_alive()
        turns.sample()
        wait_until(lambda: len(told) == 2)
    failed = "wake_up" if asleep else "sleep"
    assert told[0].startswith(f"the server at {server.url} is out ({server.url}/{failed} did not answer")
    assert told[1] == f"the server at {server.url} was restarted and is in"
    assert asked(server.log_path) == [
        "/v1/load_lora_adapter", *(["/sleep?level=1"] * asleep), "the learner's weights", "the learner's sleep",
        "/v1/load_lora_adapter",
    ]  # fmt: skip


@pytest.mark.parametrize(("mode", "failed"), [("sleeps on", "wake_up"), ("no sleep", "sleep")])
def test_a_server_that_answers_but_does_not_wake_up_or_fall_asleep_is_started_again_and_the_reason_is_told(
    model: Path, fake_vllm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, failed: str
):
    monkeypatch.setenv("FAKE_VLLM_MODE", mode)
    with taking_turns(model, tmp_path) as (server, _, turns, told):
        turns.train()
        assert server.is_alive() == (failed == "wake_up"), "one that stays awake leaves the GPU to the learner"
        turns.sample()
        wait_until(lambda: len(told) == 2)
        assert server.is_well()
    assert told[0].startswith(f"the server at {server.url} is out ({server.url}/{failed} answered 500")
    assert told[1] == f"the server at {server.url} was restarted and is in"


def test_the_learner_waits_for_a_server_that_is_being_started_again(model: Path, fake_vllm: str, tmp_path: Path):
    with taking_turns(model, tmp_path) as (server, fleet, turns, told):
        kill_api_server(server)
        fleet.take_out(fleet.members[0], 0, "it was killed")
        turns.train()
        assert len(told) == 2, "it is in again"
    assert asked(server.log_path) == ["/sleep?level=1", "the learner's weights"]


def test_a_server_that_was_not_told_to_sleep_takes_no_turns(model: Path, tmp_path: Path):
    server = VllmServer(model, tmp_path / "log", ServerOptions(threads=1))
    for servers in (Fleet([server]), "servers of another kind"):
        turns = Turns(Learner(server.log_path), servers)
        turns.train()
        turns.sample()
    assert not server.log_path.exists(), "nobody was asked"


@pytest.mark.vllm
def test_a_real_server_that_has_slept_samples_its_adapters_as_before(published: Published, tmp_path: Path):
    server = published.server

    def is_asleep() -> bool:
        return httpx.get(f"{server.url}/is_sleeping", trust_env=False).raise_for_status().json()["is_sleeping"]

    turns = Turns(Learner(tmp_path / "log"), Fleet([server]))
    assert not is_asleep()
    turns.train()
    assert is_asleep()
    turns.sample()
    assert not is_asleep()
    asked, prompts = [0] * 3 + [1] * 3, [published.tokenize(text) for text in PROMPTS] * 2
    bodies = [request(published.model(which), ids) for which, ids in zip(asked, prompts, strict=True)]
    published.check(asked, prompts, [asyncio.run(published.answers([body]))[0] for body in bodies])
