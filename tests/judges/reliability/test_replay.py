"""A recorded run judged again: the measures by hand, the command as a user meets it."""

import asyncio
import copy
import json

import pytest
from click.testing import CliRunner

import judges
from judges import JudgeInputError, MalformedVerdict, Session
from judges.cli import main
from judges.reliability.groups import read_recorded
from judges.reliability.replay import replay
from tests.judges.recorded_groups import USER, said
from tests.support.judge_server import JudgeServer, score_by

# Scores by what a trajectory says: the recorded judge's and the other's.
RECORDED = {"a": 0.1, "b": 0.4, "c": 0.8, "p": 0.5, "q": 0.5}
OTHER = {"a": 0.3, "b": 0.2, "c": 0.9, "p": 0.2, "q": 0.6}
GROUPS = ["abca", "pq"]


def judge_by(table):
    return score_by(lambda messages: (table[messages[-1]["content"]], "why"))


@pytest.fixture
def run(tmp_path):
    """A run directory with two judged groups and one that failed."""
    session = Session(record=tmp_path / "judgements.jsonl")

    async def record(url):
        for group in GROUPS:
            await judges.ruler([[USER, said(name)] for name in group], "o4-mini", api_base=url, session=session)

    with JudgeServer(judge_by(RECORDED)) as server:
        asyncio.run(record(server.url))
    with JudgeServer(lambda messages: "no") as server, pytest.raises(MalformedVerdict):
        judges.score([[USER, said("x")]], "o4-mini", api_base=server.url, session=session)
    return tmp_path


def test_the_agreement_is_as_computed_by_hand(run):
    with JudgeServer(judge_by(OTHER)) as server:
        agreement = replay(run, judges=["openai/other"], api_base=server.url)
    assert (agreement.groups, agreement.failures) == (2, 0)
    # a b c: recorded 0.1 0.4 0.8, other 0.3 0.2 0.9: pair ab flips, ac and bc do not: tau (2 - 1) / 3.
    # p q: tied in the record, so there is no tau and no pair that both order.
    assert (agreement.kendall_tau, agreement.tau_groups) == (pytest.approx(1 / 3), 1)
    assert (agreement.flip_rate, agreement.pairs) == (pytest.approx(1 / 3), 3)
    # differences: a 0.2 twice, b -0.2, c 0.1, p -0.3, q 0.1
    assert agreement.mean_difference == pytest.approx((0.2 + 0.2 - 0.2 + 0.1 - 0.3 + 0.1) / 6)
    assert agreement.mean_absolute_difference == pytest.approx(1.1 / 6)
    assert agreement.usage.calls == 2


def test_a_judge_that_agrees_with_itself_has_tau_one_and_no_flips(run):
    with JudgeServer(judge_by(RECORDED)) as server:
        session = Session()
        judges.score([[USER, said("a")]], "openai/same", api_base=server.url, session=session)
        agreement = replay(run, judges=["openai/same"], api_base=server.url, permutations=2, session=session)
    assert (agreement.kendall_tau, agreement.flip_rate, agreement.mean_difference) == (1.0, 0.0, 0.0)
    assert (agreement.usage.calls, session.usage.calls) == (4, 5)


def test_groups_without_a_verdict_are_counted_and_left_out(run):
    def picky(messages):
        return "no" if '"p"' in messages[1]["content"] else judge_by(OTHER)(messages)

    progress = []
    with JudgeServer(picky) as server:
        agreement = replay(
            run,
            judges=["openai/picky"],
            api_base=server.url,
            session=Session(max_concurrency=1),
            on_progress=lambda *numbers: progress.append(numbers),
        )
    assert progress == [(1, 0), (1, 1)]
    assert (agreement.groups, agreement.failures) == (1, 1)
    assert "gave no usable answer on 2 trajectories" in agreement.last_error
    assert agreement.mean_difference == pytest.approx((0.2 + 0.2 - 0.2 + 0.1) / 4)
    with JudgeServer(lambda messages: "no") as server, pytest.raises(MalformedVerdict):
        replay(run, judges=["openai/mute"], api_base=server.url)


def test_once_the_money_is_spent_the_groups_that_were_judged_are_compared(run):
    session = Session(max_concurrency=1, max_cost_dollars=1e-9)
    with JudgeServer(judge_by(OTHER)) as server:
        agreement = replay(run, judges=["openai/o4-mini"], api_base=server.url, session=session)
    assert (agreement.groups, agreement.failures, agreement.usage.calls) == (1, 1, 1)
    assert "are spent and the limit is" in agreement.last_error


def test_rubric_and_tools_of_the_record_are_used_unless_another_rubric_is_given(tmp_path):
    tools = [{"type": "function", "function": {"name": "search_inbox"}}]
    record = tmp_path / "judgements.jsonl"
    with JudgeServer(judge_by(RECORDED)) as server:
        options = {"api_base": server.url, "rubric": "Own words.", "tools": tools, "session": Session(record=record)}
        judges.score([[USER, said("a")], [USER, said("b")]], "o4-mini", **options)
        replay(record, judges=["openai/other"], api_base=server.url)
        replay(record, judges=["openai/other"], api_base=server.url, rubric="Other words.")
    _, second, third = (request.body["messages"] for request in server.requests)
    assert "Own words." in second[0]["content"]
    assert "Other words." in third[0]["content"]
    assert "Own words." not in third[0]["content"]
    assert "search_inbox" in second[1]["content"]


def invoke(*arguments):
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


def test_the_command_prints_the_agreement(run):
    with JudgeServer(judge_by(OTHER)) as server:
        shown = invoke(run, "--judge-model", "openai/other", "--judge-api-base", server.url)
        parsed = invoke(run, "--judge-model", "openai/other", "--judge-api-base", server.url, "--json", "--limit", 1)
    assert shown.exit_code == 0, shown.output
    assert [line.rstrip() for line in shown.output.splitlines()] == [
        "Groups compared    2",
        "Without a verdict  0",
        "Kendall's tau-b    +0.333  (mean of 1 groups; 1: same order)",
        "Flip rate          0.333  (of 3 pairs that both order; 0.5 is chance)",
        "Mean difference    +0.017  (other judge minus recorded)",
        "Mean |difference|  0.183",
        "Usage              2 calls, 0 from the cache, 200 + 20 tokens, cost unknown",
    ]
    numbers = json.loads(parsed.output)
    assert (numbers["groups"], numbers["pairs"], numbers["usage"]["calls"]) == (1, 3, 1)


def test_the_command_caches_and_records(run, tmp_path):
    cache, record = tmp_path / "cache.db", tmp_path / "again" / "judgements.jsonl"
    with JudgeServer(judge_by(OTHER)) as server:
        arguments = (run, "--judge-model", "openai/other", "--judge-api-base", server.url, "--cache", cache)
        assert invoke(*arguments).exit_code == 0
        shown = invoke(*arguments, "--record", record)
        assert len(server.requests) == 2
    assert "0 calls, 2 from the cache" in shown.output
    with JudgeServer(judge_by(RECORDED)) as server:
        back = invoke(record.parent, "--judge-model", "openai/first", "--judge-api-base", server.url)
    assert "Mean difference    -0.017" in back.output


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "does not exist: nothing was judged there"),
        ("", "holds no group that was scored"),
        ("{}\n", "can be used: line 1 is no judgement"),
    ],
)
def test_a_run_that_cannot_be_replayed_is_one_clear_line(tmp_path, content, problem):
    if content is not None:
        (tmp_path / "judgements.jsonl").write_text(content)
    shown = invoke(tmp_path, "--judge-model", "openai/other")
    assert shown.exit_code == 1
    assert shown.output.startswith("Error: ")
    assert problem in shown.output
    assert "Traceback" not in shown.output


def test_the_record_that_is_read_cannot_take_the_new_judgements_too(run):
    (run / "link").symlink_to(run)
    shown = invoke(run, "--judge-model", "openai/other", "--record", run / "link" / "judgements.jsonl")
    assert shown.exit_code == 1
    assert shown.output.endswith("judgements.jsonl is read; record the new judgements in another file\n")


def test_a_setting_that_cannot_be_used_is_one_error_and_no_group_of_errors(run):
    with pytest.raises(JudgeInputError, match="may not set model"):
        replay(run, judges=["openai/other"], extra_litellm_params={"model": "x"})


RECORD = {
    "format": 1,
    "kind": "ruler",
    "trajectories": [[USER, said(name)] for name in "ab"],
    "rubric": None,
    "tools": None,
    "scores": [{"score": 0.1}, {"score": 0.4}],
}
GONE = object()
CHANGES = [
    *[((key,), value) for key in ("format", "trajectories", "scores") for value in (GONE, 7, "abc", {"a": 1})],
    *[(("kind",), value) for value in (GONE, 7, {"a": 1})],
    (("format",), 99),
    *[(("trajectories",), []), (("trajectories", 0), []), (("trajectories", 0), [3]), (("trajectories", 0), "text")],
    (("trajectories", 0, 0), {"content": "no role"}),
    *[(("rubric",), 3), (("tools",), "search")],
    *[(("scores", 0), GONE), (("scores", 0), 0.5)],
    *[(("scores", 0, "score"), value) for value in (GONE, "high", float("nan"), 10**400)],
]


def changed(path, value):
    """The record's line with another value at a path, or without the key."""
    record = copy.deepcopy(RECORD)
    at = record
    for key in path[:-1]:
        at = at[key]
    if value is GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(record).encode()


WHOLE = json.dumps(RECORD).encode()
DEEP = changed(("trajectories", 0, 1, "content"), "DEEP").replace(b'"DEEP"', b"[" * 900 + b"]" * 900)
DAMAGED = [
    *[changed(path, value) for path, value in CHANGES],
    *[WHOLE[:-9], WHOLE + WHOLE, b"null", b"[]", b"3", b"9" * 5000, b"{", b"\x00" * 64, b"\xff" + WHOLE, DEEP],
]


@pytest.mark.parametrize("line", DAMAGED, ids=lambda line: line[:40].decode(errors="replace"))
def test_a_damaged_record_alone_is_refused_with_its_line(tmp_path, line):
    path = tmp_path / "judgements.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(JudgeInputError, match=r"^no line of .*judgements\.jsonl can be used: line 1 "):
        list(read_recorded(tmp_path))


def test_damaged_records_are_named_and_passed_over_and_spoil_themselves_alone(tmp_path, caplog):
    path = tmp_path / "judgements.jsonl"
    path.write_bytes(b"\n".join([b"\xef\xbb\xbf" + WHOLE, *DAMAGED, WHOLE, b"", b"\xef\xbb\xbf" + WHOLE, b"{"]))
    assert [list(group.labels) for group in read_recorded(tmp_path)] == [[0.1, 0.4]] * 3
    assert f"passed over in {path}: line 2 is no judgement" in caplog.text
    assert f"; and {len(DAMAGED) + 1 - 5} more" in caplog.text
