"""What a run says of its held-out evaluations, and what it keeps of them."""

import asyncio
import io
import json

import pytest
from rich.console import Console

from grpo.agents.playing import PolicyAgents
from grpo.config import load_config
from grpo.display.metrics import standings
from grpo.display.terminal import Display
from grpo.episodes.marking import Marker
from grpo.errors import JudgeFailure, ServerDiedError
from grpo.runs.directory import RunDirectory
from grpo.runs.evaluations import beside_baselines, files, forget_after, is_done
from grpo.runs.model_card import Card, write_card
from grpo.runs.retention import Best, best_of, note_score
from grpo.training.held_out import HeldOutEvaluation
from judges.common.files import read_json, read_jsonl, write_json, write_text
from tests.support import formats_page
from tests.support.envs import SUMS_ENV, WORD_ENV
from tests.support.judge_server import ASKED, JudgeServer, Reply
from tests.support.policies import ByteChat, ScriptedPolicy

CALL = '{"name": "act", "arguments": {"action": 2}}'


def held_out(folder, display=None, **settings):
    """The held-out side of a run in ``folder``; it shows nothing unless on ``display``."""
    config = load_config(None, {"env": WORD_ENV, "eval.scenarios": 2, **settings})
    marker = Marker(config.answer_judge, folder)
    return HeldOutEvaluation(
        config, RunDirectory(folder), ByteChat(), PolicyAgents(config.rollout), display or Display(quiet=True), marker
    )


def evaluated(folder, env, turns, when="before", **settings):
    """The summaries of an evaluation by a policy that says ``turns``, and what was shown."""
    out = io.StringIO()
    display = Display(console=Console(file=out, width=120), clock=lambda: 0.0)  # bars write no lines
    evaluation = held_out(folder, display, **{"env": env, "eval.greedy": 0, "rollout.max_tokens": 2000, **settings})
    summaries = asyncio.run(evaluation.evaluate(when, 0, ScriptedPolicy(ByteChat(), turns)))
    display.eval_table(summaries)
    return summaries, out.getvalue().splitlines()


def test_between_steps_other_tasks_are_played_than_before_and_after(tmp_path):
    played = {}
    for env, split in ((WORD_ENV, "validation"), ("CliffWalking-v1", "")):
        for when in ("before", "step-0001", "after"):
            settings = {} if env == WORD_ENV else {"env_kwargs": {"max_episode_steps": 3}}
            (summary,), _ = evaluated(tmp_path / env / when, env, ["maple"], when, **settings)
            rows = read_jsonl(tmp_path / env / when / "eval" / f"{when}-sampled.jsonl")
            played[env, when] = [(row["scenario_id"], row["env_seed"]) for row in rows]
            assert summary["split"] == (split if when == "step-0001" else "test" if split else "")
        assert played[env, "before"] == played[env, "after"]
        assert not set(played[env, "before"]) & set(played[env, "step-0001"])


def test_a_plain_env_has_episodes_and_no_split(tmp_path):
    """By hand: three steps into the wall of the start cost -1 each. Two scenarios are too few for an interval."""
    settings = {"env_kwargs": {"max_episode_steps": 3}}
    (summary,), lines = evaluated(tmp_path, "CliffWalking-v1", [CALL], **settings)
    assert [" ".join(line.split()) for line in lines] == [
        "== Evaluation before GRPO: 2 episodes; beside it random",
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
    assert summary["metrics"]["episodes/context_full_share"]["mean"] == 1.0
    assert " ".join(lines[-1].split()) == "Cut, context full 100.0 %"


def test_more_scenarios_than_there_are_is_an_error_that_says_how_many(tmp_path):
    with pytest.raises(ValueError, match=r"asks for 5 scenarios but there are 4; ask for fewer \(eval\.scenarios\)"):
        evaluated(tmp_path, WORD_ENV, ["maple"], **{"eval.scenarios": 5})


class WaitsForThree(ScriptedPolicy):
    """Answers nobody until three episodes wait, and notes how many wait at once and at which temperatures."""

    def __init__(self):
        super().__init__(ByteChat(), ["maple"])
        self.enough, self.waiting, self.most, self.temperatures = asyncio.Event(), 0, 0, []

    async def sample(self, prompt_ids, params, *, max_tokens, seed):
        self.temperatures.append(params.temperature)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.waiting == 3:
            self.enough.set()
        await asyncio.wait_for(self.enough.wait(), 60)
        await asyncio.sleep(0)
        self.waiting -= 1
        return await super().sample(prompt_ids, params, max_tokens=max_tokens, seed=seed)


def test_sampled_and_greedy_episodes_are_played_in_one_pass_within_the_bound_on_episodes_at_once(tmp_path):
    policy = WaitsForThree()
    sampled, greedy = asyncio.run(held_out(tmp_path, **{"rollout.concurrency": 3}).evaluate("before", 0, policy))
    assert policy.most == 3
    assert policy.temperatures[:3] == [1.0, 0.0, 1.0], "question by question"
    assert (sampled["label"], sampled["temperature"]) == ("before-sampled", 1.0)
    assert (greedy["label"], greedy["temperature"]) == ("before-greedy", 0.0)
    assert sampled["episodes"] == greedy["episodes"] == 2
    assert sampled.keys() == (formats_page.SUMMARY | formats_page.OF_RUN).keys() - {"knows_answers"}
    assert sampled["seconds"] == greedy["seconds"], "the pass's time is shared by the number of episodes"


class Dies(ScriptedPolicy):
    """Answers once; then no server is left."""

    async def sample(self, *arguments, **options):
        if self.prompts:
            raise ServerDiedError("it ended")
        return await super().sample(*arguments, **options)


def test_an_evaluation_whose_server_was_lost_is_not_recorded_with_what_ended_first(tmp_path):
    evaluation = held_out(tmp_path, **{"eval.greedy": 0})
    with pytest.raises(ServerDiedError, match=r"is not recorded, .*; --resume plays it again: it ended"):
        asyncio.run(evaluation.evaluate("before", 0, Dies(ByteChat(), ["maple"])))
    assert not list((tmp_path / "eval").glob("*"))


def test_greedy_plays_more_tasks_the_first_ones_the_same_and_at_most_all(tmp_path):
    settings = {"eval.scenarios": 3, "eval.greedy": 2}  # the env has four
    (sampled, greedy), lines = evaluated(tmp_path, WORD_ENV, ["maple"], **settings)
    assert lines[:2] == [
        "== Evaluation before GRPO: 3 scenarios of the test split, 4 greedily; beside it oracle",
        "-- Evaluation on the test split, mean ± half of the 95 % interval",
    ]
    assert (sampled["episodes"], sampled["scenarios"], greedy["episodes"]) == (3, 3, 4)
    assert greedy["seconds"] == pytest.approx(4 / 3 * sampled["seconds"], abs=0.02)
    rows = {how: read_jsonl(tmp_path / "eval" / f"before-{how}.jsonl") for how in ("sampled", "greedy")}
    ids = {how: [row["scenario_id"] for row in own] for how, own in rows.items()}
    assert ids["sampled"] == ids["greedy"][:3]
    assert len(set(ids["greedy"])) == 4


def test_scripts_and_the_base_model_play_the_same_tasks_before_grpo_and_are_read_back(tmp_path):
    """By hand: of sums 0 to 3, ``wrong`` is right on 0 alone, and says 17 to the others; ``silly`` never."""
    settings = {"env": SUMS_ENV, "env_kwargs": {"count": 4}, "eval.scenarios": 4, "rollout.max_tokens": 2000}
    evaluation = held_out(tmp_path, **settings, **{"warm_start.steps": 1, "warm_start.policy": "wrong"})
    policies = [ScriptedPolicy(ByteChat(), [text]) for text in ("I don't know", "17")]
    policies[0].version = 0
    asyncio.run(evaluation.evaluate("before", 0, *policies))
    found = beside_baselines({label: read_json(path) for label, path in files(tmp_path, ".json").items()})
    assert {label: one["metrics"]["reward/mean"]["mean"] for label, one in found.items()} == {
        "before-greedy": 0.5,
        "base-model-baseline": 0.0,
        "oracle-baseline": 1.0,
        "silly-baseline": 0.0,
        "wrong-baseline": 0.25,
    }
    tasks = {label: {row["scenario_id"] for row in read_jsonl(tmp_path / f"eval/{label}.jsonl")} for label in found}
    assert all(own == tasks["before-greedy"] and len(own) == 4 for own in tasks.values())
    head, *rows = standings(found.values())
    assert head[:3] == ["", "Reward", "Success"]
    assert [row[0] for row in rows[2:]] == ["wrong", "policy before GRPO", "oracle"]
    asked = sum(len(policy.prompts) for policy in policies)
    asyncio.run(evaluation.evaluate("before", 0, *policies))
    assert sum(len(policy.prompts) for policy in policies) == asked
    (tmp_path / "eval" / "wrong-baseline.json").unlink()
    asyncio.run(evaluation.evaluate("before", 0, *policies))
    assert sum(len(policy.prompts) for policy in policies) == asked, "a run that was killed before a script had played"
    asyncio.run(evaluation.evaluate("after", 1, policies[0]))
    assert len(files(tmp_path, ".json")) == 2 + 2 + 4


def test_without_baselines_nobody_else_plays(tmp_path):
    evaluation = held_out(tmp_path, **{"eval.baselines": "none", "warm_start.steps": 1})
    policies = [ScriptedPolicy(ByteChat(), ["maple"]) for _ in range(2)]
    asyncio.run(evaluation.evaluate("before", 0, *policies))
    assert sorted(files(tmp_path, ".json")) == ["before-greedy", "before-sampled"]
    assert not policies[1].prompts


def accepting(reasoning):
    return json.dumps({"answer_id": ASKED, "reasoning": reasoning, "accept": True})


def marked(tmp_path, answer, **settings):
    """The summary of an evaluation on four sums, of which two have answers, by a policy that says ``a handful``."""
    with JudgeServer(answer) as server:
        judge = {"answer_judge.model": "openai/o4-mini", "answer_judge.api_base": server.url, "judge.max_failures": 0.3}
        few = {"eval.greedy": 0, "eval.scenarios": 4, "rollout.max_tokens": 2000, "env_kwargs": {"count": 4}}
        evaluation = held_out(tmp_path, env=SUMS_ENV, **few, **judge, **settings)
        (summary,) = asyncio.run(evaluation.evaluate("before", 0, ScriptedPolicy(ByteChat(), ["a handful"])))
    return summary


def test_held_out_answers_are_marked_as_those_of_the_training_are(tmp_path):
    summary = marked(tmp_path, lambda _: accepting("It is."))
    metrics = {name: value["mean"] for name, value in summary["metrics"].items()}
    assert (metrics["env/success"], metrics["reward/mean"]) == (0.5, 0.5), "two of four questions have an answer"
    assert (metrics["answer/by_judge"], metrics["answer/undecided"]) == (1.0, 0.0)
    (first, *_) = [e for e in read_jsonl(tmp_path / "eval" / "before-sampled.jsonl") if e["verdict"]]
    assert first["verdict"] == {"reasoning": "It is.", "accept": True, "decided_by": "judge"}


def test_a_held_out_episode_without_a_verdict_failed_and_counts_as_neither_right_nor_wrong(tmp_path):
    def moody(messages):
        return Reply("no") if "What is 2 + 2?" in messages[1]["content"] else accepting("")

    summary = marked(tmp_path, moody)
    assert (summary["failed"], summary["episodes"]) == (1, 3)
    assert summary["metrics"]["env/success"]["mean"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("answer", "settings", "reason"),
    [
        (
            lambda _: Reply("no"),
            {},
            "2 of 4 episodes have no verdict on their answers; the last error: .*no usable answer",
        ),
        (
            lambda _: accepting(""),
            {"answer_judge.max_cost": 1e-9, "answer_judge.concurrency": 1},
            "1 of 4 episodes have no verdict on their answers; the last error: .*are spent",
        ),
    ],
)
def test_an_evaluation_that_a_judge_left_unmarked_stops_the_run(tmp_path, answer, settings, reason):
    with pytest.raises(JudgeFailure, match=f"evaluation 'before-sampled': {reason}.*--resume"):
        marked(tmp_path, answer, **settings)


def test_what_was_evaluated_after_the_step_that_a_run_goes_on_from_is_forgotten(tmp_path):
    run, kept = RunDirectory(tmp_path), ["before-sampled", "step-0002-sampled"]
    for label, policy in (*zip(kept, (0, 2), strict=True), ("step-0004-sampled", 4), ("after-sampled", 5)):
        write_json(run.evaluation(label), {"policy": policy})
        run.evaluation(label).with_suffix(".jsonl").write_text("{}\n")
    run.checkpoints.mkdir()
    note_score(run.checkpoints, 2, 0.5)
    note_score(run.checkpoints, 4, 0.8)
    (tmp_path / "eval" / "results.json").write_text('{"notes": "of the user"}')
    forget_after(run, 4)
    assert best_of(run.checkpoints) == Best("step-0004", 0.8)
    assert not run.evaluation("after-sampled").exists()
    forget_after(run, 3)
    assert best_of(run.checkpoints) is None
    assert sorted(path.stem for path in (tmp_path / "eval").glob("*.json*")) == sorted([*kept, *kept, "results"])


def test_an_evaluation_whose_summary_is_damaged_is_made_again(tmp_path):
    run = RunDirectory(tmp_path)
    for content in ('{"policy": ', "[]", "{}", "\0"):
        write_text(run.evaluation("after-sampled"), content)
        assert not is_done(run, "after-sampled", 5)
        forget_after(run, 3)  # whose policy it is of cannot be known, so it stays until it is made again
        assert run.evaluation("after-sampled").exists()
