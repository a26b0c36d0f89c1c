"""docs/your-mail.md, done from the top on the mailbox that the page makes: real files, servers on real sockets."""

import importlib.util
import json
import re
import runpy
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from email_env.scenarios.sets import load_scenarios
from tests import ROOT
from tests.email_env.make_scenarios.parts import FINE, shown
from tests.support.commands import COMMANDS
from tests.support.judge_server import JudgeServer
from tests.support.model_server import ModelServer

PAGE = (ROOT / "docs/your-mail.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
LINES = [line[2:] for kind, body in BLOCKS if kind == "console" for line in body.splitlines()]
TEXTS = [body for kind, body in BLOCKS if kind == "text"]
URL = "http://127.0.0.1:8000/v1"


def run(line):
    name, *arguments = shlex.split(line)
    result = CliRunner().invoke(COMMANDS[name], arguments)
    assert result.exit_code == 0, f"{line}\n{result.output}"
    return result


def beginning(*starts):
    """The page's command that begins so."""
    (line,) = [line for line in LINES if line.startswith(starts[0]) and all(part in line for part in starts[1:])]
    return line


@pytest.fixture
def mailbox(tmp_path, monkeypatch):
    """A folder with the made-up mailbox, and the database of the page's first build."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    script = shlex.split(LINES[0])[2]

    runpy.run_module(script, run_name="__main__")
    return run(beginning("build-enron-db", "--report"))


def author(data):
    """A question about the first amount, number or code of a mail; none about a mail without one."""
    found = re.search(r"\$?\b\d[\d,]{2,}\b|\b[A-Z]{2}-\d+\b", data["body"])
    if not found or found[0] in data["subject"]:
        return {"question": ""}
    words = " ".join(re.sub(r"\W", " ", data["subject"]).split()[:6])
    return {
        "question": f"Which figure was given about {words}?",
        "answer": found[0],
        "kind": "number",
        "difficulty": "easy",
    }


def write(data):
    return json.dumps(FINE if "question" in data else author(data))


def play(messages, _tools):
    """A model that searches for a word of the question, reads the first hit and answers with a figure of it."""
    last = messages[-1]["content"]
    if messages[-1]["role"] == "user":
        return {"calls": [("search_inbox", {"keywords": [last.rstrip("?").split()[-1]]})]}
    if "Date: " in last and (figure := re.search(r"\$?\d[\d,]{2,}", last.partition("\n\n")[2])):
        return {"calls": [("return_final_answer", {"answer": figure[0], "sources": []})]}
    first = re.match(r"\S+@\S+", last.splitlines()[-1])
    if first and "Date: " not in last:
        return {"calls": [("read_email", {"message_id": first[0]})]}
    return {"calls": [("return_final_answer", {"answer": "I don't know", "sources": []})]}


def test_the_made_up_mailbox_becomes_a_database_that_knows_its_owner(mailbox):
    assert [line for line in TEXTS[0].splitlines() if line not in mailbox.output.splitlines()] == []
    assert Path("data/skipped.jsonl").read_text() == ""
    run(beginning("build-enron-db", "--report").replace("--owner hanno.vaclav@halden.com,hanno@vaclav.example", ""))


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="an LLM needs litellm (extra 'judge')")
def test_the_page_goes_from_a_mailbox_to_evaluations_of_agents(mailbox):
    with JudgeServer(lambda messages: write(shown(messages))) as llm:
        run(beginning("make-scenarios", "gpt-5-mini") + f" --api-base {llm.url}")
        run(beginning("make-scenarios", "qwen3").replace(URL, llm.url))
    made = load_scenarios("questions.jsonl")
    assert {scenario.split for scenario in made} == {"train", "validation", "test"}
    assert {scenario.inbox for scenario in made} == {"hanno.vaclav@halden.com"}
    assert len(made) > 10
    by_hand = TEXTS[1]
    assert len([json.loads(line) for line in by_hand.splitlines()]) == 3
    with open("questions.jsonl", "a", encoding="utf-8") as file:
        file.write(by_hand)
    built = run(beginning("build-enron-db", "--scenarios"))
    assert f"questions {len(made) + 3}\n" in built.output
    assert "left out" not in built.output
    oracle = run(beginning("grpo-eval", "oracle"))
    assert re.search(r"Correct +100\.0 %", oracle.output)
    run(beginning("grpo-eval", "evals/bm25"))
    with ModelServer(play) as model:
        run(beginning("grpo-eval", "--agent openai:").replace(URL, model.url))
        assert model.requests
    assert "Correct" in run(beginning("grpo-compare", "evals/qwen3")).output
    run(beginning("grpo-view", "evals/qwen3"))


@pytest.mark.vllm
def test_the_page_trains_a_policy_and_evaluates_it(mailbox, vllm_server):
    """The page's command for the CPU with a single small step; its questions are those of the demo's own mail."""
    from email_env import demo

    with open("questions.jsonl", "w", encoding="utf-8") as file:
        scenarios = demo.generate().scenarios
        for number, scenario in enumerate(one for one in scenarios if one.inbox == scenarios[0].inbox):
            values = scenario.to_dict()
            ids = {old: f"{old}@halden.com" for old in scenario.message_ids}
            plan = [[tool, [ids.get(word, word) for word in words]] for tool, words in values["plan"]]
            values |= {"message_ids": list(ids.values()), "plan": plan, "split": "test" if number % 4 == 3 else "train"}
            file.write(json.dumps(values) + "\n")
    run(beginning("build-enron-db", "--scenarios"))
    small = (
        "--steps 1 --set warm_start.steps=1 --set rollout.groups_per_step=1 --set rollout.group_size=2 "
        "--set eval.scenarios=1 --set eval.greedy=0 "
        f"--set rollout.max_turn_tokens=24 --server {vllm_server.url}"
    )
    run(f"{beginning('grpo-train', 'email-cpu')} {small}")
    played = run(beginning("grpo-eval", "policy:runs/mine").replace("runs/mine", "runs/small") + " --limit 2")
    assert "Correct" in played.output
    run(
        beginning("grpo-eval", "evals/script")
        .replace("email-gpu", "email-cpu")
        .replace('.db"', '.db", "difficulties": null')
        + " --limit 2"
    )
    assert "Correct" in run(beginning("grpo-compare", "evals/script")).output
