import asyncio
import copy
import dataclasses
import logging
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest
from openai.types.chat import ChatCompletionMessage, chat_completion

import judges
from judges import JudgeInputError, MalformedVerdict
from judges.llm.record import read_judgements
from tests.judges.recorded_groups import GROUP, JUDGED_GROUP, by_table
from tests.support.judge_server import JudgeServer, score_by


@dataclasses.dataclass(slots=True)
class Trajectory:
    messages: list[dict[str, Any]]
    reward: float = 0.0
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    tools: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    explanation: str | None = None


@dataclasses.dataclass(frozen=True)
class Group:
    trajectories: list[Trajectory]
    task: str = "tva"


async def score_group(server, group, **options):
    options = {"api_base": server.url, "timeout_seconds": 20, "backoff_seconds": 0.01, **options}
    return await judges.ruler_score_group(group, "openai/o4-mini", **options)


TOOLS = [{"type": "function", "function": {"name": "search_inbox", "parameters": {"type": "object"}}}]


async def test_a_scored_group_is_a_copy_and_the_input_stays_as_it_was():
    group = Group(
        [Trajectory(messages, reward=-1.0 - n, metrics={"turns": 2.0}, tools=TOOLS) for n, messages in enumerate(GROUP)]
    )
    before = copy.deepcopy(group)
    with JudgeServer(by_table) as server:
        scored = await score_group(server, group)
    assert group == before
    assert scored is not None
    assert scored.task == "tva"
    assert [t.reward for t in scored.trajectories] == [0.1, 0.4, 0.2, 0.0]
    assert scored.trajectories[1].metrics == {"turns": 2.0, "independent_reward": -2.0, "ruler_score": 0.4}
    assert [t.explanation for t in scored.trajectories] == [why for _, _, why in JUDGED_GROUP]
    assert "<tools>" in server.requests[0].body["messages"][1]["content"]


async def test_judging_again_keeps_the_reward_from_before_the_first_judgement():
    group = Group([Trajectory(messages, reward=-1.0) for messages in GROUP])
    with JudgeServer(score_by(lambda messages: (0.7, "again"))) as server:
        once = await score_group(server, group)
        twice = await score_group(server, once)
    assert [t.metrics for t in twice.trajectories] == [{"independent_reward": -1.0, "ruler_score": 0.7}] * 4


async def test_a_trajectory_with_a_log_gets_the_explanation_there_and_in_the_copy_alone():
    members = [SimpleNamespace(messages=m, reward=0.0, metrics={}, logs=["began"]) for m in GROUP]
    with JudgeServer(by_table) as server:
        scored = await score_group(server, SimpleNamespace(trajectories=members), permutations=2)
    assert [t.logs for t in scored.trajectories] == [
        ["began", f"RULER: {score:.3f}: {why}"] for _, score, why in JUDGED_GROUP
    ]
    assert [t.logs for t in members] == [["began"]] * 4


class PydanticTrajectory(pydantic.BaseModel):
    messages: list[dict[str, Any]]
    reward: float = 0.0
    metrics: dict[str, float] = {}


async def test_pydantic_models_and_plain_objects_serve_as_well():
    members = (
        PydanticTrajectory(messages=GROUP[0], reward=2.0),
        SimpleNamespace(messages=GROUP[1], reward=3.0, metrics={}, explanation=None),
    )
    group = SimpleNamespace(trajectories=members)
    with JudgeServer(score_by(lambda messages: (0.25, "fair"))) as server:
        scored = await score_group(server, group)
    assert isinstance(scored.trajectories, tuple)
    first, second = scored.trajectories
    assert (first.reward, first.metrics["independent_reward"]) == (0.25, 2.0)
    assert (second.reward, second.metrics["independent_reward"], second.explanation) == (0.25, 3.0, "fair")
    assert (members[0].reward, members[0].metrics, members[1].metrics) == (2.0, {}, {})


async def test_swallowed_failures_give_none_a_warning_and_an_untouched_input(caplog):
    group = Group([Trajectory(messages, reward=1.0) for messages in GROUP])
    before = copy.deepcopy(group)
    with JudgeServer(lambda messages: "no") as server, caplog.at_level(logging.WARNING):
        assert await score_group(server, group, swallow_exceptions=True) is None
        with pytest.raises(MalformedVerdict):
            await score_group(server, group)
    assert group == before
    assert "group of 4 left without scores: openai/o4-mini gave no usable answer" in caplog.text


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"timeout": 3}, TypeError, "unexpected keyword argument 'timeout'"),
        (
            {"judges": [judges.JudgeClient("ollama/qwen3")], "verbose": True},
            TypeError,
            "unexpected keyword argument 'verbose'",
        ),
        ({"timeout_seconds": 0}, JudgeInputError, "timeout_seconds must be above 0"),
        ({"api_base": "localhost:8000/v1"}, JudgeInputError, "is no URL"),
        ({"judges": []}, JudgeInputError, "judges must be a non-empty list"),
    ],
)
async def test_a_setting_that_cannot_be_used_is_never_swallowed(options, error, words):
    with pytest.raises(error, match=words):
        await judges.ruler_score_group(Group([Trajectory(GROUP[0])]), swallow_exceptions=True, **options)


async def test_a_group_whose_copy_cannot_be_made_is_not_paid_for():
    members = [SimpleNamespace(messages=messages, reward=0.0) for messages in GROUP]
    with JudgeServer(by_table) as server, pytest.raises(AttributeError, match="metrics"):
        await score_group(server, SimpleNamespace(trajectories=members), swallow_exceptions=True)
    assert server.requests == []


@pytest.mark.parametrize("member", [{"messages": GROUP[0], "reward": 0.0}, SimpleNamespace(reward=0.0, metrics={})])
async def test_a_member_without_messages_is_named(member):
    with JudgeServer([]) as server, pytest.raises(JudgeInputError, match="trajectory 1 must have messages, got a "):
        await score_group(server, SimpleNamespace(trajectories=[member]))


class ArtTrajectory(pydantic.BaseModel):
    """What openpipe-art 0.5.18 has, as far as it is used here."""

    messages_and_choices: list[Any] = []
    tools: list[dict[str, Any]] | None = None
    additional_histories: list[Any] = []
    reward: float = 0.0
    metrics: dict[str, float | int | bool] = {}
    metadata: dict[str, Any] = {}
    logs: list[str] = []

    def messages(self) -> list[Any]:
        return [getattr(message, "message", message) for message in self.messages_and_choices]


class ArtGroup(pydantic.BaseModel):
    trajectories: list[ArtTrajectory]
    metadata: dict[str, Any] = {}

    def __copy__(self):
        return self.__class__(trajectories=self.trajectories[:], metadata=self.metadata.copy())

    def __iter__(self):
        return iter(self.trajectories)


def choice(message):
    return chat_completion.Choice.model_validate({"index": 0, "finish_reason": "stop", "message": message})


async def test_a_group_of_art_is_judged_as_art_calls_it():
    members = [
        ArtTrajectory(
            messages_and_choices=[*messages[:2], choice(messages[2]), *messages[3:]], reward=0.5, metadata={"n": n}
        )
        for n, messages in enumerate(GROUP)
    ]
    group = ArtGroup(trajectories=members, metadata={"task": "tva"})
    before = group.model_dump()
    with JudgeServer(by_table) as server:
        options = {"api_base": server.url, "timeout_seconds": 20}
        scored = await judges.ruler_score_group(
            group, "openai/o3", {"reasoning_effort": "low"}, "Be fair.", swallow_exceptions=True, debug=False, **options
        )
        lists = [member.messages() for member in members]
        plain = await judges.ruler(
            lists, "openai/o3", {"reasoning_effort": "low"}, "Be fair.", None, debug=False, **options
        )
        again = judges.score_group(group, "openai/o3", {"reasoning_effort": "low"}, "Be fair.", **options)
    assert group.model_dump() == before
    assert isinstance(scored, ArtGroup)
    assert scored.metadata == {"task": "tva"}
    assert [t.reward for t in scored] == [t.reward for t in again] == [s.score for s in plain] == [0.1, 0.4, 0.2, 0.0]
    assert [t.metadata for t in scored] == [{"n": n} for n in range(4)]
    assert scored.trajectories[1].logs == ["RULER: 0.400: It searched well but stopped before reading."]
    bodies = [request.body for request in server.requests]
    assert [body["reasoning_effort"] for body in bodies] == ["low"] * 3
    assert all("Be fair." in body["messages"][0]["content"] for body in bodies)
    members[2].additional_histories.append("another")
    with pytest.raises(JudgeInputError, match="trajectory 3 has additional_histories, which are not judged"):
        await judges.ruler_score_group(group, "openai/o3", swallow_exceptions=True)


class ArtMainTrajectory(ArtTrajectory):
    """What ART's main branch has: turns and tools stand in exchanges, and a history tells them."""

    exchange: dict[str, Any] | None = None

    def history(self) -> SimpleNamespace:
        if self.exchange is None:
            raise ValueError("a raw completion has no messages")
        return SimpleNamespace(**self.exchange)

    def messages(self) -> list[Any]:
        return self.history().messages


async def test_the_tools_of_arts_histories_are_shown_and_a_history_without_messages_is_an_error(caplog):
    members = [ArtMainTrajectory(exchange={"messages": messages, "tools": TOOLS}) for messages in GROUP]
    with JudgeServer(by_table) as server:
        scored = await score_group(server, SimpleNamespace(trajectories=members))
        assert [member.reward for member in scored.trajectories] == [0.1, 0.4, 0.2, 0.0]
        assert "<tools>" in server.requests[0].body["messages"][1]["content"]
        raw = SimpleNamespace(trajectories=[*members[:3], ArtMainTrajectory()])
        with pytest.raises(JudgeInputError, match="trajectory 4 has no messages that can be judged: a raw completion"):
            await score_group(server, raw)
        assert await score_group(server, raw, swallow_exceptions=True) is None
    assert "group of 4 left without scores: trajectory 4 has no messages" in caplog.text


async def test_objects_of_the_openai_package_and_iterators_are_what_dicts_and_lists_are(tmp_path):
    message = ChatCompletionMessage.model_validate(GROUP[0][2])
    forms = [
        [[*messages[:2], choice(messages[2]), *messages[3:]] for messages in GROUP],
        [[*messages[:2], ChatCompletionMessage.model_validate(messages[2]), *messages[3:]] for messages in GROUP],
        (iter(messages) for messages in GROUP),
        [
            [*GROUP[0][:2], {"role": "assistant", "tool_calls": message.tool_calls}, *GROUP[0][3:]],
            *map(tuple, GROUP[1:]),
        ],
    ]
    with JudgeServer(by_table) as server:
        for form in forms:
            session = judges.Session(record=tmp_path / "judgements.jsonl")
            scores = await judges.ruler(form, "o4-mini", tools=iter(TOOLS), api_base=server.url, session=session)
            assert [score.score for score in scores] == [0.1, 0.4, 0.2, 0.0]
    assert len({request.body["messages"][1]["content"] for request in server.requests}) == 1
    for record in read_judgements(tmp_path):
        assert record["tools"] == TOOLS
        assert [messages[2].get("content") for messages in record["trajectories"]] == [
            None,
            None,
            None,
            GROUP[3][2]["content"],
        ]


async def test_trajectories_with_different_tools_are_no_group():
    group = Group([Trajectory(GROUP[0], tools=TOOLS), Trajectory(GROUP[1])])
    with JudgeServer([]) as server, pytest.raises(JudgeInputError, match="different tools"):
        await score_group(server, group)
    assert server.requests == []


async def test_an_empty_group_comes_back_empty():
    with JudgeServer([]) as server:
        assert (await score_group(server, Group([]))).trajectories == []
    assert server.requests == []


def test_the_synchronous_calls_work_with_and_without_a_running_loop():
    options = {"timeout_seconds": 20}

    async def notebook():
        return judges.score(GROUP, "o4-mini", api_base=server.url, **options)

    with JudgeServer(by_table) as server:
        plain = judges.score(GROUP, "o4-mini", api_base=server.url, **options)
        assert [score.score for score in plain] == [0.1, 0.4, 0.2, 0.0]
        assert asyncio.run(notebook()) == plain
        scored = judges.score_group(Group([Trajectory(messages) for messages in GROUP]), api_base=server.url, **options)
        assert [t.reward for t in scored.trajectories] == [0.1, 0.4, 0.2, 0.0]
