"""The loop in which judges are asked, and Ctrl-C while one is asked, in programs of their own."""

import asyncio
import multiprocessing
import signal
import subprocess
import sys
import threading

import pytest

from judges.llm.loop import STOPPED, in_one_loop, run_sync
from tests import ROOT

GROUP = """
import asyncio, multiprocessing, os, signal, threading, time
import judges
from tests.support.judge_server import JudgeServer, Reply, score_by
from tests.support.wait import wait_until

group = [[{"role": "user", "content": "q"}, {"role": "assistant", "content": text}] for text in "ab"]
"""
ASK = """
def press():
    wait_until(lambda: server.requests)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)

def ask():
    judges.score(group, "openai/o4-mini", api_base=server.url)

with JudgeServer(lambda messages: Reply(delay_seconds=300)) as server:
    threading.Thread(target=press, daemon=True).start()
"""


def run(program, *options):
    command = [sys.executable, *options, "-c", GROUP + program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_a_program_ends_by_the_signal_and_nothing_of_litellm_is_told():
    ended = run(ASK + "    ask()\n")
    assert (ended.stdout, ended.returncode) == ("", -signal.SIGINT), "so that a loop of a shell ends too"
    assert ended.stderr.startswith("Traceback")
    assert ended.stderr.endswith("\nKeyboardInterrupt\n")
    assert "litellm" not in ended.stderr
    assert ended.stderr.count("Traceback") == 1


def test_a_command_ends_with_one_line(tmp_path):
    labelled = tmp_path / "labelled.jsonl"
    labelled.write_text('{"trajectories": [[{"role": "user", "content": "a"}]], "labels": [1]}')
    ended = run(f"""{ASK}
    from judges.cli import main
    main(["calibrate", {str(labelled)!r}, "--judge-model", "openai/m", "--judge-api-base", server.url])
""")
    assert (ended.stdout, ended.stderr.strip(), ended.returncode) == ("", STOPPED, 130)


def test_threads_and_forks_that_ask_at_the_same_time_print_nothing_of_litellms():
    ended = run("""
def ask(first):
    for seed in range(first, first + 10):
        assert judges.score(group, "openai/o4-mini", api_base=url, seed=seed)[0].score == 0.5
    return first

with JudgeServer(score_by(lambda messages: (0.5, "why"))) as server:
    url = server.url
    threads = [threading.Thread(target=ask, args=(100 * number,)) for number in range(8)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(ask, (1000, 2000)) == [1000, 2000]
""")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_many_calls_one_after_another_leave_nothing_open_and_print_nothing():
    program = """
with JudgeServer(score_by(lambda messages: (0.5, "why"))) as server:
    for seed in range(230):
        judges.score(group, "openai/o4-mini", api_base=server.url, seed=seed)
        if seed == 20:
            open_before = len(os.listdir("/proc/self/fd"))
    assert len(os.listdir("/proc/self/fd")) <= open_before + 2
"""
    ended = run(program, "-W", "always::ResourceWarning")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_in_a_notebook_it_ends_too_and_does_not_wait_for_the_judge():
    """ipykernel lets Ctrl-C interrupt the cell while its loop is running."""
    ended = run(
        ASK
        + """
    async def cell():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            ask()
        except KeyboardInterrupt:
            print("stopped")
    asyncio.run(cell())
"""
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("stopped\n", "", 0)


def test_a_callback_of_a_judgement_may_ask_for_another_one_and_a_forked_process_too():
    async def inner():
        return "inner"

    async def outer():
        return run_sync(inner())

    assert run_sync(outer()) == "inner"
    process = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(run_sync(inner()) != "inner"))
    process.start()
    process.join(120)
    assert process.exitcode == 0


async def thread_name(delay=0.0):
    await asyncio.sleep(delay)
    return threading.current_thread().name


def test_calls_from_every_loop_run_in_the_same_thread_and_raise_what_they_raise():
    async def fail():
        raise ValueError("seen 3")

    assert [asyncio.run(in_one_loop(thread_name())) for _ in range(2)] == ["judges"] * 2
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

    assert asyncio.run(call()) == "judges", "the loop goes on"


def test_a_program_that_ends_while_the_loop_imports_does_not_wait_forever(tmp_path):
    """litellm imports a module where its handlers are destroyed, which is after the threads were stopped."""
    (tmp_path / "slow.py").write_text("import time; time.sleep(1)")
    ended = run(f"""
import sys
from judges.llm import loop

class Handler:
    def __del__(self):
        import slow

sys.path.append({str(tmp_path)!r})
loop._shared.get().call_soon_threadsafe(__import__, "slow")
time.sleep(0.3)
handler = Handler()
""")
    assert (ended.stdout, ended.returncode) == ("", 0)
