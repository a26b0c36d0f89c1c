"""Who waits for something that does not move is named once, with what helps, and again when it goes on."""

import json
import subprocess
import sys
import threading
import time

import pytest

from grpo.watch import FILE_NAME, Part, Waiting, Watchdog, computed
from tests.support.wait import wait_until


@pytest.fixture(autouse=True)
def little_patience(monkeypatch):
    monkeypatch.setattr("grpo.watch.PATIENCE_SECONDS", 0.4)


def test_what_does_not_come_back_is_named_with_its_time_and_its_remedy_and_said_to_go_on(tmp_path):
    told = []
    with Watchdog(told.append, tmp_path):
        with Waiting(Part.ENV, "Chess-v0, step of seed-3", "give it a worker"), Waiting(Part.ENV, "another"):
            wait_until(lambda: told)
            time.sleep(0.3)
        wait_until(lambda: len(told) == 2)
    assert told[0] == "env: Chess-v0, step of seed-3 has not moved for 0 s, and 1 more; give it a worker"
    assert told[1] == "env: Chess-v0, step of seed-3 is waited for no longer, after 1 s"


def test_what_moves_or_is_quick_is_not_named(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo.watch.PATIENCE_SECONDS", 3.0)
    told = []
    with Watchdog(told.append, tmp_path), Waiting(Part.SERVER, "requests") as waiting:
        for _ in range(20):
            time.sleep(0.2)
            waiting.moves()
            with Waiting(Part.JUDGE, "a verdict"):
                pass
    assert not told


def test_who_holds_the_loop_is_named_alone_for_nothing_else_can_move_meanwhile(tmp_path):
    told = []
    with Watchdog(told.append, tmp_path), Waiting(Part.SERVER, "requests") as requests:
        time.sleep(0.2)
        with Waiting(Part.ENV, "a step", holds_all=True):
            wait_until(lambda: told)
            time.sleep(0.3)
        assert time.monotonic() - requests.moved < 0.6, "of 0.9 s and more it was held up for all but 0.2"
        wait_until(lambda: len(told) == 3)
    assert [line.split(" has ")[0] for line in told] == [
        "env: a step",
        f"env: a step is waited for no longer, after {told[1].split()[-2]} s",
        "server: requests",
    ]


def test_short_holds_of_the_loop_hide_nobody_who_stands_still(tmp_path):
    told = []
    with Watchdog(told.append, tmp_path), Waiting(Part.JUDGE, "a verdict"):
        until = time.monotonic() + 10
        while not told and time.monotonic() < until:
            with Waiting(Part.ENV, "a step", holds_all=True):
                time.sleep(0.02)
    assert told
    assert told[0].startswith("judge: a verdict has not moved")


def test_who_computes_moves_and_who_waits_for_others_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo.watch.COMPUTED_SECONDS", 0.02)
    monkeypatch.setattr("grpo.watch.PATIENCE_SECONDS", 2.0)
    told = []
    with Watchdog(told.append, tmp_path), Waiting(Part.LEARNER, "an update of 8 rows", pulse=computed):
        until = time.process_time() + 3.0
        while time.process_time() < until:
            pass
        assert not told
        monkeypatch.setattr("grpo.watch.COMPUTED_SECONDS", 60.0)  # the watchdog computes a little itself
        wait_until(lambda: told)
    assert told[0].startswith("learner: an update of 8 rows has not moved for")


def test_a_disk_that_does_not_answer_is_named_and_so_is_who_waits_beside_it(tmp_path, monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr("grpo.watch.write_json", lambda *_: answers.wait())  # as a network's file system that is lost
    told = []
    with Watchdog(told.append, tmp_path), Waiting(Part.ENV, "a step"):
        wait_until(lambda: len(told) == 2)
        answers.set()
        wait_until(lambda: len(told) == 3)
    assert sorted(line.split(" has ")[0] for line in told[:2]) == [
        f"disk: writing {tmp_path / FILE_NAME}",
        "env: a step",
    ]
    assert told[2].startswith(f"disk: writing {tmp_path / FILE_NAME} is waited for no longer")


def test_what_moved_again_is_named_again_when_it_stands_still_again(tmp_path):
    told = []
    with Watchdog(told.append, tmp_path), Waiting(Part.JUDGE, "a verdict") as waiting:
        wait_until(lambda: len(told) == 1)
        waiting.moves()
        wait_until(lambda: len(told) == 3)
    assert [line.split(" has ")[0].split(", after ")[0] for line in told] == [
        "judge: a verdict",
        "judge: a verdict goes on",
        "judge: a verdict",
    ]


def test_the_file_says_who_is_waited_for_as_long_as_the_watchdog_runs(tmp_path):
    path = tmp_path / FILE_NAME
    with Watchdog(lambda line: None, tmp_path), Waiting(Part.REWARD, "mine:reward"):
        wait_until(path.exists)
        found = json.loads(path.read_text())["parts"]
    assert list(found) == ["reward function"]
    assert found["reward function"] == found["reward function"] | {"doing": "mine:reward", "waiting": 1}
    assert not path.exists()


@pytest.mark.parametrize(("end", "status"), [("os._exit(3)", 3), ("ctypes.string_at(0)", -11)])
def test_code_that_ends_the_process_is_told_by_another_with_what_was_waited_for(tmp_path, end, status):
    program = f"""
import ctypes, os, sys, time
from pathlib import Path
from grpo import watch
watch.WRITE_SECONDS = watch.LOOK_SECONDS = 0.1
with watch.Watchdog(print, Path(sys.argv[1])), watch.Waiting(watch.Part.REWARD, "mine:reward"):
    while not Path(sys.argv[1], watch.FILE_NAME).exists():
        time.sleep(0.05)
    {end}
"""
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert ended.returncode == status
    assert "The process has ended without a word." in ended.stderr
    assert "it waited for the reward function: mine:reward" in ended.stderr
    assert ("Segmentation fault" in ended.stderr) == (status == -11)


def test_a_process_that_ends_by_itself_or_by_an_error_has_said_what_there_is_to_say(tmp_path):
    program = "import sys; from pathlib import Path; from grpo.watch import Watchdog\n"
    program += "with Watchdog(print, Path(sys.argv[1])): sys.exit('a word')"
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "a word\n")


def test_an_end_that_ctrl_c_interrupts_is_no_end_without_a_word(tmp_path, monkeypatch, capfd):
    def interrupted():
        raise KeyboardInterrupt

    dog = Watchdog(print, tmp_path).__enter__()
    teller = dog._end
    assert teller is not None
    monkeypatch.setattr(dog._thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dog.close()
    monkeypatch.undo()
    dog._thread.join()
    assert (teller.poll(), capfd.readouterr().err) == (0, "")
