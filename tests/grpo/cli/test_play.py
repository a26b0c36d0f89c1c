"""`grpo-play`: an episode by hand, from a file of actions."""

import json
import re

import pytest
from click.testing import CliRunner

from grpo.cli.play import NotACallError, call_of, play
from tests import ROOT

TOOLS = [
    {"name": "search_inbox", "parameters": {"properties": {"keywords": {}, "max_results": {}}}},
    {"name": "read_email", "parameters": {"properties": {"message_id": {}}}},
]


def played(lines, *arguments):
    return CliRunner().invoke(play, list(arguments), input="".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ('search_inbox(["a", "b"], max_results=3)', {"keywords": ["a", "b"], "max_results": 3}),
        (" search_inbox (keywords=['ü'])", {"keywords": ["ü"]}),
        ("search_inbox()", {}),
    ],
)
def test_a_line_in_pythons_form_is_a_call(line, arguments):
    assert json.loads(call_of(line, TOOLS) or "") == {"name": "search_inbox", "arguments": arguments}


def test_other_lines_are_no_calls_and_broken_calls_are_explained():
    assert call_of("It is in search_inbox(x).", TOOLS) is None
    assert call_of('{"name": "read_email"}', TOOLS) is None
    for line in ('read_email("m1"', "read_email(m1)", 'read_email("m1") + 1', "read_email(**{})("):
        with pytest.raises(NotACallError, match=r"write read_email\(message_id\) with values"):
            call_of(line, TOOLS)


def test_a_question_is_played_to_its_end_and_the_reward_taken_apart():
    lines = [
        "",
        'read_email("m1"',
        'search_inbox(["laptops", "Austin", "order"])',
        'return_final_answer("PO-5746", sources=["m3007"])',
    ]
    shown = played(lines, "--scenario", scenario_of("order number of the laptops for Austin"))
    assert shown.exit_code == 0, shown.output
    assert "user: What is the order number of the laptops for Austin?" in shown.output
    assert "  read_email(message_id, offset?): Read a mail." in shown.output
    assert "'read_email(\"m1\"' cannot be read" in shown.output
    assert "tool: m3007 | 2021-08-17" in shown.output
    assert "terminated after 2 actions, reward 1.480\n  = +1.000 tier +0.400 sources +0.080 speed\n" in shown.output
    assert re.search(r"^  success +1$", shown.output, re.M)


def test_the_end_of_the_input_ends_the_episode_and_an_invalid_call_is_named():
    shown = played(['{"name": "delete_mail", "arguments": {}}'])
    assert "the call counts as invalid: unknown_tool" in shown.output
    assert "Not played to its end.\nopen after 1 action, reward -0.100\n  = -0.100 penalty\n" in shown.output


@pytest.mark.parametrize("word", ["quit", "exit"])
def test_a_word_asks_for_help_or_ends_and_is_no_answer(word):
    shown = played([" help ", word])
    assert shown.output.count("help shows this, quit ends.") == 2
    assert "Not played to its end.\nopen after 0 actions, reward 0.000\n" in shown.output


def test_an_env_of_ones_own_is_played_by_its_file():
    shown = played(
        [f"guess({number})" for number in range(1, 8)],
        *("--env-import", str(ROOT / "examples" / "guess_number.py"), "--env", "GuessNumber-v0", "--seed", "3"),
    )
    assert shown.exit_code == 0, shown.output
    assert "system: Guess my number" in shown.output
    assert "tool: higher" in shown.output


def test_a_terminal_that_knows_no_codes_gets_none_and_no_env_steers_another(tmp_path):
    env = tmp_path / "titles.py"
    env.write_text(
        "import gymnasium as gym\n"
        "class Titles(gym.Env):\n"
        "    observation_space = action_space = gym.spaces.Text(99)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        said = 'a \\x1b]0;title\\x07 \\x1b[2Jb\\n\\tc'\n"
        "        return '', {'messages': [{'role': 'user', 'content': said}], 'tools': [], 'metrics': {}}\n"
        "    def step(self, action):\n"
        "        return '', 0.0, True, False, {'messages': [], 'metrics': {}, 'error': ''}\n"
        "gym.register('Titles-v0', Titles)\n"
    )
    arguments = ["--env-import", str(env), "--env", "Titles-v0"]
    seen = {
        term: CliRunner().invoke(play, arguments, input="x\n", color=True, env={"TERM": term}).output
        for term in ("dumb", "xterm")
    }
    assert "user: a ]0;title [2Jb\n\tc\n" in seen["dumb"]
    assert "\x1b[1muser\x1b[0m: a ]0;title [2Jb\n\tc\n" in seen["xterm"]
    assert "\x1b" not in seen["dumb"]


def test_a_scenario_that_is_not_there_is_named_with_one_that_is():
    shown = played([], "--scenario", "test-99-999")
    assert (shown.exit_code, "has no scenario 'test-99-999', for example test-01-00" in shown.output) == (1, True)


def scenario_of(words):
    import gymnasium

    import email_env

    env = gymnasium.make(email_env.ENV_ID, split="test").unwrapped
    for name in env.scenario_ids():
        text, _ = env.reset(options={"scenario_id": name})
        if words in text:
            env.close()
            return name
    raise LookupError(words)
