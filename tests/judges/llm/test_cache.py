"""The cache of usable answers, over real sockets and a real SQLite file."""

import copy
import multiprocessing
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from judges import JudgeInputError, MalformedVerdict, Session
from judges.llm.cache import AnswerCache, cache_key
from tests.judges.recorded_groups import GROUP, by_table, judge
from tests.support.judge_server import JudgeServer


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


def _write_many(cache, name):
    for n in range(100):
        cache.put(f"{name} {n}", f"answer {name} {n}")


def _write_many_at(path, name):
    _write_many(AnswerCache(path), name)


def test_several_processes_and_threads_write_one_cache(tmp_path):
    path = tmp_path / "cache.db"
    shared = AnswerCache(path)
    with multiprocessing.get_context("spawn").Pool(2) as processes, ThreadPoolExecutor(2) as threads:
        written = [processes.apply_async(_write_many_at, (path, f"process {n}")) for n in range(2)]
        list(threads.map(_write_many, [shared] * 2, ["thread 0", "thread 1"]))
        for process in written:
            process.get()
    names = [f"{kind} {n} {i}" for kind in ("process", "thread") for n in range(2) for i in range(100)]
    assert [shared.get(name) for name in names] == [f"answer {name}" for name in names]


def test_a_file_that_is_no_cache_is_refused_with_its_name(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be taken for one " * 20)
    with pytest.raises(JudgeInputError, match=r"notes.txt cannot be used \(file is not a database\)"):
        Session(cache=path)
    assert path.read_text().startswith("not a database")


def test_a_key_does_not_depend_on_the_order_of_parameters():
    assert cache_key({"a": 1, "b": {"c": 2, "d": 3}}) == cache_key({"b": {"d": 3, "c": 2}, "a": 1})
    assert cache_key({"a": 1}) != cache_key({"a": 2})
