"""Where the envs of an evaluation are called: slow ones do not hold up other episodes, and nothing else depends on it."""

import json
import os
import sys

import pytest

from grpo.envs import own_thread
from tests.support.agents import MCP_AGENT, ended, late, stay_anew
from tests.support.envs import HARD_ENV, SUMS_ENV
from tests.support.evaluations import evaluated, refused, rows, run
from tests.support.machine import needs_waits_told
from tests.support.model_server import ModelServer, sums

HERE = "tests.support.agents"


@pytest.fixture
def agents(tmp_path):
    """One agent of each kind that finds sums; the text of ``--agent`` by its kind."""
    pytest.importorskip("mcp", reason="tools over MCP need the extra 'eval'")
    (tmp_path / "agent.py").write_text(MCP_AGENT)
    answers = [{"scenario_id": f"sum/{number}", "answer": str(2 * number)} for number in range(4)]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    with ModelServer(sums) as server:
        yield {
            "scripted": "wrong",
            "file": f"file:{tmp_path / 'answers.jsonl'}",
            "function": f"{HERE}:by_tool",
            "async function": f"{HERE}:by_tool_async",
            "tool loop": f"openai:m@{server.url}",
            "program": f"cmd:{sys.executable} {tmp_path / 'agent.py'} {{question}}",
        }


KINDS = ["scripted", "file", "function", "async function", "tool loop", "program"]


@pytest.mark.parametrize(("kind", "place"), [(kind, "threads") for kind in KINDS] + [(kind, "2") for kind in KINDS[1:]])
def test_envs_wait_at_the_same_time_whoever_plays(tmp_path, agents, kind, place):
    folder = tmp_path / "met"
    folder.mkdir()
    arguments = ("--agent", agents[kind], "--env-workers", place, "--concurrency", "2", "--out", str(tmp_path / "run"))
    shown = run(*arguments, env=SUMS_ENV, count=2, meets_in=str(folder))
    assert shown.exit_code == 0, shown.output
    assert [(row["ending"], row["error"]) for row in rows(tmp_path / "run")] == [("answered", "")] * 2
    processes = {name.partition("-")[0] for name in os.listdir(folder)}
    assert len(processes) == (1 if place == "threads" else 2)


def played(out, *arguments, **options):
    """Rows and transcripts of an evaluation, without what is measured."""
    found, shown = evaluated(out, *arguments, **options)
    assert shown.exit_code == 0, shown.output
    dropped = {"began", "seconds", "calls", "messages", "tools"}
    kept = [{name: value for name, value in row.items() if name not in dropped} for row in found]
    return kept, [(row["tools"], _without_ids(row["messages"])) for row in found]


def _without_ids(messages):
    """A model's server numbers its calls in the order in which they come."""
    return [{name: value for name, value in message.items() if "tool_call" not in name} for message in messages]


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_the_same_wherever_envs_are_called(tmp_path, agents, kind):
    places = ["0", "threads", "auto", "2"][: 3 if kind == "scripted" else 4]
    arguments = ("--agent", agents[kind], "-k", "2", "--concurrency", "3")
    found = [played(tmp_path / place, *arguments, "--env-workers", place, count=2) for place in places]
    assert all(each == found[0] for each in found)
    assert [row["ending"] for row in found[0][0]] == ["answered"] * 4
    assert len({row["seed"] for row in found[0][0]}) == 4
    assert {row["reward"] for row in found[0][0]} == {0.0, 1.0}


def test_an_env_with_a_database_is_the_same_in_threads(tmp_path):
    pytest.importorskip("email_env")
    arguments = ("--agent", "bm25", "--limit", "12", "--concurrency", "4")
    here, there = (
        played(tmp_path / place, *arguments, "--env-workers", place, env="EmailSearch-v0") for place in ("0", "threads")
    )
    assert here == there
    assert all(row["turns"] > 1 for row in here[0])


def alike(lines, said):
    """Whether there are as many lines, each with its part."""
    return len(lines) == len(said) and all(part in line for part, line in zip(said, lines, strict=True))


@pytest.mark.parametrize(
    ("agent", "kwargs", "said"),
    [
        (f"{HERE}:maple", {}, []),
        (f"{HERE}:maple", {"waits": 0.05}, ["in a thread each"]),
        pytest.param(f"{HERE}:maple", {"computes": 0.05}, ["in 2 worker processes"], marks=needs_waits_told),
        ("oracle", {"computes": 0.05}, ["in a thread each"]),
    ],
)
def test_what_a_step_takes_says_where_envs_go(tmp_path, monkeypatch, agent, kwargs, said):
    monkeypatch.setattr("grpo.envs.workers.cpu_count", lambda: 2)

    def places(out):
        arguments = ("-k", "3", "--concurrency", "3", "--out", str(out))
        shown = run("--agent", agent, *arguments, env=HARD_ENV, **kwargs)
        return [line.partition("are called ")[2] for line in shown.stderr.splitlines() if "envs are called" in line]

    tries = []
    while len(tries) < 5 and not (tries and alike(tries[-1], said)):  # the host may take a core away: once more
        tries.append(places(tmp_path / str(len(tries))))
    assert alike(tries[-1], said), tries
    found = rows(tmp_path / str(len(tries) - 1))
    assert [row["ending"] for row in found] == ["answered" if row["correct"] else "no_answer" for row in found]


def test_agents_that_take_long_for_their_first_step_do_not_wait_for_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo.eval.request.PATIENCE_SECONDS", 0.1)
    shown = run("--agent", f"{HERE}:by_appointment", "--out", str(tmp_path), count=2)
    assert shown.exit_code == 0, shown.output
    assert [(row["ending"], row["error"]) for row in rows(tmp_path)] == [("answered", "")] * 2


def test_an_env_that_hangs_in_a_thread_of_its_own_fails_its_episode_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(own_thread, "STUCK_SECONDS", 3.0)
    arguments = ("--env-workers", "threads", "-k", "2", "--concurrency", "4", "--out", str(tmp_path))
    shown = run("--agent", f"{HERE}:hanging_at_quartz", *arguments, env=HARD_ENV)
    assert shown.exit_code == 3
    found = {(row["scenario_id"], row["ending"], row["error"]) for row in rows(tmp_path)}
    assert ("train-quartz", "infrastructure", "an env has been in one call for 3 s and does not come back") in found
    assert {ending for name, ending, _ in found if name != "train-quartz"} == {"answered", "no_answer"}


@pytest.mark.parametrize("place", ["0", "threads", "1"])
def test_an_agent_left_behind_reaches_no_episode_any_more(tmp_path, place):
    stay_anew()
    arguments = ("--timeout", "0.1", "--concurrency", "1", "--env-workers", place, "--out", str(tmp_path))
    run("--agent", f"{HERE}:staying", *arguments, count=2)
    assert rows(tmp_path)[0]["turns"] == 0
    assert ended.wait(60)
    assert late == ["the episode is closed"]


def test_an_evaluation_goes_on_with_its_envs_elsewhere(tmp_path):
    out = str(tmp_path / "run")
    assert run("--agent", "oracle", "--out", out, "--env-workers", "threads", count=2).exit_code == 0
    lines = (tmp_path / "run" / "results.jsonl").read_text().splitlines()
    (tmp_path / "run" / "results.jsonl").write_text(lines[0] + "\n")
    assert run("--agent", "oracle", "--out", out, "--env-workers", "0", "--resume", count=2).exit_code == 0
    assert len(rows(tmp_path / "run")) == 2


NO_PLACE = "no place for envs; choose auto, threads, or a number"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        *((wrong, NO_PLACE) for wrong in ("-1", "process", "1.5", "")),
        ("2", "Error: --env-workers 2: 'oracle' is made from the env itself, which then cannot live in a worker"),
    ],
)
def test_a_place_where_the_env_cannot_be_is_refused(tmp_path, place, said):
    assert said in refused(tmp_path, "--agent", "oracle", f"--env-workers={place}")
