"""`grpo-eval` as a user meets it: scores, what is saved, going on, wrong input."""

import json
import re
import shutil

import gymnasium
import pytest

from tests.support.agents import unwritable
from tests.support.envs import SumsEnv, Toll
from tests.support.evaluations import refused, rows, run


def test_everything_is_saved_and_every_number_can_be_counted_by_hand(tmp_path):
    out = tmp_path / "run"
    shown = run("--agent", "wrong", "-k", "2", "--limit", "8", "--out", str(out), count=8)
    assert shown.exit_code == 0, shown.output
    saved = rows(out)
    assert len(saved) == 16
    assert len({(row["scenario_id"], row["sample"]) for row in saved}) == 16
    # of sum/0 to sum/7: 0 and 4 are right, 2 and 6 wrong, the odd ones have no answer and get one all the same
    right = sorted({row["scenario_id"] for row in saved if row["correct"]})
    assert right == ["sum/0", "sum/4"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["metrics"]["answer/correct"]["mean"] == 0.25
    assert summary["pass_at_k"] == {"1": 0.25, "2": 0.25}
    assert summary["pass_hat_k"] == {"1": 0.25, "2": 0.25}
    assert summary["endings"] == {"answered": 16}
    assert summary["refusal"]["hallucination_rate"]["mean"] == 1.0
    assert summary["metrics"]["answer/implicit"]["mean"] == 1.0
    assert [entry["scenario_id"] for entry in summary["worst"]] == ["sum/1", "sum/2", "sum/3", "sum/5", "sum/6"]
    assert "25.0 %" in shown.output
    config = json.loads((out / "config.json").read_text())
    assert (config["agent"], config["limit"], config["k"], config["seed"]) == ("wrong", 8, 2, 1234)
    assert {"python", "email-rl", "gymnasium"} <= config["versions"].keys()
    trace = saved[0]
    assert [message["role"] for message in trace["messages"]] == ["system", "user", "assistant", "tool"]
    assert [tool["function"]["name"] for tool in trace["tools"]] == ["double", "return_final_answer"]


def test_where_none_is_worse_than_another_none_is_called_the_worst(tmp_path):
    shown = run("--agent", "tests.support.agents:silent", "--out", str(tmp_path), count=8)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["metrics"]["answer/correct"]["mean"], summary["metrics"]["reward/mean"]["mean"]) == (0.0, 0.0)
    assert summary["worst"] == []
    assert "Worst" not in shown.output


def test_the_database_and_the_questions_are_named_by_their_hashes(tmp_path):
    import hashlib

    import gymnasium

    import email_env  # noqa: F401

    run("--agent", "oracle", "--limit", "2", "--out", str(tmp_path), env="EmailSearch-v0")
    env = gymnasium.make("EmailSearch-v0", split="test").unwrapped
    saved = json.loads((tmp_path / "config.json").read_text())["fingerprint"]
    assert saved["database"] == hashlib.sha256(env.database.path.read_bytes()).hexdigest()
    other = gymnasium.make("EmailSearch-v0", split="train").unwrapped
    assert saved["scenarios"] == env.fingerprint()["scenarios"] != other.fingerprint()["scenarios"]


def test_a_plain_env_whose_episodes_are_cut_says_how_whole_ones_are_played(tmp_path):
    cut = run("--agent", "random", "--limit", "1", "--out", str(tmp_path / "cut"), env="MountainCar-v0")
    said = "MountainCar-v0: episodes are cut after 50 of the env's 200 turns; to play whole ones: --env-kwargs "
    assert cut.stderr.startswith(said + "'{\"max_episode_steps\": 200}'\n")
    arguments = ("--agent", "random", "--limit", "1", "--out", str(tmp_path / "whole"))
    whole = run(*arguments, env="MountainCar-v0", max_episode_steps=200)
    assert "are cut" not in whole.stderr
    assert [rows(tmp_path / name)[0]["turns"] for name in ("cut", "whole")] == [50, 200]


def test_turn_limits_and_invalid_calls_are_counted(tmp_path):
    summary = json.loads(run("--agent", "silly", "--json", "--out", str(tmp_path), count=4).stdout)
    assert summary["endings"] == {"max_turns": 4}
    assert summary["error_codes"] == {"bad_args": 12}
    assert summary["metrics"]["answer/none"]["mean"] == 1.0
    assert summary["metrics"]["answer/correct"]["mean"] == 0.0


def test_answers_from_a_file_are_scored(tmp_path):
    answers = tmp_path / "answers.jsonl"
    lines = [{"scenario_id": "sum/0", "answer": "0"}, {"scenario_id": "sum/1", "answer": "I don't know"}]
    lines += [{"scenario_id": "sum/2", "answer": "5", "sources": ["a"]}]
    answers.write_text("\n".join(map(json.dumps, lines)))
    out = tmp_path / "run"
    summary = json.loads(run("--agent", f"file:{answers}", "--json", "--out", str(out), count=4).stdout)
    assert {row["scenario_id"]: row["correct"] for row in rows(out)} == {
        "sum/0": True,
        "sum/1": True,
        "sum/2": False,
        "sum/3": False,
    }
    assert summary["endings"] == {"answered": 3, "no_answer": 1}
    assert [row["sources"] for row in rows(out) if row["scenario_id"] == "sum/2"] == [["a"]]
    assert summary["metrics"]["answer/implicit"]["mean"] == 0.0


def test_an_answer_of_null_for_one_sample_is_none_although_the_others_have_one(tmp_path):
    answers = tmp_path / "answers.jsonl"
    lines = [{"scenario_id": "sum/0", "answer": "0"}, {"scenario_id": "sum/0", "sample": 1, "answer": None}]
    answers.write_text("\n".join(map(json.dumps, lines)))
    run("--agent", f"file:{answers}", "-k", "3", "--out", str(tmp_path / "run"), count=1)
    endings = {row["sample"]: (row["ending"], row["answer"]) for row in rows(tmp_path / "run")}
    assert endings == {0: ("answered", "0"), 1: ("no_answer", None), 2: ("answered", "0")}


def test_a_broken_env_is_no_fault_of_the_agent_and_resume_plays_it_again(tmp_path):
    out = str(tmp_path / "run")
    first = run("--agent", "oracle", "--out", out, count=4, broken="sum/2")
    assert first.exit_code == 3
    assert "1 of 4 episodes ended in infrastructure failures" in first.output
    assert "1 x infrastructure: tests.support.envs:Sums-v0 failed at step: RuntimeError: the abacus is" in first.output
    assert f"(envs.py:{SumsEnv.step.__code__.co_firstlineno + 2}) [sum/2#0]\n" in first.output
    (failed,) = [row for row in rows(tmp_path / "run") if row["ending"] == "infrastructure"]
    assert (failed["scenario_id"], failed["correct"], failed["reward"]) == ("sum/2", None, None)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["metrics"]["answer/correct"]["mean"] == 1.0
    assert (summary["episodes"], summary["failed"], summary["planned"]) == (3, 1, 4)
    again = run("--agent", "oracle", "--out", out, "--resume", count=4, broken="sum/2")
    assert again.exit_code == 3
    assert len(rows(tmp_path / "run")) == 4


def test_a_failure_of_several_episodes_is_told_with_the_first_and_a_result_has_the_seed_of_its_env(tmp_path):
    agent = ("--agent", "tests.support.agents:unwritable")
    shown = run(*agent, "--out", str(tmp_path), "--limit", "3", env="FrozenLake-v1")
    found = rows(tmp_path)
    assert [row["scenario_id"] for row in found] == [f"seed-{row['env_seed']}" for row in found]
    place = f"agents.py:{unwritable.__code__.co_firstlineno + 1}"
    said = f"3 x agent_crash: Unwritable ({place}) [first {found[0]['scenario_id']}#0]"
    assert said in shown.output


def test_an_evaluation_whose_folder_was_removed_says_that_nothing_can_be_kept(tmp_path, monkeypatch):
    def removes(task, tools, model):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return "0"

    monkeypatch.setattr("tests.support.agents.walking", removes)
    arguments = ("--agent", "tests.support.agents:walking", "--out", str(tmp_path / "run"))
    shown = run(*arguments, "--limit", "2", env="FrozenLake-v1")
    assert shown.exit_code == 1
    assert f"Error: {tmp_path}/run was removed or moved while episodes were played" in shown.output
    assert not (tmp_path / "run").exists()


def test_five_equal_crashes_at_the_beginning_end_the_evaluation(tmp_path):
    agent = ("--agent", "tests.support.agents:unwritable", "--concurrency", "2")
    shown = run(*agent, "--out", str(tmp_path), "--limit", "40", env="FrozenLake-v1")
    assert shown.exit_code == 1
    place = f"agents.py:{unwritable.__code__.co_firstlineno + 1}"
    assert f"Error: the agent crashed in each of the first 5 episodes: Unwritable ({place}); mend it" in shown.output
    assert 5 <= len(rows(tmp_path)) <= 6


def test_resume_refuses_other_settings_and_begins_nothing_by_itself(tmp_path, monkeypatch):
    out = str(tmp_path / "run")
    assert run("--agent", "oracle", "--limit", "2", "--out", out).exit_code == 0
    taken = run("--agent", "oracle", "--limit", "2", "--out", out)
    assert taken.exit_code == 1
    assert "already holds an evaluation; continue it with --resume" in taken.output
    other = run("--agent", "oracle", "--limit", "3", "--out", out, "--resume")
    assert other.exit_code == 1
    assert "limit: 2 -> 3" in other.output
    monkeypatch.chdir(tmp_path)
    nothing = run("--agent", "oracle", "--resume")
    assert nothing.exit_code == 1
    assert "no evaluation in evals/ has these settings" in nothing.output


def test_resume_without_a_folder_takes_the_newest_evaluation_of_the_same_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("--agent", "oracle", "--limit", "2")
    run("--agent", "wrong", "--limit", "2")
    (folder,) = (tmp_path / "evals").glob("oracle-*")
    lines = (folder / "results.jsonl").read_text().splitlines()
    (folder / "results.jsonl").write_text(lines[0] + '\n{"scenario_id": "sum/1", "sam')
    shown = run("--agent", "oracle", "--limit", "2", "--resume", "--concurrency", "3")
    assert f"Saved in {folder.relative_to(tmp_path)}" in shown.output
    assert len(rows(folder)) == 2
    assert len(list((tmp_path / "evals").iterdir())) == 2


def test_a_dry_run_shows_the_episodes_and_writes_nothing(tmp_path):
    shown = run("--agent", "oracle", "--limit", "2", "-k", "3", "--dry-run", "--out", str(tmp_path / "run"))
    assert shown.exit_code == 0
    assert "6 episodes would be played" in shown.output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("percent", "status"), [("25", 0), ("25.1", 1)])
def test_fail_under_compares_with_the_share_of_right_answers(tmp_path, percent, status):
    shown = run("--agent", "wrong", "--out", str(tmp_path / "run"), "--fail-under", percent, count=8)
    assert shown.exit_code == status


NO_ADDRESSES = ("http://127.0.0.1:99999/v1", "http://127.0.0.1: 80/v1", "http://[::1/v1", "http:///v1")


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("oracel", "no agent 'oracel'. Did you mean 'oracle'?"),
        ("file:nowhere.jsonl", "there is no file of answers 'nowhere.jsonl'"),
        ("policy:nowhere", "nowhere is neither a run directory (config.json) nor an adapter"),
        ("no.such.module:fn", "there is no module 'no.such.module'"),
        ("tests.support.agents:nothing", "'nothing' does not exist in the module"),
        ("tests.support.agents:Answer", "must take three arguments (task, tools, model)"),
        ("cmd:/no/such/program {question}", "there is no program '/no/such/program' that can be run"),
        *((f"openai:m@{url}", f"{url!r} is no address of a server") for url in NO_ADDRESSES),
    ],
)
def test_a_wrong_agent_is_explained_before_anything_is_written(tmp_path, agent, message):
    assert message in refused(tmp_path, "--agent", agent)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"scenario_id": "sum/7", "answer": "14"}\n', "; its first is 'sum/7'"),
        ("", "has no line of any of the 2 scenarios that are asked"),
        ('[{"scenario_id": "sum/0", "answer": "0"}]', "line 1 is not a JSON object: [{"),
        ('{"scenario_id": "sum/0", "answer": "0"}\n{"scenario_id": "sum/1", "answer": "2"', "line 2 is not JSON"),
        ('{"scenario_id": "sum/0", "answer": "0"}\n\n\n{"answer": "2"}\n', "line 4 needs scenario_id"),
        (2 * '{"scenario_id": "sum/0", "answer": "0"}\n', "line 2 answers again what has an answer"),
    ],
)
def test_a_file_of_answers_that_cannot_be_meant_is_no_score_of_zero(tmp_path, lines, said):
    answers = tmp_path / "answers.jsonl"
    answers.write_text(lines)
    assert said in refused(tmp_path, "--agent", f"file:{answers}", count=2)


def test_an_env_that_asks_no_question_has_no_line_about_answers(tmp_path):
    shown = run("--agent", "random", "--limit", "3", "--out", str(tmp_path / "out"), env="FrozenLake-v1")
    assert shown.exit_code == 0, shown.output
    assert "Reward              0.000  [too few to say]" in shown.output
    assert "ended by the env 3" in shown.output
    assert "nswer" not in shown.output


def test_nor_has_one_that_says_what_is_right_and_takes_no_answer(tmp_path):
    shown = run("--agent", "random", "--limit", "3", "--out", str(tmp_path), env="tests/Road-v0")
    assert re.search(r"Correct +100.0 %", shown.output)
    assert "ended by the env 3" in shown.output
    assert "nswer" not in shown.output
    assert [row["answer"] for row in rows(tmp_path)] == [None] * 3


class Held(SumsEnv):
    """Holds what a close has to free."""

    made = 0
    closed = 0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        type(self).made += 1

    def close(self):
        type(self).closed += 1


gymnasium.register("tests/Held-v0", entry_point=Held)
gymnasium.register("tests/Road-v0", entry_point=Toll)


def test_every_env_that_was_made_is_closed_once(tmp_path):
    shown = run("--agent", "oracle", "--limit", "8", "--out", str(tmp_path / "out"), env="tests/Held-v0")
    assert shown.exit_code == 0, shown.output
    assert Held.closed == Held.made > 1


def test_the_users_words_are_in_the_prompt_and_in_the_settings(tmp_path):
    arguments = ("--agent", "random", "--limit", "2", "--system-prompt", "Cross the ice.")
    shown = run(*arguments, "--out", str(tmp_path / "out"), env="FrozenLake-v1", max_episode_steps=9)
    assert shown.exit_code == 0, shown.output
    for row in rows(tmp_path / "out"):
        assert row["messages"][0]["content"].startswith("Cross the ice.\nAt most 9 turns. Call act")
    kwargs = json.loads((tmp_path / "out" / "config.json").read_text())["env_kwargs"]
    assert kwargs == {"max_episode_steps": 9, "system_prompt": "Cross the ice."}


def test_a_recipe_brings_the_arguments_of_the_env_below_those_given(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("env_kwargs = { count = 6 }\n")
    for given, played in (({}, 6), ({"count": 3}, 3)):
        out = tmp_path / str(played)
        assert run("--agent", "wrong", "--recipe", str(recipe), "--out", str(out), **given).exit_code == 0
        assert len(rows(out)) == played
