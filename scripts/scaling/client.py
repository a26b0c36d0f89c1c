"""How many turns a second the rollout client can ask for: many episodes at once, of stub servers in another process.

Every turn goes over a real socket, through the trainer's own fleet, connection and policy, and takes its latency at the
server. No env and no model compute, so what is measured is the client alone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Any

from grpo.machine.processes import allow_many_files
from grpo.serving.connection import Connection
from grpo.serving.fleet import Fleet
from grpo.serving.policy import CompletionsPolicy, SamplingParams
from grpo.serving.server import ExternalServer
from scaling.overlap import long_tailed
from scaling.stub_server import StubServer

TURNS, GROUP_SIZE, PROMPT_IDS, TURN_IDS = 3, 8, 400, 40


@dataclass(frozen=True, slots=True)
class Load:
    """What was asked and how long it took.

    Attributes:
        servers: How many.
        episodes: How many at once.
        turns_per_second: That were answered.
        share_of_ideal: The slowest episode's latencies, over the time that all episodes took.
        cpu_ms: The client's CPU time for a turn.
    """

    servers: int
    episodes: int
    turns_per_second: float
    share_of_ideal: float
    cpu_ms: float


def measure(servers: int, episodes: int, median_seconds: float) -> Load:
    """Play ``episodes`` at once, three turns each."""
    allow_many_files()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, servers, median_seconds), daemon=True)
    process.start()
    try:
        urls: list[str] = here.recv()
        cpu, began = time.process_time(), time.perf_counter()
        asyncio.run(_play(urls, episodes))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    finally:
        process.terminate()
        process.join()
    slowest = max(
        sum(long_tailed(number * TURNS + turn, median_seconds)() for turn in range(TURNS)) for number in range(episodes)
    )
    turns = episodes * TURNS
    return Load(servers, episodes, turns / seconds, slowest / seconds, 1000 * cpu / turns)


async def _play(urls: list[str], episodes: int) -> None:
    fleet = Fleet([ExternalServer(url) for url in urls])
    async with Connection(fleet, max_connections=episodes) as connection:
        policy = CompletionsPolicy(connection, "base", [])

        async def episode(number: int) -> None:
            ids = [number % 1000] * PROMPT_IDS
            with policy.session(number // GROUP_SIZE) as session:
                for turn in range(TURNS):
                    answer = await session.sample(ids, SamplingParams(), max_tokens=64, seed=number * TURNS + turn)
                    ids = ids + answer.ids

        await asyncio.gather(*(episode(number) for number in range(episodes)))


def _serve(pipe: Pipe, servers: int, median_seconds: float) -> None:
    allow_many_files()

    async def answer(request: dict[str, Any]) -> list[int]:
        await asyncio.sleep(long_tailed(request["seed"], median_seconds)())
        return [random.randrange(1000)] * TURN_IDS

    async def run() -> None:
        stubs = [StubServer(answer) for _ in range(servers)]
        for stub in stubs:
            await stub.start()
        pipe.send([stub.url for stub in stubs])
        await asyncio.Event().wait()  # until this process is ended

    asyncio.run(run())
