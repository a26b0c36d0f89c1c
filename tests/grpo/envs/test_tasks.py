"""Tasks-v0: tasks from a file in place of an env, by the policy alone or an agent; what is no task is refused with its line."""

import json

import pytest
from click.testing import CliRunner

from grpo.cli.evaluate import evaluate
from grpo.cli.train import train
from grpo.envs.message_env import MessageEnv
from grpo.envs.registry import TASKS_ENV
from grpo.envs.tasks import read_tasks
from grpo.errors import DataError, EnvError
from grpo.types import Task
from tests.support.evaluations import rows


def written(folder, *lines):
    path = folder / "tasks.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


SUMS = [
    {"id": f"q{number}", "prompt": f"What is {number} + {number}?", "answer": [str(2 * number)]} for number in range(20)
]


def test_a_task_is_a_prompt_and_the_first_answer_ends_it(tmp_path):
    env = MessageEnv(TASKS_ENV, {"file": written(tmp_path, *SUMS)})
    begun = env.reset(Task(0, "q4"))
    assert (begun.text, begun.tools, begun.metrics) == ("What is 4 + 4?", [], {"answered": 0.0, "success": 0.0})
    ended = env.step(" 8\n")
    assert (ended.reward, ended.terminated, ended.metrics) == (1.0, True, {"answered": 1.0, "success": 1.0})
    assert env.answered("8").references == ("8",)
    env.reset(Task(0, "q4"))
    assert env.step("<think>8?</think> nine").reward == 0.0
    assert env.step("<think>9?</think> 8").reward == 1.0


def test_one_task_of_five_is_held_out_unless_the_file_says_otherwise(tmp_path):
    path = written(tmp_path, *SUMS)
    names = {split: MessageEnv(TASKS_ENV, {"file": path, "split": split}).scenario_ids() for split in ("train", "test")}
    assert sorted(names["train"] + names["test"]) == sorted(task["id"] for task in SUMS)
    assert 1 <= len(names["test"]) <= 8
    assert names["test"] == MessageEnv(TASKS_ENV, {"file": path, "split": "test"}).scenario_ids(), "by a hash of the id"
    own = written(
        tmp_path, {"prompt": "a", "split": "dev"}, {"messages": [{"role": "user", "content": "b"}], "split": "dev"}
    )
    assert MessageEnv(TASKS_ENV, {"file": own, "split": "dev"}).scenario_ids() == ["1", "2"]
    with pytest.raises(EnvError, match="no task of the split 'test'; it has dev"):
        MessageEnv(TASKS_ENV, {"file": own, "split": "test"})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nothing", "line 2 is not JSON"),
        ("[1]", "line 2 is not a JSON object: \\[1\\]"),
        ({"prompt": 3}, 'line 2 needs "prompt" as text'),
        ({"messages": []}, 'line 2 needs "prompt" as text'),
        ({"prompt": "x", "answer": {"a": 1}}, 'line 2 needs "answer" as a text or a list of texts'),
        ({"id": "q0", "prompt": "again"}, "line 2 has the id 'q0' of another line"),
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path, line, said):
    from pathlib import Path

    with pytest.raises(DataError, match=said):
        read_tasks(Path(written(tmp_path, SUMS[0], line)))


def test_an_agent_is_evaluated_on_tasks_alone(tmp_path):
    pytest.importorskip("uvicorn", reason="agents of one's own need the extra 'eval'")
    path = written(tmp_path, *({**task, "split": "test"} for task in SUMS[:3]))
    arguments = ["--tasks", path, "--agent", "tests.support.agents:doubling", "--out", str(tmp_path / "run")]
    ran = CliRunner().invoke(evaluate, arguments)
    assert ran.exit_code == 0, ran.output
    assert sorted((row["scenario_id"], row["correct"]) for row in rows(tmp_path / "run")) == [
        ("q0", True),
        ("q1", True),
        ("q2", True),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tasks", "TASKS"], "1 of 2 tasks have no answer (the first: 'open'), so nothing says what they are worth"),
        (["--tasks", "TASKS", "--env", "CartPole-v1"], "CartPole-v1 refused the arguments {'file':"),
        ([], "Missing option '--env' (or '--tasks')"),
    ],
)
def test_tasks_without_a_worth_or_beside_an_env_are_refused(tmp_path, arguments, said):
    path = written(tmp_path, SUMS[0] | {"split": "train"}, {"id": "open", "prompt": "Write a poem.", "split": "test"})
    arguments = [path if argument == "TASKS" else argument for argument in arguments]
    ran = CliRunner().invoke(train, [*arguments, "--run-dir", str(tmp_path / "run")])
    assert ran.exit_code in (1, 2)
    assert said in " ".join(ran.output.split())
