"""Envs that never end, or end otherwise than they should, and that no agent can be stopped by."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from grpo.envs import own_thread, pool
from tests import ROOT
from tests.support.envs import ENDLESS_ENV
from tests.support.evaluations import evaluated, refused, rows, run
from tests.support.wait import wait_until

AGENTS = ["walker", "tests.support.agents:walking", "tests.support.agents:walking_async"]


@pytest.mark.parametrize(
    ("seconds", "turns", "ending", "error"),
    [
        ("1", 1_000_000_000, "timeout", "no answer within 1 s"),
        ("4", 11, "max_turns", "cut after 11 turns, which the env had not ended (--max-turns)"),
    ],
    ids=["timeout", "max turns"],
)
@pytest.mark.parametrize("agent", AGENTS)
def test_an_episode_that_never_ends_is_stopped_by_its_limits(tmp_path, agent, seconds, turns, ending, error):
    # One after the other: two that loop without a pause hold the interpreter's lock against each other.
    limits = ("--timeout", seconds, "--max-turns", str(turns), "--limit", "2", "--concurrency", "1")
    found, shown = evaluated(tmp_path, "--agent", agent, *limits, env=ENDLESS_ENV)
    assert shown.exit_code == 0, shown.output
    assert [(row["ending"], row["error"]) for row in found] == [(ending, error)] * 2
    assert found[0]["turns"] > 10


def test_there_is_a_cap_of_turns_without_asking_for_one(tmp_path):
    (row,), _ = evaluated(tmp_path, "--agent", "walker", "--limit", "1", env=ENDLESS_ENV)
    assert row["turns"] == 1000
    assert json.loads((tmp_path / "config.json").read_text())["max_turns"] == 1000


def started(tmp_path, agent, *arguments, turns="10000000", **options):
    """An evaluation as a program of its own."""
    command = [sys.executable, "-m", "grpo", "eval", "--env", ENDLESS_ENV, "--agent", agent, "--max-turns", turns]
    command += ["--out", str(tmp_path / "run"), *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, **options,
    )  # fmt: skip


def interrupted(process, tmp_path):
    """What an evaluation that has begun says of a SIGINT, to its end."""
    wait_until(lambda: (tmp_path / "run" / "results.jsonl").exists() or process.poll() is not None)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=300)[1]
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("agent", "how", "place"),
    [(agent, how, "auto") for agent in AGENTS for how in ("", "hangs")]
    + [(AGENTS[0], "hangs", "threads"), (AGENTS[1], "hangs", "threads"), (AGENTS[1], "hangs", "1")],
)
def test_the_first_ctrl_c_ends_an_evaluation_that_never_ends(tmp_path, agent, how, place):
    arguments = ("--limit", "2", "--env-kwargs", json.dumps({"how": how}), "--env-workers", place)
    process = started(tmp_path, agent, *arguments)
    stderr = interrupted(process, tmp_path)
    assert process.returncode == 130, stderr
    assert "Stopped. Finished episodes are kept; the same command with --resume plays what is missing." in stderr
    assert "Traceback" not in stderr


def test_an_evaluation_in_the_background_plays_on_at_ctrl_c(tmp_path):
    def ignoring():  # as a shell starts `grpo-eval ... &`
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = started(tmp_path, "walker", "--limit", "1", "--timeout", "4", preexec_fn=ignoring)
    stderr = interrupted(process, tmp_path)
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert [row["ending"] for row in rows(tmp_path / "run")] == ["timeout"]


def test_an_env_that_does_not_come_back_from_a_call_fails_its_episode_and_the_next_one_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(own_thread, "STUCK_SECONDS", 0.5)
    monkeypatch.setattr(pool, "CLOSING_SECONDS", 0.1)
    arguments = ("--limit", "2", "--timeout", "1.5", "--out", str(tmp_path))
    shown = run("--agent", "tests.support.agents:walking", *arguments, env=ENDLESS_ENV, how="hangs")
    assert shown.exit_code == 3
    said = "an env has been in one call for 0.5 s and does not come back"
    assert [(row["ending"], row["error"]) for row in rows(tmp_path)] == [("infrastructure", said)] * 2


@pytest.mark.parametrize(
    ("agent", "how", "said"),
    [
        *((agent, "leaves", "SystemExit: no more road") for agent in AGENTS),
        (AGENTS[1], "interrupts", "KeyboardInterrupt"),
    ],
)
def test_an_env_that_would_end_the_process_has_failed_and_not_the_agent(tmp_path, agent, how, said):
    arguments = ("--agent", agent, "--limit", "1", "--timeout", "60")
    (row,), shown = evaluated(tmp_path, *arguments, env=ENDLESS_ENV, how=how)
    assert (row["ending"], shown.exit_code) == ("infrastructure", 3)
    assert f"{ENDLESS_ENV} failed at step: {said} (envs.py:" in row["error"]


@pytest.mark.parametrize(
    ("env", "how", "said"),
    [
        (ENDLESS_ENV, "close", f"Error: {ENDLESS_ENV} failed at close: RuntimeError: no such window (envs.py:"),
        ("LunarLander-v3", None, "Error: LunarLander-v3 cannot be loaded: DependencyNotInstalled: Box2D"),
        ("Ant-v5", None, "Error: Ant-v5 cannot be loaded: "),
        (ENDLESS_ENV, "print", f"Error: {ENDLESS_ENV}.fingerprint() gives 7; a fingerprint is a dict of names"),
        (ENDLESS_ENV, "prints", f"Error: {ENDLESS_ENV} failed at fingerprint: OSError: no ink (envs.py:"),
    ],
)
def test_an_env_that_cannot_be_used_is_one_line(tmp_path, env, how, said):
    kwargs = {} if how is None else {"how": how}
    output = refused(tmp_path, "--agent", "walker", env=env, **kwargs)
    assert output.startswith(said)
    assert output.count("\n") == 1


@pytest.mark.parametrize("workers", ["0", "threads"])
def test_an_env_that_raises_when_it_is_closed_at_the_end_takes_no_result_with_it(tmp_path, workers):
    arguments = ("--limit", "3", "--max-turns", "2", "--env-workers", workers, "--out", str(tmp_path))
    shown = run("--agent", "walker", *arguments, env=ENDLESS_ENV, how="close later")
    assert shown.exit_code == 0, shown.output
    assert json.loads((tmp_path / "summary.json").read_text())["endings"] == {"max_turns": 3}


def test_what_an_agent_leaves_in_a_thread_does_not_keep_the_command_from_its_end(tmp_path):
    process = started(tmp_path, "tests.support.agents:in_a_thread", "--limit", "1", "--timeout", "0.5", turns="1000")
    stderr = process.communicate(timeout=300)[1]
    assert process.returncode == 0, stderr
    assert rows(tmp_path / "run")[0]["ending"] == "timeout"


def test_samples_of_a_scenario_that_begin_otherwise_stop_the_evaluation(tmp_path):
    shown = run("--agent", "walker", "--limit", "2", "-k", "2", "--out", str(tmp_path), env=ENDLESS_ENV, how="begins")
    assert shown.exit_code == 1
    assert f"Error: {ENDLESS_ENV} begins sample 1 of 'seed-" in shown.output
    seed = re.search(r"of 'seed-(\d+)' with another prompt", shown.output)[1]
    assert f"than the sample before; the same seed ({seed}) and scenario must give the same one" in shown.output
    once = run("--agent", "walker", "--limit", "2", "--out", str(tmp_path / "one"), env=ENDLESS_ENV, how="begins")
    assert once.exit_code == 0


def test_a_policy_that_gives_no_text_is_the_policys_mistake(tmp_path):
    (row,), _ = evaluated(tmp_path, "--agent", "mute", "--limit", "1", env=ENDLESS_ENV)
    assert row["ending"] == "agent_crash"
    assert row["error"] == "TypeError: the policy 'mute' gives the action None; an action is a text"
