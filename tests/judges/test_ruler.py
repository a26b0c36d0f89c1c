import asyncio
import copy
import dataclasses
import json
import logging
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest

import judges
from judges import JudgeCallError, JudgeError, JudgeInputError, JudgeTimeoutError, MalformedVerdict, TrajectoryScore
from tests.judge_server import JudgeServer, Reply, score_by, shown_trajectories, verdict

SYSTEM = {
    "role": "system",
    "content": "You are an email search agent. Use the provided tools to search and read emails. You may take up to 10 turns. "
    "User's email address is joe.hartsoe@enron.com. Today's date is 1999-12-11.",
}
USER = {"role": "user", "content": "When did Steve Whitley say TVA would implement the NERC letter?"}
MAIL = "<18156447.1075846144018.JavaMail.evans@thyme>"


def calls(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
    }


def said(text):
    return {"role": "assistant", "content": text}


def result(text):
    return {"role": "tool", "tool_call_id": "call_0", "content": text}


# A group that a real 0.5B policy wrote, and what o4-mini thought of it.
JUDGED_GROUP = [
    (
        [calls("read_email", message_id="none"), result("Error: no such mail")],
        0.1,
        "It read a mail without searching and never answered.",
    ),
    (
        [calls("search_inbox", keywords=["TVA", "NERC"]), result(f"{MAIL} TVA to implement")],
        0.4,
        "It searched well but stopped before reading.",
    ),
    (
        [calls("read_email", message_id=MAIL), result("TVA ..."), said("In January.")],
        0.2,
        "It read the mail, then guessed.",
    ),
    (
        [said('{"name": "search_inbox", "arguments": {"keywords": [')],
        0.0,
        "Its search was malformed and it gave no answer.",
    ),
]
# The group after it: unknown arguments, and answers in prose.
UNKNOWN_ARGUMENTS_GROUP = [
    [
        calls("search_inbox", keywords=["TVA", "NERC letter", "Steve"], message_id="x"),
        result("Error: unknown argument message_id"),
    ],
    [
        calls("search_inbox", max_results=5, toolbench_rapid_search="x"),
        result("Error: unknown argument toolbench_rapid_search"),
    ],
    [
        calls("search_inbox", keywords=["TVA", "NERC"]),
        result(f"{MAIL} implement the NERC letter by Monday"),
        said("By Monday."),
    ],
    [calls("search_inbox", keywords=list("abcdefghi")), result("[]"), said("I was unable to find it.")],
]


def with_start(tails):
    return [[SYSTEM, USER, *tail] for tail in tails]


GROUP = with_start(tail for tail, _, _ in JUDGED_GROUP)


def by_table(messages):
    """Scores each trajectory of JUDGED_GROUP as o4-mini did, in reverse order of what was shown."""
    entries = []
    for label, shown in shown_trajectories(messages).items():
        texts = json.dumps(shown)
        (match,) = [(score, why) for tail, score, why in JUDGED_GROUP if _same(shown, tail)] or [(texts, "unknown")]
        entries.append((label, *match))
    return verdict(reversed(entries))


def _same(shown, tail):
    return json.dumps(shown, sort_keys=True).replace("call_1", "call_0") == json.dumps(
        [{k: v for k, v in message.items() if v is not None} for message in tail], sort_keys=True
    )


async def judge(server, lists, **options):
    options = {"api_base": server.url, "timeout_seconds": 20, "backoff_seconds": 0.01, **options}
    return await judges.ruler(lists, options.pop("judge_model", "openai/o4-mini"), **options)


@pytest.mark.parametrize("model", ["openai/o4-mini", "o4-mini"])
@pytest.mark.parametrize("seed", [0, 1, 2])
async def test_the_group_of_a_real_run_gets_each_score_and_explanation_at_its_own_trajectory(model, seed):
    with JudgeServer(by_table) as server:
        scores = await judge(server, GROUP, judge_model=model, seed=seed)
    assert scores == [
        TrajectoryScore(str(place), why, score) for place, (_, score, why) in enumerate(JUDGED_GROUP, start=1)
    ]
    (request,) = server.requests
    assert request.body["model"] == "o4-mini"
    assert request.body["messages"][1]["content"].count("joe.hartsoe@enron.com") == 1


async def test_the_group_with_unknown_arguments_and_prose_answers_is_judged_and_the_prose_answer_wins():
    with JudgeServer(
        score_by(lambda messages: (0.9, "right") if "By Monday." in str(messages) else (0.1, "no"))
    ) as server:
        scores = await judge(server, with_start(UNKNOWN_ARGUMENTS_GROUP))
    assert [score.score for score in scores] == [0.1, 0.1, 0.9, 0.1]


async def test_equal_trajectories_anywhere_are_judged_once_and_share_the_score():
    a, b = [SYSTEM, USER, said("a")], [SYSTEM, USER, said("b")]
    seen = []

    def biased_to_the_first(messages):
        seen.append(list(shown_trajectories(messages)))
        return verdict((label, 1.0 if place == 0 else 0.0, "first") for place, label in enumerate(seen[-1]))

    with JudgeServer(biased_to_the_first) as server:
        scores = await judge(server, [a, b, copy.deepcopy(a)])
    assert [len(labels) for labels in seen] == [2]
    assert scores[0].score == scores[2].score != scores[1].score
    assert [score.trajectory_id for score in scores] == ["1", "2", "3"]


@pytest.mark.parametrize("size", [1, 4])
async def test_one_trajectory_or_only_equal_ones_are_judged_on_their_own(size):
    with JudgeServer(score_by(lambda messages: (0.6, f"{len(messages)} messages"))) as server:
        scores = await judge(server, [[SYSTEM, USER, said("a")]] * size)
    assert [(score.score, score.explanation) for score in scores] == [(0.6, "3 messages")] * size
    assert len(server.requests) == 1


async def test_an_empty_group_gives_an_empty_list_without_a_call():
    with JudgeServer([]) as server:
        assert await judge(server, []) == []
    assert server.requests == []


def spoiled(how):
    """A judge that answers well but for one thing."""

    def answer(messages):
        labels = list(shown_trajectories(messages))
        return verdict(how([(label, 0.5, "") for label in labels]))

    return answer


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        (lambda entries: entries[1:], "no entry for the ids"),
        (lambda entries: [*entries, entries[0]], "more than one entry"),
        (lambda entries: [("1", 0.5, ""), *entries[1:]], 'entries for ids that do not exist: "1"'),
        (lambda entries: [(entries[0][0], 95, ""), *entries[1:]], "not 95"),
        (lambda entries: [(entries[0][0], -3, ""), *entries[1:]], "not -3"),
        (lambda entries: [(entries[0][0], float("nan"), ""), *entries[1:]], "not NaN"),
        (lambda entries: [(entries[0][0], "0.7", ""), *entries[1:]], 'not "0.7"'),
    ],
)
async def test_a_wrong_verdict_is_shown_to_the_judge_once_and_then_is_an_error(how, problem):
    with JudgeServer(spoiled(how)) as server:
        with pytest.raises(
            MalformedVerdict, match="no usable verdict on 4 trajectories: first .*after the repair turn"
        ) as caught:
            await judge(server, GROUP)
    assert problem in str(caught.value)
    assert isinstance(caught.value, JudgeError)
    first, second = (request.body["messages"] for request in server.requests)
    assert second[:2] == first
    assert [message["role"] for message in second[2:]] == ["assistant", "user"]
    assert problem in second[3]["content"]


async def test_a_judge_that_mends_its_verdict_in_the_repair_turn_is_heard():
    def late(messages):
        return by_table(messages) if len(messages) == 4 else "I would rather not."

    with JudgeServer(late) as server:
        scores = await judge(server, GROUP)
    assert [score.score for score in scores] == [0.1, 0.4, 0.2, 0.0]
    assert server.requests[1].body["messages"][2]["content"] == "I would rather not."


@pytest.mark.parametrize("content", ["", None, "I'm sorry, I can't help with that."])
async def test_silence_and_refusal_are_errors_and_never_scores(content):
    with JudgeServer(lambda messages: Reply(content=content)) as server:
        with pytest.raises(MalformedVerdict):
            await judge(server, GROUP)
    assert len(server.requests) == 2


async def test_a_cut_off_answer_is_told_apart():
    with JudgeServer(lambda messages: Reply(content='{"scores": [', finish_reason="length")) as server:
        with pytest.raises(MalformedVerdict, match="raise max_tokens"):
            await judge(server, GROUP)


async def test_fenced_json_after_a_429_is_accepted():
    statuses = [429]
    with JudgeServer(lambda messages: statuses.pop() if statuses else f"```json\n{by_table(messages)}\n```") as server:
        assert [score.score for score in await judge(server, GROUP)] == [0.1, 0.4, 0.2, 0.0]
    assert len(server.requests) == 2


async def test_a_hang_past_the_timeout_and_a_cut_connection_are_typed_errors():
    with JudgeServer(lambda messages: Reply(delay_seconds=30)) as server, pytest.raises(JudgeTimeoutError):
        await judge(server, GROUP, timeout_seconds=0.2, max_retries=0)
    with JudgeServer(lambda messages: Reply(cut=True)) as server, pytest.raises(JudgeCallError):
        await judge(server, GROUP, max_retries=1)
    assert len(server.requests) == 2


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
    assert "group of 4 left without scores: judge openai/o4-mini gave no usable verdict" in caplog.text


async def test_a_programming_error_is_not_swallowed():
    with pytest.raises(TypeError, match="timeout"):
        await judges.ruler_score_group(Group([Trajectory(GROUP[0])]), swallow_exceptions=True, timeout=3)


async def test_trajectories_with_different_tools_are_no_group():
    group = Group([Trajectory(GROUP[0], tools=TOOLS), Trajectory(GROUP[1])])
    with JudgeServer([]) as server, pytest.raises(JudgeInputError, match="different tools"):
        await score_group(server, group)
    assert server.requests == []


async def test_an_empty_group_comes_back_empty():
    with JudgeServer([]) as server:
        assert (await score_group(server, Group([]))).trajectories == []
    assert server.requests == []


def test_the_sync_doors_work_with_and_without_a_running_loop():
    options = {"timeout_seconds": 20}

    async def notebook():
        return judges.score(GROUP, "o4-mini", api_base=server.url, **options)

    with JudgeServer(by_table) as server:
        plain = judges.score(GROUP, "o4-mini", api_base=server.url, **options)
        assert [score.score for score in plain] == [0.1, 0.4, 0.2, 0.0]
        assert asyncio.run(notebook()) == plain
        scored = judges.score_group(Group([Trajectory(messages) for messages in GROUP]), api_base=server.url, **options)
        assert [t.reward for t in scored.trajectories] == [0.1, 0.4, 0.2, 0.0]


async def test_groups_judged_at_the_same_time_do_not_mix():
    def lists(name):
        return [[USER, said(f"{name} {n}")] for n in range(3)]

    with JudgeServer(score_by(lambda messages: (int(str(messages)[-4]) / 10, str(messages)))) as server:
        verdicts = await asyncio.gather(*(judge(server, lists(name)) for name in "abcdefgh"))
    for name, scores in zip("abcdefgh", verdicts, strict=True):
        assert [score.score for score in scores] == [0.0, 0.1, 0.2]
        assert all(f"{name} {n}" in score.explanation for n, score in enumerate(scores))


async def test_debug_shows_prompt_raw_answer_and_scores_on_stderr_and_nothing_is_printed_otherwise(capsys):
    with JudgeServer(by_table) as server:
        await judge(server, GROUP)
        assert capsys.readouterr() == ("", "")
        await judge(server, GROUP, debug=True)
    out, err = capsys.readouterr()
    assert out == ""
    for part in ("You grade an AI agent", "raw answer 1", '{"scores"', "0.400", "It searched well"):
        assert part in err


async def test_debug_shows_the_raw_answers_of_a_verdict_that_failed(capsys):
    with JudgeServer(lambda messages: "[bold]no") as server, pytest.raises(MalformedVerdict):
        await judge(server, GROUP, debug=True)
    err = capsys.readouterr().err
    assert "raw answer 2 (after the repair turn)" in err
    assert "[bold]no" in err
    assert "no verdict" in err


def test_importing_judges_opens_no_socket_and_leaves_litellm_alone():
    program = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("a socket was opened")
socket.socket = socket.create_connection = refuse
import judges
heavy = {"litellm", "torch", "openai", "httpx"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_loading_litellm_contacts_nobody_and_prints_nothing():
    program = """
import socket
def refuse(self, address):
    raise AssertionError(f"a connection to {address} was tried")
socket.socket.connect = socket.socket.connect_ex = refuse
from judges.client import _load_litellm
_load_litellm()
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=120, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
