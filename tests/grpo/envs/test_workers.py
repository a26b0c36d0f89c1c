import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import pytest

from grpo.ending import Ending
from grpo.envs.pool import EnvPool
from grpo.envs.step_cost import Place
from grpo.envs.workers import EnvWorkers
from grpo.episodes.player import planned_episodes
from grpo.episodes.record import line_of
from grpo.errors import EnvError
from grpo.machine.processes import child_environment
from grpo.serving.policy import SamplingParams
from grpo.types import Task
from tests.support.envs import HARD_ENV, WORD_ENV, WordEnv
from tests.support.episodes import planned, player, untimed
from tests.support.machine import TELLS_WAITS
from tests.support.policies import ByteChat, Says
from tests.support.sessions import family_of, running
from tests.support.wait import wait_until

CHAT = ByteChat()
TASK = Task(0, "train-maple")


def dice(*turns):
    """What it says depends on its sampling seed alone."""
    return Says(lambda prompt, seed: turns[seed % len(turns)])


def guesses(*turns):
    """Says the next of its words after each wrong one, whoever else plays."""
    return Says(lambda prompt, seed: turns[prompt.count("guess again") % len(turns)])


CALLS = {
    "CartPole-v1": [f'{{"name": "act", "arguments": {{"action": {action}}}}}' for action in (0, 1, 2)],
    "FrozenLake-v1": ["0", "1", "2", "up?"],
    WORD_ENV: ["oak", "is it pine?", "falcon"],
    "EmailSearch-v0": [
        '{"name": "search_inbox", "arguments": {"keywords": ["order"]}}',
        '{"name": "read_email", "arguments": {"message_id": "m3007"}}',
        '{"name": "search_inbox", "arguments": {"keyword": "laptops"}}',
        '{"name": "return_final_answer", "arguments": {"answer": "PO-5746", "sources": ["m3007"]}}',
    ],
}


def rollout(pool, policy, concurrency=8):
    return player(pool, CHAT, policy, SamplingParams(1.0, 200), 100_000, concurrency)


def play(env_id, kwargs, setting, policy, count, *, module=None, say=lambda line: None, task=TASK):
    """Episodes of one task with envs at a place."""
    with EnvWorkers(setting, module, say) as workers, EnvPool(env_id, kwargs, workers) as pool:
        return asyncio.run(rollout(pool, policy).all(planned_episodes([task], count, "t")))


@pytest.mark.parametrize("env_id", CALLS)
def test_an_episode_is_the_same_wherever_its_env_is_called(env_id):
    with EnvPool(env_id, {}) as pool:
        names = pool.scenario_ids()
    task = Task(7, None if names is None else names[0])
    found = {}
    for setting in (0, "threads", 2, "auto"):
        played = play(env_id, {}, setting, dice(*CALLS[env_id]), 6, task=task)
        found[setting] = [untimed(json.loads(line_of(episode))) for episode in played]
    assert found[0] == found["threads"] == found[2] == found["auto"]
    assert {t.ending for t in played} <= {Ending.ANSWERED, Ending.MAX_TURNS}
    assert len({t.num_turns for t in played}) > 1, "the episodes differ"


async def reset(seat):
    return await seat.run(lambda: seat.env.reset(TASK))


async def step(seat, action):
    return await seat.run(lambda: seat.env.step(action))


async def _observed(setting):
    with EnvWorkers(setting) as workers, EnvPool(HARD_ENV, {}, workers) as pool:
        seat = await pool.seat()
        first, second = await reset(seat), await step(seat, "oak")
        pool.leave(seat)
        return first, second


async def test_what_an_env_says_crosses_whole_but_for_what_nobody_reads_of_its_info():
    (here, step_here), (there, step_there) = await _observed(0), await _observed(1)
    assert type(here.info["lock"]).__name__ == "lock"
    assert there.info == {"error": ""}
    assert there == here._replace(info=there.info)
    pid, _, thread = step_here.text.partition(" ")
    assert (int(pid), int(thread)) == (os.getpid(), threading.get_ident())
    assert int(step_there.text.split()[0]) != os.getpid()
    assert step_there._replace(text="", info={}) == step_here._replace(text="", info={})


@pytest.mark.parametrize(("setting", "count"), [("threads", 8), (2, 2), (3, 3)])
def test_steps_are_taken_at_the_same_time(tmp_path, setting, count):
    """Each step waits for as many others; in the loop's thread the first would wait for ever."""
    kwargs = {"meets_in": str(tmp_path), "count": count}
    played = play(HARD_ENV, kwargs, setting, guesses("maple"), count)
    assert [t.error for t in played] == [""] * count
    assert len({name.name.split("-")[0] for name in tmp_path.iterdir()}) == (1 if setting == "threads" else count)


class Meets:
    """An argument that is sent when another one is about to be."""

    barrier = threading.Barrier(2)

    def __reduce__(self):
        self.barrier.wait(timeout=60)
        return str, ()


def test_envs_that_are_made_at_the_same_time_are_shared_out_among_the_workers():
    with EnvWorkers(2) as workers, ThreadPoolExecutor(2) as threads:
        made = list(threads.map(lambda _: workers.make(HARD_ENV, {"tool": Meets()}, Place.PROCESSES), range(2)))
        for env in made:
            env.reset(TASK)
        assert len({env.step("oak").text.split()[0] for env in made}) == 2, "one worker got both"
        for env in made:
            env.close()


async def test_the_event_loop_goes_on_while_an_env_is_in_a_step(tmp_path):
    with EnvWorkers("threads") as workers, EnvPool(HARD_ENV, {"meets_in": str(tmp_path)}, workers) as pool:
        seat = await pool.seat()
        await reset(seat)
        stepping = asyncio.create_task(step(seat, "maple"))
        await asyncio.sleep(0.05)
        (tmp_path / "the loop").touch()
        assert (await stepping).terminated
        pool.leave(seat)


async def test_while_the_cost_is_unknown_one_episode_plays():
    with EnvWorkers("auto") as workers, EnvPool(WORD_ENV, {}, workers) as pool:
        pilot = await pool.seat()
        others = [asyncio.create_task(pool.seat()) for _ in range(3)]
        await reset(pilot)
        await asyncio.sleep(0)
        assert not any(other.done() for other in others)
        await step(pilot, "oak")
        assert {(await other).place for other in others} == {Place.LOOP}


async def test_a_pilot_that_fails_hands_over_to_the_next():
    with EnvWorkers("auto") as workers, EnvPool(HARD_ENV, {}, workers) as pool:
        policy = guesses("raise")
        failed = await rollout(pool, policy).all(planned(TASK, 3))
        assert {t.error.split(" (")[0] for t in failed} == {f"{HARD_ENV} failed at step: LookupError: no such page"}
        whole = await rollout(pool, guesses("maple")).all(planned(TASK, 3))
        assert [t.reward for t in whole] == [1.0] * 3


@pytest.mark.parametrize("setting", ["threads", 2])
def test_an_env_that_raises_fails_its_episode_with_its_own_words(setting):
    played = play(HARD_ENV, {}, setting, guesses("raise"), 2)
    assert {t.ending for t in played} == {Ending.INFRASTRUCTURE}
    assert played[0].error.startswith(f"{HARD_ENV} failed at step: LookupError: no such page (envs.py:")
    assert played[0].messages[-1] == {"role": "assistant", "content": "raise"}


async def test_a_worker_that_dies_fails_its_episodes_and_is_replaced():
    with EnvWorkers(1) as workers, EnvPool(HARD_ENV, {}, workers) as pool:
        failed = await rollout(pool, guesses("die")).all(planned(TASK, 2))
        assert {t.ending for t in failed} == {Ending.INFRASTRUCTURE}
        assert "the worker process of the env has ended (exit status 7) at step" in {t.error for t in failed}
        (whole,) = await rollout(pool, guesses("maple")).all(planned(TASK, 1))
        assert (whole.error, whole.reward) == ("", 1.0)


def test_an_env_of_a_users_file_is_registered_in_the_workers():
    module = "examples/guess_number.py"
    from grpo.machine.user_code import import_user_module

    import_user_module(module)
    played = play("GuessNumber-v0", {}, 1, dice("5", "50", "70"), 2, module=module, task=Task(3))
    assert [t.error for t in played] == ["", ""]


def test_an_env_that_only_this_process_knows_is_refused_or_stays():
    class Local(WordEnv):
        def step(self, action):
            began = time.thread_time()
            while time.thread_time() - began < 0.02:
                pass
            return super().step(action)

    def stays():
        lines = []
        whole = play("tests/Local-v0", {}, "auto", guesses("oak", "pine", "maple"), 4, say=lines.append)
        assert [t.reward for t in whole] == [1.0] * 4
        return any(line.startswith("envs stay in this process, where a slow one") for line in lines)

    gymnasium.register("tests/Local-v0", entry_point=Local)
    try:
        policy = guesses("oak", "pine", "maple")
        said = r"^in a worker process: no env with the id 'tests/Local-v0' could be made.* with env_workers 0"
        with pytest.raises(EnvError, match=said):
            play("tests/Local-v0", {}, 1, policy, 1)
        assert any(stays() for _ in range(5)) or not TELLS_WAITS  # as above
    finally:
        del gymnasium.registry["tests/Local-v0"]
    with pytest.raises(EnvError, match=f"^the arguments of {HARD_ENV} cannot be sent to a worker process: "):
        play(HARD_ENV, {"tool": threading.Lock()}, 1, policy, 1)


HANGING = """
import asyncio, sys
from grpo.envs.pool import EnvPool
from grpo.envs.workers import EnvWorkers
from grpo.types import Task

async def main():
    with EnvWorkers(int(sys.argv[1]) if sys.argv[1].isdigit() else sys.argv[1]) as workers:
        with EnvPool("tests.support.envs:Hard-v0", {}, workers) as pool:
            seats = [await pool.seat() for _ in range(2)]
            for seat in seats:
                await seat.run(lambda: seat.env.reset(Task(0, "train-maple")))
                await seat.run(lambda: seat.env.step("child"))
            print("ready", flush=True)
            await asyncio.gather(*(seat.run(lambda env=seat.env: env.step("hang")) for seat in seats))

asyncio.run(main())
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_and_nothing_that_its_env_started_outlives_the_owner(end):
    command = [sys.executable, "-c", HANGING, "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=child_environment()) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"ready\n"
            started = family_of(owner.pid) - {owner.pid}
            assert len(started) == 4, "two workers and a sleeping program of each"
            owner.send_signal(end)
            wait_until(lambda: not running(started))
            owner.wait(60)
        finally:
            owner.kill()


async def test_an_episode_that_is_given_up_in_a_step_leaves_its_env_to_nobody():
    with EnvWorkers(1) as workers, EnvPool(HARD_ENV, {"waits": 0.3}, workers) as pool:
        playing = asyncio.create_task(rollout(pool, guesses("oak")).all(planned(TASK, 1)))
        await asyncio.sleep(0.15)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        seat = await pool.seat()
        assert (await reset(seat)).messages[0]["content"] == "Guess the word."
        pool.leave(seat)


def test_no_worker_is_started_for_an_episode_that_was_given_up_before_the_end():
    workers = EnvWorkers(1)
    workers.close()
    with pytest.raises(EnvError, match="the envs of this program were closed"):
        workers.make(WORD_ENV, {}, Place.PROCESSES)
