import asyncio
from pathlib import Path

import pytest

import judges
from judges import JudgeError, MalformedVerdict, TrajectoryScore
from tests.judges.recorded_groups import GROUP, JUDGED_GROUP, USER, by_table, judge, said
from tests.support.judge_server import JudgeServer, Reply, score_by, shown_trajectories, verdict


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


async def test_an_empty_group_gives_an_empty_list_without_a_call():
    with JudgeServer([]) as server:
        assert await judge(server, []) == []
    assert server.requests == []


async def test_a_wrong_verdict_is_shown_to_the_judge_once_and_then_is_an_error():
    problem = 'entries for ids that do not exist: "1"'
    words = r"no usable answer on 4 trajectories: first .*after the repair turn"
    wrong = verdict([("1", 0.5, "")])
    with JudgeServer([wrong, wrong]) as server, pytest.raises(MalformedVerdict, match=words) as caught:
        await judge(server, GROUP)
    assert problem in str(caught.value)
    assert isinstance(caught.value, JudgeError)
    first, second = (request.body["messages"] for request in server.requests)
    assert second[:2] == first
    assert [message["role"] for message in second[2:]] == ["assistant", "user"]
    assert problem in second[3]["content"]


@pytest.mark.parametrize(
    ("finish_reason", "why"),
    [
        ("length", "the model did not end the answer: its finish_reason is length; raise max_tokens"),
        ("content_filter", "the model did not end the answer: its finish_reason is content_filter"),
        ("abort", "the model did not end the answer: its finish_reason is abort"),
        (None, "the model did not end the answer: its finish_reason is None"),
    ],
)
async def test_a_whole_verdict_in_an_answer_that_the_model_did_not_end_may_be_a_draft(finish_reason, why):
    def draft(messages):
        if len(messages) == 4:
            return by_table(messages)
        first = verdict((label, 0.9, "draft") for label in shown_trajectories(messages))
        return Reply(content=f"First thought: {first}", finish_reason=finish_reason)

    with JudgeServer(draft) as server:
        assert [score.score for score in await judge(server, GROUP)] == [0.1, 0.4, 0.2, 0.0]
    assert why in server.requests[1].body["messages"][3]["content"]


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
    for part in ("You grade an AI agent", '{"scores"', "score=0.4,", "It searched well"):
        assert part in err


async def test_debug_shows_the_raw_answers_of_a_verdict_that_failed(capsys):
    with JudgeServer(lambda messages: "[bold]no\x1b[2J") as server, pytest.raises(MalformedVerdict):
        await judge(server, GROUP, debug=True)
    err = capsys.readouterr().err
    assert err.count("[bold]no[2J") > 1, "the answer after the repair turn, too"
    assert "no verdict" in err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"permutations": 0}, "permutations must be 1 or more, got 0"),
        ({"permutations": "4"}, "permutations must be 1 or more, got '4'"),
        ({"permutations": 2.5}, "permutations must be 1 or more, got 2.5"),
        ({"max_prompt_tokens": "9000"}, "max_prompt_tokens must be a number or None, got '9000'"),
        ({"rubric": Path("rubric.txt")}, r"rubric must be a text that is not empty, got PosixPath\('rubric.txt'\)"),
        ({"rubric": " "}, "leave it out for the generic"),
        ({"session": "cache.db"}, "session must be a judges.Session, got 'cache.db'"),
        ({"judges": []}, "judges must be a non-empty list"),
        ({"judges": "openai/o4-mini"}, "judges must be a non-empty list"),
        ({"judges": ["a"], "judge_model": "b"}, "name the judges in one of the two"),
        ({"judges": ["openai/a", "openai/b", "openai/a"]}, "judges name openai/a twice, and it would be asked once"),
        ({"tools": "search"}, "tools must be a list of function schemas"),
        ({"message_lists": GROUP[0]}, "message_lists is a list of trajectories, each of them a list of messages"),
    ],
)
async def test_a_setting_of_the_wrong_kind_is_told_with_its_value_and_nothing_is_sent(options, problem):
    with JudgeServer([]) as server, pytest.raises(judges.JudgeInputError, match=problem):
        await judges.ruler(**{"message_lists": GROUP, "api_base": server.url, **options})
    assert server.requests == []
