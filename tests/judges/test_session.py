"""Limits, running cost, cache and record, over real sockets and a real SQLite file."""

import asyncio
import copy
import json
import multiprocessing
import sqlite3
import stat
import threading
from base64 import b64encode

import pytest

import judges
from judges import JudgeInputError, MalformedVerdict, Session, SpendLimitReached
from judges.cache import AnswerCache, cache_key
from judges.record import JudgementLog, read_judgements
from tests.judge_server import JudgeServer, Reply, score_by
from tests.judges.seed_run import GROUP, JUDGED_GROUP, USER, by_table, said

PRICE = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.01}
"""The test server reports 100 and 10 tokens: 20 cents a call."""


async def judge(server, lists=GROUP, **options):
    options = {"timeout_seconds": 20, "backoff_seconds": 0.01, **options}
    return await judges.ruler(lists, options.pop("judge_model", "openai/o4-mini"), api_base=server.url, **options)


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


async def test_the_price_of_a_known_model_comes_from_the_list():
    session = Session()
    with JudgeServer(by_table) as server:
        await judge(server, session=session)
    # o4-mini: $1.10 and $4.40 a million
    assert session.usage.cost_dollars == pytest.approx(100 * 1.1e-6 + 10 * 4.4e-6)


async def test_a_price_that_was_given_holds_for_that_call_alone():
    with JudgeServer(by_table) as server:
        for given, cost in ((PRICE, pytest.approx(0.2)), ({}, None)):
            session = Session()
            await judge(server, session=session, judge_model="openai/priced-once", extra_litellm_params=given)
            assert session.usage.to_dict()["cost_dollars"] == cost
    assert "input_cost_per_token" not in server.requests[0].body


async def test_an_unknown_price_is_none_and_not_zero():
    session = Session()
    with JudgeServer(by_table) as server:
        await judge(server, session=session, judge_model="openai/nobody-knows-me")
    assert session.usage.to_dict()["cost_dollars"] is None
    assert session.usage.unpriced_calls == 1
    assert "cost unknown" in str(session.usage)


async def test_nothing_is_asked_once_the_money_is_spent():
    session = Session(max_cost_dollars=0.5, max_concurrency=1)
    options = {"session": session, "judge_model": "openai/priced-2", "extra_litellm_params": PRICE}
    with JudgeServer(by_table) as server:
        for _ in range(3):  # 0.2, 0.4, 0.6: the third begins below the limit
            await judge(server, **options)
        with pytest.raises(SpendLimitReached, match=r"\$0.6000 are spent and max_cost_dollars is 0.5") as caught:
            await judge(server, **options)
    assert len(server.requests) == 3
    assert isinstance(caught.value, judges.JudgeError)
    assert isinstance(caught.value, RuntimeError)


async def test_a_limit_that_cannot_be_kept_is_an_error_after_the_first_reply():
    session = Session(max_cost_dollars=0.5)
    options = {"session": session, "judge_model": "openai/nobody-knows-me-either"}
    with JudgeServer(by_table) as server:
        await judge(server, **options)
        with pytest.raises(SpendLimitReached, match=r"price of judge .* is not known.*input_cost_per_token"):
            await judge(server, **options)
        free = {"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}
        session = Session(max_cost_dollars=0.5)
        for _ in range(2):
            await judge(server, session=session, judge_model="openai/own", extra_litellm_params=free)
    assert session.usage.to_dict()["cost_dollars"] == 0.0


class Crowd:
    """Answers only once ``size`` requests are waiting, and counts how many there ever were at the same time."""

    def __init__(self, size):
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.full = threading.Barrier(size)

    def __call__(self, messages):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.full.wait(timeout=60)
        with self.lock:
            self.now -= 1
        return score_by(lambda trajectory: (0.5, ""))(messages)


async def test_as_many_calls_as_the_limit_are_under_way_and_all_are_made():
    crowd = Crowd(3)
    session = Session(max_concurrency=3)
    with JudgeServer(crowd) as server:
        lists = [[[USER, said(str(n))]] for n in range(9)]
        await asyncio.gather(*(judge(server, group, session=session, timeout_seconds=60) for group in lists))
    assert (crowd.most, session.usage.calls) == (3, 9)


def test_the_limit_holds_over_threads_with_loops_of_their_own():
    crowd = Crowd(2)
    session = Session(max_concurrency=2)

    def work(name):
        for n in range(2):
            judges.score([[USER, said(f"{name} {n}")]], "o4-mini", api_base=server.url, session=session)

    with JudgeServer(crowd) as server:
        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (crowd.most, session.usage.calls) == (2, 8)


async def test_a_waiter_that_is_cancelled_gives_its_place_to_the_next():
    session = Session(max_concurrency=1)
    with JudgeServer(lambda messages: Reply(by_table(messages), delay_seconds=0.2)) as server:
        tasks = [asyncio.create_task(judge(server, session=session)) for _ in range(3)]
        await asyncio.sleep(0.1)
        tasks[0].cancel()  # holds the slot
        tasks[1].cancel()  # waits for it
        done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in done[:2]] == [asyncio.CancelledError] * 2
    assert [score.score for score in done[2]] == [0.1, 0.4, 0.2, 0.0]


async def test_what_was_judged_once_is_not_asked_again_in_another_session(tmp_path):
    path = tmp_path / "folder" / "cache.db"
    with JudgeServer(by_table) as server:
        first = await judge(server, session=Session(cache=path))
        again = Session(cache=path)
        assert await judge(server, copy.deepcopy(GROUP), session=again) == first
        assert len(server.requests) == 1
        assert (again.usage.calls, again.usage.cached, again.usage.cost_dollars) == (0, 1, 0.0)
        for change in (
            {"seed": 1},
            {"rubric": "Be strict."},
            {"judge_model": "openai/o3"},
            {"extra_litellm_params": {"max_tokens": 500}},
            {"tools": [{"type": "function"}]},
        ):
            await judge(server, session=again, **change)
        assert len(server.requests) == 6
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_malformed_answer_is_never_kept(tmp_path):
    with JudgeServer(lambda messages: "no") as server:
        for calls in (2, 4):
            with pytest.raises(MalformedVerdict):
                await judge(server, session=Session(cache=tmp_path / "cache.db"))
            assert len(server.requests) == calls


async def test_a_cached_answer_that_no_longer_parses_is_asked_for_again(tmp_path):
    path = tmp_path / "cache.db"
    with JudgeServer(by_table) as server:
        await judge(server, session=Session(cache=path))
        with sqlite3.connect(path) as database:
            database.execute("UPDATE judge_answers SET content = 'spoiled'")
        database.close()
        await judge(server, session=Session(cache=path))
        assert len(server.requests) == 2
        await judge(server, session=Session(cache=path))
        assert len(server.requests) == 2


def _write_many(path, name):
    cache = AnswerCache(path)
    for n in range(100):
        cache.put(f"{name} {n}", f"answer {name} {n}")


def test_several_processes_and_threads_write_one_cache(tmp_path):
    path = tmp_path / "cache.db"
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_write_many, args=(path, f"process {n}")) for n in range(2)]
    shared = AnswerCache(path)
    threads = [
        threading.Thread(target=lambda n=n: [shared.put(f"thread {n} {i}", "x") for i in range(100)]) for n in range(2)
    ]
    for worker in [*processes, *threads]:
        worker.start()
    for worker in [*processes, *threads]:
        worker.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert all(shared.get(f"process {n} {i}") == f"answer process {n} {i}" for n in range(2) for i in range(100))
    assert all(shared.get(f"thread {n} {i}") == "x" for n in range(2) for i in range(100))
    shared.close()
    assert shared.get("thread 0 0") == "x"  # opened again
    shared.close()


def test_a_file_that_is_no_cache_is_refused_with_its_name(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be taken for one " * 20)
    with pytest.raises(JudgeInputError, match=r"notes.txt cannot be used \(file is not a database\)"):
        Session(cache=path)
    assert path.read_text().startswith("not a database")


def test_a_key_does_not_depend_on_the_order_of_parameters():
    assert cache_key({"a": 1, "b": {"c": 2, "d": 3}}) == cache_key({"b": {"d": 3, "c": 2}, "a": 1})
    assert cache_key({"a": 1}) != cache_key({"a": 2})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_concurrency": 0}, "max_concurrency must be 1 or more"),
        ({"max_cost_dollars": 0}, "max_cost_dollars must be above 0"),
        ({"max_cost_dollars": float("nan")}, "max_cost_dollars must be above 0"),
        ({"record": "."}, "is a folder"),
    ],
)
def test_limits_that_cannot_be_used_are_refused(options, problem):
    with pytest.raises(JudgeInputError, match=problem):
        Session(**options)


async def test_every_prompt_answer_seed_cost_and_time_is_recorded(tmp_path):
    path = tmp_path / "run" / "judgements.jsonl"
    session = Session(record=path, clock=lambda: 1234.5)
    tools = [{"type": "function", "function": {"name": "search_inbox"}}]
    with JudgeServer(by_table) as server:
        await judge(server, session=session, seed=7, permutations=2, rubric="Be fair.", tools=tools)
    (record,) = read_judgements(tmp_path / "run")
    assert (record["format"], record["kind"], record["time"]) == (1, "ruler", 1234.5)
    assert record["trajectories"] == GROUP
    assert (record["rubric"], record["tools"]) == ("Be fair.", tools)
    assert [score["score"] for score in record["scores"]] == [0.1, 0.4, 0.2, 0.0]
    assert [score["explanation"] for score in record["scores"]] == [why for _, _, why in JUDGED_GROUP]
    sent = [[message["content"] for message in request.body["messages"]] for request in server.requests]
    for permutation, one in enumerate(record["verdicts"]):
        assert (one["seed"], one["permutation"]) == (7, permutation)
        assert [message["content"] for message in one["prompt"]] in sent
        assert one["answers"] == [by_table(one["prompt"])]
        assert one["scores"] == [0.1, 0.4, 0.2, 0.0]
        assert (one["prompt_tokens"], one["completion_tokens"], one["cached"]) == (100, 10, False)
        assert one["cost_dollars"] == pytest.approx(100 * 1.1e-6 + 10 * 4.4e-6)
        assert 0 < one["seconds"] < 20
        assert one["judge"] == {"model": "openai/o4-mini", "api_base": server.url, "params": {}}
        assert one["error"] is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_failed_judgement_is_recorded_with_its_reason(tmp_path):
    path = tmp_path / "judgements.jsonl"
    with JudgeServer(lambda messages: "no") as server, pytest.raises(MalformedVerdict):
        await judge(server, session=Session(record=path))
    (record,) = read_judgements(path)
    assert record["scores"] == []
    (one,) = record["verdicts"]
    assert (one["answers"], one["scores"]) == (["no", "no"], None)
    assert one["error"].startswith("MalformedVerdict: judge openai/o4-mini gave no usable verdict")


def _append_many(path, name):
    log = JudgementLog(path)
    for n in range(50):
        log.append({"name": f"{name} {n}", "filler": "x" * 50_000})


def test_records_of_several_writers_are_whole_lines_and_a_broken_line_spoils_itself_alone(tmp_path):
    path = tmp_path / "judgements.jsonl"
    path.write_text('{"format": 1, "name": "before"}\n{"format": 1, "na')  # a process was killed here
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_append_many, args=(path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    names = [record["name"] for record in read_judgements(path)]
    assert sorted(names) == sorted(["before", *(f"{name} {n}" for name in "ab" for n in range(50))])


async def test_no_key_is_written_or_printed(tmp_path, monkeypatch, capfd):
    secrets = {
        "environment": "sk-from-the-environment-0123456789",
        "argument": "sk-from-an-argument-0123456789",
        "params": "sk-from-the-params-0123456789",
        "header": "Bearer sk-from-a-header-0123456789",
        "url": "passwordinurl",
        "other": "hf_of_another_service_0123456789",
        "body": "sk-in-the-extra-body",
        "basic": b64encode(b"user:passwordinurl").decode(),
    }
    monkeypatch.setenv("OPENAI_API_KEY", secrets["environment"])
    monkeypatch.setenv("HF_TOKEN", secrets["other"])
    session = Session(cache=tmp_path / "cache.db", record=tmp_path / "judgements.jsonl")

    def leaky(messages):
        key = server.requests[-1].headers["authorization"]
        return Reply(status=401, content=f"Incorrect API key: {key}") if "leak" in str(messages) else by_table(messages)

    with JudgeServer(leaky) as server:
        with_password = server.url.replace("http://", f"http://user:{secrets['url']}@")
        for options in (
            {"api_base": server.url},
            {"api_base": server.url, "api_key": secrets["argument"], "debug": True},
            {"api_base": server.url, "extra_litellm_params": {"api_key": secrets["params"]}},
            {"api_base": server.url, "extra_litellm_params": {"extra_headers": {"X-Auth": secrets["header"]}}},
            {"api_base": server.url, "extra_litellm_params": {"extra_body": {"api_key": secrets["body"]}}},
            {"api_base": with_password, "debug": True},
        ):
            await judges.ruler(GROUP, "openai/o4-mini", session=session, timeout_seconds=20, **options)
            with pytest.raises(judges.JudgeCallError) as caught:
                await judges.ruler([[USER, said("leak")]], "openai/o4-mini", session=session, **options)
            assert not [name for name, secret in secrets.items() if secret in str(caught.value)]
    session.close()
    assert server.requests[0].headers["authorization"] == f"Bearer {secrets['environment']}"
    assert server.requests[-1].headers["authorization"] == f"Basic {secrets['basic']}"
    assert "Incorrect API key: Bearer [key]" in (tmp_path / "judgements.jsonl").read_text()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    shown = "".join(capfd.readouterr()) + repr(session)
    assert len(list(read_judgements(tmp_path))) == 12
    for name, secret in secrets.items():
        assert secret.encode() not in written, name
        assert secret not in shown, name


def test_a_record_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "judgements.jsonl"
    with pytest.raises(JudgeInputError, match="does not exist: nothing was judged there"):
        list(read_judgements(tmp_path))
    path.write_text(json.dumps({"format": 99}) + "\n")
    with pytest.raises(JudgeInputError, match=r"line 1 of .* has format 99 and this version reads 1"):
        list(read_judgements(path))
    path.write_text(json.dumps({"reward": 1}) + "\n")
    with pytest.raises(JudgeInputError, match=r"line 1 of .* is no judgement"):
        list(read_judgements(path))
