"""What judging may cost and has cost, over real sockets; the second and last turn of a question."""

import json
import sqlite3

import pytest

import judges
from judges import JudgeInputError, MalformedVerdict, Session, SpendLimitReached
from judges.llm.ask import Question, repair_turn
from judges.llm.prompt_text import count_message_tokens
from tests.judges.recorded_groups import by_table, judge
from tests.support.judge_server import JudgeServer, Reply


def completion(content, usage=None, **message):
    message = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return json.dumps(whole).encode()


PRICE = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.01}
"""The test server reports 100 and 10 tokens: 20 cents a call."""


async def test_calls_tokens_and_cost_add_up():
    session = Session()
    with JudgeServer(lambda messages: "no" if len(messages) == 2 else by_table(messages)) as server:
        await judge(server, session=session, judge_model="openai/priced-1", extra_litellm_params=PRICE)
    assert session.usage.to_dict() == {
        "calls": 2,  # the repair turn is a call
        "cached": 0,
        "prompt_tokens": 200,
        "completion_tokens": 20,
        "cost_dollars": pytest.approx(0.4),
        "unpriced_calls": 0,
    }
    assert str(session.usage) == "2 calls, 0 from the cache, 200 + 20 tokens, $0.4000"


async def test_a_price_that_was_given_holds_for_that_call_alone():
    with JudgeServer(by_table) as server:
        for given, cost in ((PRICE, pytest.approx(0.2)), ({}, None)):
            session = Session()
            await judge(server, session=session, judge_model="openai/priced-once", extra_litellm_params=given)
            assert session.usage.to_dict()["cost_dollars"] == cost
    assert "input_cost_per_token" not in server.requests[0].body


@pytest.mark.parametrize(
    ("model", "cost", "told"),
    [
        ("openai/o4-mini", pytest.approx(100 * 1.1e-6 + 10 * 4.4e-6), "$0.0002"),  # $1.10 and $4.40 a million
        ("openai/nobody-knows-me", None, "cost unknown"),
    ],
)
async def test_a_price_comes_from_the_list_and_an_unknown_one_is_none_and_not_zero(model, cost, told):
    session = Session()
    with JudgeServer(by_table) as server:
        await judge(server, session=session, judge_model=model)
    assert session.usage.to_dict()["cost_dollars"] == cost
    assert session.usage.unpriced_calls == (cost is None)
    assert told in str(session.usage)


async def test_nothing_is_asked_once_the_money_is_spent():
    session = Session(max_cost_dollars=0.5, max_concurrency=1)
    options = {"session": session, "judge_model": "openai/priced-2", "extra_litellm_params": PRICE}
    with JudgeServer(by_table) as server:
        for _ in range(3):  # 0.2, 0.4, 0.6: the third begins below the limit
            await judge(server, **options)
        with pytest.raises(SpendLimitReached, match=r"\$0.6000 are spent and the limit is \$0.5") as caught:
            await judge(server, **options)
    assert len(server.requests) == 3
    assert isinstance(caught.value, judges.JudgeError)
    assert isinstance(caught.value, RuntimeError)


async def test_a_limit_that_cannot_be_kept_is_an_error_after_the_first_reply():
    session = Session(max_cost_dollars=0.5)
    options = {"session": session, "judge_model": "openai/nobody-knows-me-either"}
    with JudgeServer(by_table) as server:
        await judge(server, **options)
        with pytest.raises(
            SpendLimitReached,
            match=r"what a call of .* costs is not known.*leave the limit out.*input_cost_per_token",
        ):
            await judge(server, **options)
        free = {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
        session = Session(max_cost_dollars=0.5)
        for _ in range(2):
            await judge(server, session=session, judge_model="openai/own", extra_litellm_params=free)
    assert session.usage.to_dict()["cost_dollars"] == 0.0


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {"prompt_tokens": -9, "completion_tokens": 1}}])
async def test_a_server_that_reports_no_usage_costs_an_unknown_sum_and_not_nothing(usage):
    def answer(messages):
        return Reply(raw=completion(by_table(messages), **usage))

    session = Session(max_cost_dollars=0.5)
    with JudgeServer(answer) as server:
        await judge(server, session=session)
        assert session.usage.to_dict()["cost_dollars"] is None
        with pytest.raises(SpendLimitReached, match="or its server reports no usage"):
            await judge(server, session=session, seed=1, extra_litellm_params=PRICE)
        own = Session(max_cost_dollars=0.5)
        for seed in (0, 1):
            await judge(server, session=own, seed=seed, extra_litellm_params={"input_cost_per_token": 0})
    assert own.usage.to_dict()["cost_dollars"] == 0.0


@pytest.mark.parametrize("price", [float("nan"), float("inf"), -1e-6, "1e-6", None, True])
def test_a_price_that_is_no_number_of_dollars_is_refused(price):
    with pytest.raises(JudgeInputError, match="output_cost_per_token must be dollars, 0 or more and finite, got"):
        judges.JudgeClient("m", extra_litellm_params={"output_cost_per_token": price})


HARMED = {
    "empty": Reply(""),
    "blanks": Reply(" \n" * 50, finish_reason="length"),
    "a brace and blanks to the limit": Reply('{"scores": [' + "\n" * 400, finish_reason="length"),
    "in reasoning_content": Reply(raw=completion("", reasoning_content='{"scores": []}')),
    **{f"{status}": status for status in (400, 404, 415, 422, 500, 501)},
}


@pytest.mark.parametrize("harmed", HARMED)
async def test_structured_output_that_harms_is_left_out_and_the_session_remembers_where_that_helped(harmed):
    def judged(messages):
        return HARMED[harmed] if "response_format" in server.requests[-1].body else by_table(messages)

    session = Session()
    with JudgeServer(judged) as server:
        for seed in (0, 1):
            await judge(server, session=session, seed=seed, max_retries=0)
    assert ["response_format" in request.body for request in server.requests] == [True, False, False]
    assert session.usage.calls == (2 if harmed.isdigit() else 3), "a reply that says nothing is paid"


@pytest.mark.parametrize(
    ("replies", "words", "asked"),
    [
        ([404, 404], "HTTP 404", [True, False]),
        ([""] * 3, "first the answer is empty; after the repair turn the answer is empty", [True, False, False]),
        (
            [Reply(raw=completion(None, reasoning="{}"))] * 3,
            "its text stands in reasoning_content",
            [True, False, False],
        ),
        (["no", "no"], "no complete JSON object", [True, True]),
        ([Reply("", finish_reason="content_filter")], "a filter of contents ended its reply", [True]),
        ([Reply('{"scores": [' + "0" * 400, finish_reason="length")] * 2, "finish_reason is length", [True, False]),
        ([Reply('{"scores": []}', finish_reason="")] * 2, "finish_reason is missing", [True, True]),
        ([Reply(raw=b"<html>")], "failed", [True]),
    ],
)
async def test_where_leaving_it_out_does_not_help_the_error_is_told(replies, words, asked):
    with JudgeServer(replies) as server, pytest.raises(judges.JudgeError, match=words):
        await judge(server, session=Session(), max_retries=0)
    assert ["response_format" in request.body for request in server.requests] == asked


async def test_a_judge_that_has_answered_with_structured_output_is_asked_for_it_after_a_failure_too():
    def judged(messages):
        return 500 if len(server.requests) == 2 else by_table(messages)

    session = Session()
    with JudgeServer(judged) as server:
        for seed in range(3):
            await judge(server, session=session, seed=seed, max_retries=0)
    assert ["response_format" in request.body for request in server.requests] == [True, True, False, True]


async def test_structured_output_of_the_callers_own_stays():
    own = {"response_format": {"type": "json_object"}}
    with JudgeServer([400]) as server, pytest.raises(judges.JudgeCallError):
        await judge(server, extra_litellm_params=own)
    assert [request.body["response_format"] for request in server.requests] == [{"type": "json_object"}]


async def test_a_reply_that_cannot_be_read_is_counted_and_the_limit_holds():
    session = Session(max_cost_dollars=0.5)
    with JudgeServer(lambda messages: Reply(raw=completion([{"type": "text", "text": "hm"}]))) as server:
        for error in (judges.JudgeCallError, SpendLimitReached):
            with pytest.raises(error):
                await judge(server, session=session)
    assert (session.usage.calls, session.usage.unpriced_calls, len(server.requests)) == (1, 1, 1)


async def test_a_record_on_a_full_disk_costs_no_verdict_and_warns_once(caplog):
    session = Session(record="/dev/full")
    with JudgeServer(by_table) as server:
        for seed in (0, 1):
            scores = await judge(server, session=session, seed=seed)
            assert [score.score for score in scores] == [0.1, 0.4, 0.2, 0.0]
    assert caplog.text.count("a judgement is not in the record /dev/full: [Errno 28] No space left on device") == 1


async def test_a_cache_that_cannot_be_written_costs_no_verdict_and_warns_once(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("judges.llm.cache._WAIT_FOR_WRITER_SECONDS", 0.05)
    session = Session(cache=tmp_path / "cache.db")
    other = sqlite3.connect(tmp_path / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with JudgeServer(by_table) as server:
        for seed in (0, 1):
            scores = await judge(server, session=session, seed=seed)
            assert [score.score for score in scores] == [0.1, 0.4, 0.2, 0.0]
        other.close()
        await judge(server, session=session, seed=2)
        await judge(server, session=session, seed=2)
    assert caplog.text.count("a verdict is not in the cache") == 1
    assert "database is locked" in caplog.text
    assert (session.usage.calls, session.usage.cached) == (3, 1)


async def test_a_cache_that_is_spoiled_meanwhile_costs_no_verdict_and_warns_once(tmp_path, caplog):
    session = Session(cache=tmp_path / "cache.db")
    with JudgeServer(by_table) as server:
        await judge(server, session=session)
        (tmp_path / "cache.db").write_bytes(b"spoiled" * 2_000)
        for seed in (0, 1):
            assert [score.score for score in await judge(server, session=session, seed=seed)] == [0.1, 0.4, 0.2, 0.0]
    assert caplog.text.count("a verdict that was paid for may be paid for again") == 1
    assert "file is not a database" in caplog.text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_concurrency": 0}, "max_concurrency must be 1 or more"),
        ({"max_cost_dollars": 0}, "max_cost_dollars must be above 0"),
        ({"max_cost_dollars": float("nan")}, "max_cost_dollars must be above 0"),
        ({"max_cost_dollars": "5"}, "max_cost_dollars must be above 0 and finite, got '5'"),
        ({"max_concurrency": 2.5}, "max_concurrency must be 1 or more, got 2.5"),
        ({"record": "."}, "is a folder"),
        ({"record": "README.md/x.jsonl"}, r"README.md/x.jsonl cannot be written \(.*README.md\)"),
    ],
)
def test_limits_that_cannot_be_used_are_refused(options, problem):
    with pytest.raises(JudgeInputError, match=problem):
        Session(**options)


MESSAGES = [{"role": "user", "content": "Score kqz and bnt."}]


def question(max_prompt_tokens=None):
    return Question(MESSAGES, {}, len, "one entry for each of the ids kqz, bnt", "2 trajectories", max_prompt_tokens)


def test_the_repair_turn_shows_the_answer_and_the_mistake_and_stays_short():
    turn = repair_turn(question(), "x" * 100_000, MalformedVerdict("no entry for the ids: bnt"))
    assert [message["role"] for message in turn] == ["assistant", "user"]
    assert turn[0]["content"] == "x" * 4000
    assert "no entry for the ids: bnt" in turn[1]["content"]
    assert "kqz, bnt" in turn[1]["content"]
    assert repair_turn(question(), "", MalformedVerdict("the answer is empty"))[0]["content"] == "(empty)"


@pytest.mark.parametrize(("max_prompt_tokens", "quoted"), [(10_000, "x" * 4000), (900, "x" * 2000), (10, "(empty)")])
def test_the_repair_turn_quotes_as_much_as_the_prompt_leaves_room_for(max_prompt_tokens, quoted):
    turn = repair_turn(question(max_prompt_tokens), "x" * 100_000, MalformedVerdict("no entry for the ids: bnt"))
    assert turn[0]["content"] == quoted
    if quoted != "(empty)":
        assert count_message_tokens([*MESSAGES, *turn]) <= max_prompt_tokens
