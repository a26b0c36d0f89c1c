"""What a run says of its held-out evaluations, and what it keeps of them."""

import asyncio
import io

import pytest
from rich.console import Console

from grpo.config import load_config
from grpo.display.terminal import Display
from grpo.files import read_jsonl
from grpo.runs.directory import RunDirectory
from grpo.runs.model_card import Card, write_card
from grpo.training.held_out import HeldOut
from tests.fakes import WORD_ENV, ByteChat, ScriptedPolicy

CALL = '{"name": "act", "arguments": {"action": 2}}'


def evaluated(folder, env, turns, when="before", **settings):
    """The summaries of an evaluation by a policy that says ``turns``, and what was shown."""
    out = io.StringIO()
    display = Display(console=Console(file=out, width=120), clock=lambda: 0.0)  # bars write no lines
    few = {"eval.greedy": False, "eval.scenarios": 2, "rollout.max_tokens": 2000}
    config = load_config(None, {"env": env, **few, **settings})
    held_out = HeldOut(config, RunDirectory(folder), ByteChat(), display)
    summaries = asyncio.run(held_out.evaluate(when, 0, ScriptedPolicy(ByteChat(), turns)))
    display.eval_table(summaries)
    return summaries, out.getvalue().splitlines()


def test_an_env_with_scenarios_and_splits_is_spoken_of_so(tmp_path):
    (summary,), lines = evaluated(tmp_path, WORD_ENV, ["maple"])
    assert lines[:2] == [
        "== Evaluation before GRPO: 2 scenarios of the test split",
        "-- Evaluation on the test split, mean ± half of the 95 % interval",
    ]
    assert (summary["split"], summary["episodes"], summary["scenarios"]) == ("test", 2, 2)


def test_between_steps_other_tasks_are_played_than_before_and_after(tmp_path):
    played = {}
    for env, split in ((WORD_ENV, "validation"), ("CliffWalking-v1", "")):
        for when in ("before", "step-0001", "after"):
            settings = {} if env == WORD_ENV else {"env_kwargs": {"max_episode_steps": 3}}
            (summary,), _ = evaluated(tmp_path / env / when, env, ["maple"], when, **settings)
            rows = read_jsonl(tmp_path / env / when / "eval" / f"{when}-sampled.jsonl")
            played[env, when] = [(row["scenario_id"], row["seed"]) for row in rows]
            assert summary["split"] == (split if when == "step-0001" else "test" if split else "")
        assert played[env, "before"] == played[env, "after"]
        assert not set(played[env, "before"]) & set(played[env, "step-0001"])


def test_a_plain_env_has_episodes_and_no_split(tmp_path):
    """By hand: three steps into the wall of the start cost -1 each."""
    settings = {"env_kwargs": {"max_episode_steps": 3}}
    (summary,), lines = evaluated(tmp_path, "CliffWalking-v1", [CALL], **settings)
    assert [" ".join(line.split()) for line in lines] == [
        "== Evaluation before GRPO: 2 episodes",
        "-- Evaluation, mean ± half of the 95 % interval",
        "before, T=1",
        "Episodes 2",
        "Reward -3.000",
        "Valid tool calls 100.0 %",
        "Turns 3.00",
        f"Sampled tokens {3 * (len(CALL) + 1)}.0",
    ]
    assert summary["split"] == ""
    write_card(
        tmp_path, Card("m", "base", "base", "GRPO", "CliffWalking-v1", 1, scores=[summary], is_merged=True), None
    )
    assert "| before-sampled (temperature 1) | 2 | -3.000 | – |" in (tmp_path / "README.md").read_text()


def test_episodes_that_were_cut_have_a_row_of_their_own(tmp_path):
    """With room for one turn each, every episode is cut after a step of -1."""
    settings = {"env_kwargs": {"max_episode_steps": 3}, "rollout.max_tokens": 1024}
    (summary,), lines = evaluated(tmp_path, "CliffWalking-v1", [CALL + " " * 200], **settings)
    assert summary["metrics"]["context_full"]["mean"] == 1.0
    assert " ".join(lines[-1].split()) == "Cut, context full 100.0 %"


def test_more_scenarios_than_there_are_is_an_error_that_says_how_many(tmp_path):
    with pytest.raises(ValueError, match=r"asks for 5 scenarios but there are 4; ask for fewer \(--eval-scenarios\)"):
        evaluated(tmp_path, WORD_ENV, ["maple"], **{"eval.scenarios": 5})
