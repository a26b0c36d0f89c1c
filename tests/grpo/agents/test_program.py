"""Door 3: programs as agents, and the env's tools over MCP."""

import sys

import pytest

from tests.support.agents import MCP_AGENT
from tests.support.evaluations import evaluated, run
from tests.support.model_server import ModelServer, in_order
from tests.support.sessions import running
from tests.support.wait import wait_until

pytest.importorskip("mcp", reason="tools over MCP need the extra 'eval'")


def played(tmp_path, source, words="", *arguments, **env_kwargs):
    """What a program of this source, called with these words, comes to."""
    path = tmp_path / "agent.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)
    agent = f"cmd:{sys.executable} {path} {words}"
    return evaluated(tmp_path / "run", "--agent", agent, *arguments, **env_kwargs)


def test_all_that_it_prints_is_the_answer_and_the_question_is_one_argument(tmp_path):
    source = "import sys\nprint()\nprint(2 * int(sys.argv[1].split()[2]))\nprint()\nassert len(sys.argv) == 2"
    found, _ = played(tmp_path, source, "{question}", count=3)
    assert [(row["answer"], row["implicit"]) for row in found] == [("0", True), ("2", True), ("4", True)]
    text = "50 %\r\n4 \u2028of \x0c8 \x85mails"
    (row,), _ = played(tmp_path / "b", f"import sys\nsys.stdout.buffer.write({text!r}.encode())", "", count=1)
    assert row["answer"] == text


def test_what_it_writes_to_its_answer_file_counts_before_what_it_prints(tmp_path):
    source = "import os\nprint('thinking')\nopen(os.environ['AGENT_ANSWER_FILE'], 'w').write('0\\n')\nprint('done')"
    (row,), _ = played(tmp_path, source, "", count=1)
    assert (row["answer"], row["correct"]) == ("0", True)


def test_the_task_file_holds_question_instructions_and_tools(tmp_path):
    source = (
        "import json, os, sys\n"
        "task = json.load(open(sys.argv[1]))\n"
        "assert os.environ['AGENT_TASK_FILE'] == sys.argv[1]\n"
        "print(task['instructions'], task['question'], [tool['function']['name'] for tool in task['tools']])"
    )
    found, _ = played(tmp_path, source, "{task_file}", count=1)
    assert found[0]["answer"] == "You add. What is 0 + 0? ['double', 'return_final_answer']"


def test_a_program_does_not_learn_where_mail_and_questions_lie(tmp_path, monkeypatch):
    monkeypatch.setenv("EMAIL_ENV_SCENARIOS", str(tmp_path / "scenarios.jsonl"))
    source = "import os\nprint([name for name in os.environ if name.startswith('EMAIL_ENV')])"
    found, _ = played(tmp_path, source, count=1)
    assert found[0]["answer"] == "[]"


def test_a_program_that_fails_is_a_crash_and_says_so(tmp_path):
    found, _ = played(tmp_path, "import sys\nsys.exit('the disk is full')", count=1)
    assert (found[0]["ending"], found[0]["correct"]) == ("agent_crash", False)
    assert "exit status 1: the disk is full" in found[0]["error"]


def test_a_program_that_cannot_be_started_is_no_result_of_an_agent(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    shown = run("--agent", f"cmd:{program} {{question}}", "--out", str(tmp_path / "run"), count=1)
    assert shown.exit_code == 3
    assert f"the program '{program}' cannot be started" in shown.output


def test_at_its_time_limit_a_program_is_killed_with_its_children(tmp_path):
    source = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)"
    )
    found, _ = played(tmp_path, source, "", "--timeout", "5", count=1)
    assert found[0]["ending"] == "timeout"
    pids = set(map(int, (tmp_path / "pids").read_text().split()))
    wait_until(lambda: not running(pids))


def test_a_program_that_closes_its_outputs_may_still_end_in_its_own_time(tmp_path):
    found, _ = played(
        tmp_path, "import os, time\nprint(0, flush=True)\nos.close(1)\nos.close(2)\ntime.sleep(0.5)", count=1
    )
    assert (found[0]["ending"], found[0]["answer"], found[0]["error"]) == ("answered", "0", "")


@pytest.mark.parametrize("own_group", [False, True])
def test_a_child_that_outlives_its_program_holds_nothing_up(tmp_path, own_group):
    child = f"subprocess.Popen(['sleep', '20'], start_new_session={own_group})"
    found, _ = played(tmp_path, f"import subprocess\n{child}\nprint('0')", "", "--timeout", "15", count=1)
    assert (found[0]["answer"], found[0]["ending"]) == ("0", "answered"), found[0]["error"]


def test_last_words_are_no_action_of_a_plain_env(tmp_path):
    (row,), _ = played(tmp_path, "print('1')", "", "--limit", "1", env="FrozenLake-v1")
    assert (row["turns"], row["reward"], row["ending"]) == (0, 0.0, "no_answer")


def test_no_proxy_stands_between_a_program_and_its_endpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "intranet.example")
    monkeypatch.delenv("no_proxy", raising=False)
    source = (
        "import os, urllib.request\n"
        "spared = [urllib.request.proxy_bypass(host) for host in ('127.0.0.1', 'intranet.example', 'example.org')]\n"
        "print(os.environ['NO_PROXY'], os.environ['no_proxy'], *map(bool, spared))"
    )
    found, _ = played(tmp_path, source, count=1)
    listed = "intranet.example,127.0.0.1,localhost,::1,0.0.0.0"
    assert found[0]["answer"] == f"{listed} {listed} True True False"


def test_a_real_mcp_session_plays_an_episode(tmp_path):
    found, shown = played(tmp_path, MCP_AGENT, "{question}", count=3)
    assert [(row["answer"], row["ending"]) for row in found] == [
        ("0", "answered"),
        ("2", "answered"),
        ("4", "answered"),
    ], shown.output
    assert [row["sources"] for row in found] == [["m1"]] * 3
    assert [row["error_codes"] for row in found] == [{"bad_args": 1}] * 3


def test_a_program_finds_the_recording_endpoint_where_stock_clients_look(tmp_path):
    pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")
    source = (
        "import os\nfrom openai import OpenAI\n"
        "reply = OpenAI().chat.completions.create(model='x', messages=[{'role': 'user', 'content': 'hi'}])\n"
        "print(reply.choices[0].message.content)"
    )
    with ModelServer(in_order({"content": "4"})) as server:
        found, shown = played(tmp_path, source, "", "--model", f"openai:m@{server.url}", count=1)
    assert (found[0]["answer"], found[0]["model_calls"]) == ("4", 1), shown.output
    assert found[0]["calls"][0]["messages"] == [{"role": "user", "content": "hi"}]
