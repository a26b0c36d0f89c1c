"""RULER as a reward of TRL and of verifiers: called as they call it."""

import importlib
import logging
import sys
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import pydantic
import pytest

import judges
from judges import JudgeCallError, JudgeInputError, MalformedVerdict, Session, SpendLimitReached
from tests.support.judge_server import JudgeServer, Reply, score_by

WORTH = {"4": 1.0, "four": 0.75, "5": 0.0, "Paris": 0.5, "Rome": 0.25}
by_worth = score_by(lambda messages: (WORTH[messages[-1]["content"]], f"it says {messages[-1]['content']}"))


def said(text):
    return [{"role": "assistant", "content": text}]


def asked(text):
    return [{"role": "system", "content": "Be short."}, {"role": "user", "content": text}]


def trl_reward(server, **options):
    options = {"api_base": server.url, "timeout_seconds": 20, "backoff_seconds": 0.01, "max_retries": 0, **options}
    return judges.trl_reward("openai/o4-mini", **options)


@pytest.mark.parametrize("num_generations", [None, 2])
def test_every_completion_gets_its_score_in_the_order_of_the_batch(num_generations):
    logged = {}
    with JudgeServer(by_worth) as server:
        reward = trl_reward(server, num_generations=num_generations)
        texts = reward(
            prompts=["2 + 2?"] * 2 + ["Capital?"] * 2, completions=["5", "4", "Paris", "Rome"], trainer_state=None
        )
        turns = reward(
            prompts=[asked("2 + 2?")] * 2,
            completions=[said("four"), [*said("5"), {"role": "tool", "content": "no"}, *said("4")]],
            log_extra=logged.__setitem__,
        )
    assert (texts, turns) == ([0.0, 1.0, 0.5, 0.25], [0.75, 1.0])
    assert logged == {"ruler_explanation": ["it says four", "it says 4"]}
    assert len(server.requests) == 3
    assert reward.__name__ == "ruler"


@pytest.mark.parametrize(
    ("options", "prompts"),
    [
        *[({}, "aab"), ({}, "ab"), ({}, "a")],
        *[({"num_generations": 4}, "aa"), ({"num_generations": 2}, "aab"), ({"num_generations": 4}, "aabb")],
    ],
)
def test_a_slice_with_parts_of_groups_is_refused(options, prompts):
    with (
        JudgeServer([]) as server,
        pytest.raises(JudgeInputError, match=f"of {len(prompts)} completions does not hold whole"),
    ):
        trl_reward(server, **options)(prompts=list(prompts), completions=["4"] * len(prompts))
    assert server.requests == []


@pytest.mark.parametrize("wrong", [5, None, {"role": "assistant", "content": "4"}])
def test_what_is_neither_text_nor_messages_is_refused_and_shown(wrong):
    with (
        JudgeServer([]) as server,
        pytest.raises(JudgeInputError, match=f"a text or a list of messages, got {wrong!r}"),
    ):
        trl_reward(server)(prompts=["a", "a"], completions=["4", wrong])
    assert server.requests == []


def test_a_group_without_a_verdict_has_no_rewards_and_the_others_have_theirs(caplog):
    def picky(messages):
        return "no" if "Capital" in str(messages) else by_worth(messages)

    with JudgeServer(picky) as server, caplog.at_level(logging.WARNING):
        reward = trl_reward(server)
        batch = {"prompts": ["Capital?"] * 2 + ["2 + 2?"] * 2, "completions": ["Paris", "Rome", "4", "5"]}
        assert reward(**batch) == [None, None, 1.0, 0.0]
        assert reward(prompts=["Capital?"] * 2, completions=["Paris", "Rome"]) == [None, None]
    assert caplog.text.count("a group is left without rewards: openai/o4-mini gave no usable answer") == 2


@pytest.mark.parametrize(("failure", "error", "batches"), [("no", MalformedVerdict, 4), (401, JudgeCallError, 1)])
def test_a_training_ends_where_the_first_eight_groups_fail_or_every_call_will(failure, error, batches):
    batch = {"prompts": ["Capital?"] * 2 + ["2 + 2?"] * 2, "completions": ["Paris", "Rome", "4", "5"]}
    with JudgeServer(lambda messages: failure) as server:
        reward = trl_reward(server)
        for _ in range(batches - 1):
            assert reward(**batch) == [None] * 4, "half of a small batch says little"
        with pytest.raises(error):
            reward(**batch)


def test_settings_and_spent_money_end_the_training_and_do_not_train_on_nothing():
    with pytest.raises(TypeError, match="unexpected keyword argument 'permutation'"):
        judges.trl_reward("openai/o4-mini", permutation=4)
    with pytest.raises(JudgeInputError, match="num_generations must be 2 or more, got 1"):
        judges.trl_reward(num_generations=1)
    with pytest.raises(JudgeInputError, match="is no URL"):
        judges.trl_reward("openai/o4-mini", api_base="localhost:8000")
    with pytest.raises(JudgeCallError, match="no API key"):
        judges.trl_reward("openai/o4-mini")(prompts=["a", "a"], completions=["b", "c"])
    with JudgeServer(by_worth) as server:
        reward = trl_reward(server, session=Session(max_cost_dollars=1e-9))
        assert reward(prompts=["2 + 2?"] * 2, completions=["4", "5"]) == [1.0, 0.0]
        with pytest.raises(SpendLimitReached):
            reward(prompts=["2 + 2?"] * 2, completions=["5", "4"])


@pytest.mark.torch
def test_trl_itself_calls_it_and_logs_under_its_name(monkeypatch):
    pytest.importorskip("trl", reason="the caller is trl (install the extra 'dev')")
    import torch

    monkeypatch.setattr(importlib.import_module("trl.import_utils"), "is_vllm_available", lambda **version: False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trl = sys.modules.get("trl.trainer.grpo_trainer") or importlib.import_module("trl.trainer.grpo_trainer")
    monkeypatch.setattr(trl, "logger", logging.getLogger("trl"))  # its own needs an Accelerator
    monkeypatch.setattr(trl, "profiling_context", lambda *_: nullcontext())
    monkeypatch.setattr(trl, "gather", lambda rewards: rewards)
    logged = {}
    with JudgeServer(lambda messages: "no" if "Capital" in str(messages) else by_worth(messages)) as server:
        reward = trl_reward(server, num_generations=2)
        trainer = SimpleNamespace(
            accelerator=SimpleNamespace(device="cpu"),
            reward_funcs=[reward],
            reward_processing_classes=[None],
            reward_func_names=[trl.get_callable_name(reward)],
            state=None,
            environments=None,
            _log_completion_extra=logged.__setitem__,
            _log_metric=None,
        )
        prompts = [asked("2 + 2?")] * 2 + [asked("Capital?")] * 2
        inputs = [{"prompt": prompt, "answer": "x"} for prompt in prompts]
        completions = [said(text) for text in ("4", "5", "Paris", "Rome")]
        rewards = trl.GRPOTrainer._calculate_rewards.__wrapped__(trainer, inputs, prompts, completions, [[1]] * 4)
    assert trainer.reward_func_names == ["ruler"]
    assert rewards[:2].tolist() == [[1.0], [0.0]]
    assert torch.isnan(rewards[2:]).all()
    assert logged == {"ruler_explanation": ["it says 4", "it says 5", "", ""]}


class Said(pydantic.BaseModel):
    """A message of verifiers."""

    role: str
    content: str
    reasoning_content: str | None = None
    provider_state: list[dict] = [{"opaque": "0123"}]


class Tool(pydantic.BaseModel):
    name: str
    parameters: dict = {}


class Trace:
    """What is used of a trace of verifiers 0.4."""

    def __init__(self, text, name="agent", ok=True, trainable=True):
        self.messages = [Said(role="user", content="2 + 2?"), Said(role="assistant", content=text)]
        self.agent = SimpleNamespace(name=name, trainable=trainable)
        self.tools = [Tool(name="calculator")]
        self.ok, self.info, self.rewards = ok, {}, {}

    def record_reward(self, name, value, weight=1.0):
        self.rewards[name] = (value, weight)


def compared(server, **options):
    class Compared:
        """An Env of verifiers."""

        finalize = judges.verifiers_reward("openai/o4-mini", api_base=server.url, timeout_seconds=20, **options)

    return Compared()


async def test_the_attempts_of_an_episode_are_compared_and_their_traces_get_the_rewards():
    traces = [Trace("5"), Trace("4"), Trace("ignored", ok=False), Trace("ignored", name="judge", trainable=False)]
    with JudgeServer(by_worth) as server:
        await compared(server, weight=0.5).finalize(None, SimpleNamespace(traces=traces))
    assert [trace.rewards for trace in traces] == [{"ruler": (0.0, 0.5)}, {"ruler": (1.0, 0.5)}, {}, {}]
    assert [trace.info for trace in traces] == [{"ruler": "it says 5"}, {"ruler": "it says 4"}, {}, {}]
    shown = server.requests[0].body["messages"][1]["content"]
    assert '<tools>\n[{"name":"calculator","parameters":{}}]\n</tools>' in shown
    assert '{"role":"user","content":"2 + 2?"}' in shown
    assert "opaque" not in shown


async def test_a_failed_judgement_fails_the_episode_and_a_lone_attempt_is_refused():
    with JudgeServer(lambda messages: Reply(status=400, content="no")) as server:
        with pytest.raises(JudgeCallError):
            await compared(server).finalize(None, SimpleNamespace(traces=[Trace("4"), Trace("5")]))
        with pytest.raises(JudgeInputError, match=r"of 1 attempts of agent 'agent' one ended .*; use BestOfNEnv"):
            await compared(server).finalize(None, SimpleNamespace(traces=[Trace("4")]))
        one_of_three = [Trace("4"), Trace("5", ok=False), Trace("6", ok=False)]
        with pytest.raises(JudgeInputError, match=r"of 3 attempts of agent 'agent' one ended well.*: 2 failed"):
            await compared(server).finalize(None, SimpleNamespace(traces=one_of_three))
    with pytest.raises(TypeError, match="unexpected keyword argument 'rubrik'"):
        judges.verifiers_reward(rubrik="x")
