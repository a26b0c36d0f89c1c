"""The environment in Gymnasium's vector environments: any text, in one process and in several."""

import gymnasium
import pytest

import email_env
from email_env.env import MAX_ACTION_CHARS
from email_env.spaces import TextSpace, ToolCallSpace
from tests.email_env.mails import question
from tests.email_env.office import CITY, answer, read, search


def test_the_spaces_are_text(env):
    assert env.observation_space == TextSpace(16_384)
    assert env.action_space == ToolCallSpace(MAX_ACTION_CHARS)


@pytest.mark.parametrize(("mode", "options"), [("sync", {}), ("async", {}), ("async", {"context": "spawn"})])
def test_vector_environments_carry_any_text(path, mode, options):
    scenarios = [CITY, question("empty", question="ü ", message_ids=("m4",), split="test")]
    envs = gymnasium.make_vec(
        email_env.ENV_ID,
        num_envs=2,
        vectorization_mode=mode,
        vector_kwargs=options,
        db_path=path,
        scenarios=scenarios,
        split="test",
        max_body_chars=60,
    )
    try:
        texts, infos = envs.reset(seed=[0, 1], options={"index": 1})
        assert tuple(texts) == ("ü ", "ü ")
        assert tuple(infos["scenario_id"]) == ("empty", "empty")
        texts, rewards, terminations, truncations, infos = envs.step((search("messe"), ""))
        assert (
            texts[0]
            == "m4 | 2001-05-17 | Anna Keller | Messe | Die Messe: see you at the fair in Zürich. " + "x" * 258 + "..."
        )
        assert texts[1].startswith("Error: the turn is empty.")
        assert rewards.tolist() == [0.0, -0.1]
        assert infos["metrics"]["found"].tolist() == [1.0, 0.0]
        assert infos["error"].tolist() == ["", "no_tool_call"]
        earlier = tuple(texts)
        texts, rewards, terminations, truncations, infos = envs.step((read("m4"), answer("Zürich", "m4")))
        assert "the fair in Zürich.\nxx" in texts[0]
        assert texts[1] == "Answer received."
        assert earlier[1].startswith("Error")
        assert terminations.tolist() == [False, True]
        assert not truncations.any()
        assert envs.action_space.contains(envs.action_space.sample())
    finally:
        envs.close()
