import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import email_env
from email_env.env import MAX_ACTION_CHARS, MAX_CALLS_PER_ACTION, EmailSearchEnv
from email_env.errors import EpisodeError
from email_env.reward import RewardConfig
from email_env.search.database import MailDatabase
from tests.email_env.office import BUDGET, MOVED, NOWHERE, answer, as_json, play, read, search


def make(path, **options):
    return gymnasium.make(email_env.ENV_ID, db_path=path, **options)


def test_the_environment_passes_gymnasiums_checker_without_a_warning(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(path).unwrapped)


def test_the_id_is_registered_by_the_import_alone():
    spec = gymnasium.registry["EmailSearch-v0"]
    assert spec.entry_point == "email_env.env:EmailSearchEnv"
    assert spec.max_episode_steps is None


def test_importing_and_making_loads_nothing_heavy(path):
    code = (
        "import sys, gymnasium, email_env; assert 'email_env.env' not in sys.modules;"
        "gymnasium.make('EmailSearch-v0').reset(seed=0);"
        "print(*sorted({'pydantic', 'torch', 'click', 'rich', 'litellm'} & set(sys.modules)))"
    )
    environment = os.environ | {"EMAIL_ENV_DB": str(path), "PYTHONPATH": str(Path(email_env.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_reset_gives_the_question_the_messages_the_tools_and_metrics(env):
    text, info = env.reset(options={"scenario_id": "budget"})
    assert text == "What is the approved budget for Falcon?"
    system, user = info["messages"]
    assert system["role"] == "system"
    assert "ben@x.com" in system["content"]
    assert "2001-06-01" in system["content"]
    assert "10 turns" in system["content"]
    assert len(system["content"]) < 240
    assert user == {"role": "user", "content": text}
    assert [tool["function"]["name"] for tool in info["tools"]] == ["search_inbox", "read_email", "return_final_answer"]
    assert info["scenario_id"] == "budget"
    assert set(map(type, info["metrics"].values())) == {float}


def test_an_episode_from_question_to_answer(env):
    env.reset(options={"scenario_id": "budget"})
    text, reward, terminated, truncated, info = env.step(search("falcon", "budget"))
    assert text.startswith("m1 | 2001-05-14 | Anna Keller | Falcon budget | ")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["messages"] == [{"role": "tool", "content": text}]
    assert (info["error"], info["stop_reason"], info["metrics"]["found"]) == ("", "", 1.0)
    _, reward, *_, info = env.step(read("m1"))
    assert (reward, info["metrics"]["read"]) == (0.0, 1.0)
    text, reward, terminated, truncated, info = env.step(answer("48,250 dollars", "m1"))
    assert (text, terminated, truncated, info["stop_reason"]) == ("Answer received.", True, False, "answer")
    assert reward == pytest.approx(1.47) == info["metrics"]["reward"]
    assert info["metrics"]["success"] == 1.0


def test_the_rewards_add_up_to_the_metric_and_penalties_come_when_they_happen(env):
    rewards, info = play(env, BUDGET, "<tool_call>{", as_json("grep"), search("falcon"), answer("48250", "m1"))
    # two penalties; 1 + 0.3 + 0.1 + 0.1 * (1 - 4/10)
    assert rewards == pytest.approx([-0.1, -0.1, 0.0, 1.46])
    assert info["metrics"]["reward"] == pytest.approx(1.26)
    assert info["metrics"]["valid_call_rate"] == 0.5
    assert info["metrics"]["invalid_calls"] == 2.0


@pytest.mark.parametrize(
    ("action", "code", "role"),
    [
        ("", "no_tool_call", "user"),
        ("search_inbox falcon", "no_tool_call", "user"),
        ("<tool_call>{", "bad_json", "user"),
        (as_json("grep"), "unknown_tool", "tool"),
        (search("falcon", message_id="m1"), "bad_args", "tool"),
        (as_json("search_inbox", keywords=[]), "bad_args", "tool"),
        ("x" * (MAX_ACTION_CHARS + 1), "no_tool_call", "user"),
    ],
)
def test_an_invalid_action_is_told_and_the_episode_goes_on(env, action, code, role):
    env.reset(options={"scenario_id": "budget"})
    text, reward, terminated, truncated, info = env.step(action)
    assert info["error"] == code
    assert info["messages"] == [{"role": role, "content": text}]
    assert text.startswith("Error: ")
    assert (reward, terminated, truncated, info["stop_reason"]) == (-0.1, False, False, "")
    assert env.step(answer("48250", "m1"))[4]["metrics"]["success"] == 1.0


@pytest.mark.parametrize("action", [None, 5, b"bytes", ["x"], {"name": "read_email"}, float("nan")])
def test_an_action_that_is_no_text_is_an_invalid_action(env, action):
    env.reset(options={"scenario_id": "budget"})
    *_, info = env.step(action)
    assert info["error"] == "no_tool_call"


def test_prose_is_an_implicit_answer(env):
    _, info = play(env, BUDGET, search("falcon"), "The answer is $48,250.")
    metrics = info["metrics"]
    assert (info["stop_reason"], info["error"]) == ("answer", "")
    assert (metrics["success"], metrics["implicit_answer"], metrics["source_recall"]) == (1.0, 1.0, 0.0)
    assert metrics["reward"] == pytest.approx(1.08)
    _, info = play(env, BUDGET, "I was unable to find it.")
    assert (info["metrics"]["dont_know"], info["metrics"]["reward"]) == (1.0, pytest.approx(0.1))


def test_several_calls_in_one_action_run_in_order_until_the_answer(env):
    env.reset(options={"scenario_id": "budget"})
    text, _, terminated, _, info = env.step(search("falcon") + search("a", oops=1) + read("m1"))
    assert [message["role"] for message in info["messages"]] == ["tool"] * 3
    assert text == "\n\n".join(message["content"] for message in info["messages"])
    assert (info["error"], terminated) == ("bad_args", False)
    assert (info["metrics"]["turns"], info["metrics"]["tool_calls"], info["metrics"]["invalid_calls"]) == (
        1.0,
        3.0,
        1.0,
    )
    *_, info = env.step(answer("48250", "m1") + read("m99"))
    assert len(info["messages"]) == 1
    assert info["metrics"]["unknown_ids"] == 0.0


def test_a_turn_of_too_many_calls_runs_the_first_and_says_so(env):
    env.reset(options={"scenario_id": "budget"})
    *_, info = env.step(read("m1") * (MAX_CALLS_PER_ACTION + 5))
    assert len(info["messages"]) == MAX_CALLS_PER_ACTION + 1
    assert "the rest was not run" in info["messages"][-1]["content"]
    assert info["metrics"]["invalid_calls"] == 1.0


def test_openai_calls_are_answered_under_their_ids(env):
    env.reset(options={"scenario_id": "budget"})
    calls = [
        {"id": "a", "type": "function", "function": {"name": "read_email", "arguments": '{"message_id": "m1"}'}},
        {"id": "b", "type": "function", "function": {"name": "read_email", "arguments": "{"}},
    ]
    *_, info = env.step(json.dumps({"role": "assistant", "content": "", "tool_calls": calls}))
    assert [(message["role"], message["tool_call_id"]) for message in info["messages"]] == [
        ("tool", "a"),
        ("tool", "b"),
    ]
    assert info["error"] == "bad_json"


def test_the_last_turn_truncates(path):
    env = EmailSearchEnv(path, max_turns=2)
    env.reset(options={"scenario_id": "budget"})
    assert env.step(search("falcon"))[2:4] == (False, False)
    _, reward, terminated, truncated, info = env.step(read("m1"))
    assert (terminated, truncated, info["stop_reason"]) == (False, True, "max_turns")
    assert reward == pytest.approx(0.3)
    env.reset(options={"scenario_id": "budget"})
    env.step(search("falcon"))
    assert env.step(answer("48250"))[2:4] == (True, False)


def test_stepping_without_a_running_episode_is_the_callers_fault(path):
    env = EmailSearchEnv(path)
    with pytest.raises(EpisodeError, match="no episode yet"):
        env.step("x")
    env.reset(seed=0)
    env.step("prose")
    with pytest.raises(EpisodeError, match=r"has ended \(answer\)"):
        env.step("x")


def test_a_judge_is_told_what_was_answered_and_what_its_verdict_is_worth(path):
    env = EmailSearchEnv(path)
    env.reset(options={"scenario_id": "budget"})
    assert env.answer_key() == {"question": BUDGET.question, "references": ["$48,250", "48250"], "answer": None}
    with pytest.raises(EpisodeError, match="no answer to mark"):
        env.judged(True)
    env.step(read("m1"))
    *_, info = env.step(answer("forty-eight and a quarter thousand dollars", "m1"))
    assert env.answer_key()["answer"] == "forty-eight and a quarter thousand dollars"
    assert (info["metrics"]["undecided"], info["metrics"]["reward"]) == (1.0, pytest.approx(-0.7))
    reward, metrics = env.judged(True)
    # 1 right + 0.3 recall + 0.1 precision + 0.1 * (1 - 2/10) speed
    assert reward == metrics["reward"] == pytest.approx(1.48)
    assert metrics["success"] == 1.0
    assert env.judged(False) == (info["metrics"]["reward"], info["metrics"] | {"undecided": 0.0})


def test_limits_of_what_is_shown_are_options(path):
    env = EmailSearchEnv(path, max_results=1, snippet_words=2, max_body_chars=5)
    env.reset(options={"scenario_id": "budget"})
    assert env.step(search("falcon"))[0].endswith("\n[1 of 2 shown; offset 1 shows more]")
    assert env.step(read("m1"))[0].endswith("Finan\n[... 31 more characters; offset 5 shows them]")
    terse = EmailSearchEnv(path, max_results=1, snippet_words=2, max_body_chars=5, terse=True)
    terse.reset(options={"scenario_id": "budget"})
    assert terse.step(search("falcon"))[0].count("\n") == 0
    assert terse.step(read("m1"))[0].endswith("Finan\n[... 31 more characters]")
    assert terse.step(search("falcon", offset=1))[4]["error"] == "bad_args"


def test_rewards_are_an_option(path):
    for reward in ({"right_answer": 7.0}, RewardConfig(right_answer=7.0)):
        rewards, _ = play(EmailSearchEnv(path, reward=reward), BUDGET, answer("48250"))
        assert rewards == pytest.approx([7.09])


def test_the_transcript_is_rendered(path):
    env = make(path, render_mode="ansi")
    env.reset(options={"scenario_id": "budget"})
    env.step(read("m1"))
    lines = env.render().splitlines()
    assert lines[2] == "User: What is the approved budget for Falcon?"
    assert "Tool: From: Anna Keller <anna@x.com>" in lines
    assert EmailSearchEnv(path).render() is None


def test_info_is_new_at_every_call(env):
    _, first = env.reset(options={"scenario_id": "budget"})
    kept = copy.deepcopy(first)
    first["messages"].clear()
    first["tools"][0]["function"].clear()
    first["metrics"].clear()
    assert env.reset(options={"scenario_id": "budget"})[1] == kept


def test_an_environment_pickles_and_goes_on(path):
    env = EmailSearchEnv(path)
    env.reset(options={"scenario_id": "budget"})
    again = pickle.loads(pickle.dumps(env))
    assert again.step(search("falcon"))[0] == env.step(search("falcon"))[0]


def test_closing_twice_does_no_harm(path):
    env = EmailSearchEnv(path)
    env.reset(seed=0)
    env.close()
    env.close()
    assert env.reset(seed=0)[1]["messages"]


ACTIONS = st.one_of(
    st.text(),
    st.text(alphabet='<>/{}[]":,tool_call name argumens', max_size=80),
    st.builds(search, st.text(), st.text(), from_addr=st.text(), sent_after=st.text(), max_results=st.integers()),
    st.builds(read, st.text()),
    st.builds(answer, st.text(), st.text()),
    st.dictionaries(st.text(), st.integers() | st.text() | st.none()).map(json.dumps),
)


@given(st.lists(ACTIONS, max_size=4))
def test_no_action_raises_and_every_step_keeps_the_contract(env, actions):
    _, info = env.reset(options={"scenario_id": "budget"})
    names, total = list(info["metrics"]), 0.0
    for action in actions:
        text, reward, terminated, truncated, info = env.step(action)
        total += reward
        assert text in env.observation_space
        assert list(info["metrics"]) == names
        assert info["metrics"]["reward"] == pytest.approx(total, abs=1e-9)
        assert info["error"] in ("", "bad_json", "unknown_tool", "bad_args", "no_tool_call")
        assert all(message["role"] in ("tool", "user") for message in info["messages"])
        if terminated or truncated:
            assert info["stop_reason"] == "answer"
            break


def test_two_environments_share_a_database_file_and_not_a_connection(path):
    one, other = EmailSearchEnv(path), EmailSearchEnv(path)
    assert isinstance(one.database, MailDatabase)
    assert one.database is not other.database
    for scenario in (BUDGET, MOVED, NOWHERE):
        assert play(one, scenario, search("falcon"))[1] == play(other, scenario, search("falcon"))[1]
