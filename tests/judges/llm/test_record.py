"""The record of judgements: what stands in it, who may write it, and what never does."""

import json
import multiprocessing
import stat
from base64 import b64encode

import pytest

import judges
from judges import JudgeInputError, MalformedVerdict, Session
from judges.llm.record import JudgementLog, read_judgements
from tests.judges.recorded_groups import GROUP, JUDGED_GROUP, USER, by_table, judge, said
from tests.support.judge_server import JudgeServer, Reply, shown_trajectories, verdict


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
    assert one["error"].startswith("MalformedVerdict: openai/o4-mini gave no usable answer")


def _append_many(path, name):
    log = JudgementLog(path)
    for n in range(50):
        log.append({"kind": "", "name": f"{name} {n}", "filler": "x" * 50_000})


def test_records_of_several_writers_are_whole_lines_and_a_broken_line_spoils_itself_alone(tmp_path):
    path = tmp_path / "judgements.jsonl"
    path.write_text('{"format": 1, "kind": "", "name": "before"}\n{"format": 1, "na')  # a process was killed here
    with multiprocessing.get_context("spawn").Pool(2) as writers:
        writers.starmap(_append_many, [(path, name) for name in "ab"], chunksize=1)
    names = [record["name"] for record in read_judgements(path)]
    assert sorted(names) == sorted(["before", *(f"{name} {n}" for name in "ab" for n in range(50))])


OF_ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-from-the-environment-0123456789",
    "HF_TOKEN": "hf_of_another_service_0123456789",
}
BASIC = b64encode(b"user:passwordinurl").decode()
HEADERS = {
    "X-Auth": "Bearer sk-from-a-header-0123456789",
    "X-Api-Key": 'session="a/b+c=="',
    "Of-Mine": "team-0123456789",
}


@pytest.mark.parametrize(
    ("options", "secrets"),
    [
        pytest.param({}, [], id="environment"),
        pytest.param({"api_key": "sk-an-argument-0123456789"}, ["sk-an-argument-0123456789"], id="argument"),
        pytest.param({"extra_litellm_params": {"api_key": "sk-of-params-012"}}, ["sk-of-params-012"], id="parameter"),
        pytest.param({"extra_litellm_params": {"extra_headers": HEADERS}}, [*HEADERS.values()], id="headers"),
        pytest.param({"extra_litellm_params": {"extra_body": {"api_key": "sk-of-body"}}}, ["sk-of-body"], id="body"),
        pytest.param({"users": "user:passwordinurl@"}, ["passwordinurl", "query-0123456789", BASIC], id="url"),
    ],
)
async def test_a_key_that_the_judge_repeats_is_in_no_score_record_cache_or_error_and_not_printed(
    tmp_path, monkeypatch, capfd, options, secrets
):
    for name, value in OF_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    secrets = [*secrets, *OF_ENVIRONMENT.values()]
    options = options.copy()
    users = options.pop("users", "")
    session = Session(cache=tmp_path / "cache.db", record=tmp_path / "judgements.jsonl")

    def repeat(messages):
        labels = shown_trajectories(messages)
        if len(labels) > 1:
            return verdict((label, 0.5, " and ".join(secrets)) for label in labels)
        return Reply(status=401, content=f"Incorrect API key: {server.requests[-1].headers['authorization']}")

    with JudgeServer(repeat) as server:
        url = server.url.replace("http://", f"http://{users}") + ("?key=query-0123456789" if users else "")
        call = {"api_base": url, "session": session, "timeout_seconds": 20, "debug": True, **options}
        scores = await judges.ruler(GROUP, "openai/o4-mini", **call)
        with pytest.raises(judges.JudgeCallError, match=r"Incorrect API key: .*\[key\]") as caught:
            await judges.ruler([[USER, said("a")]], "openai/o4-mini", **call)
    assert {score.explanation for score in scores} == {" and ".join(["[key]"] * len(secrets))}
    assert len(list(read_judgements(tmp_path))) == 2
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir()).decode(errors="replace")
    shown = "".join(capfd.readouterr()) + str(caught.value) + repr(session)
    for secret in secrets:
        for form in (secret, json.dumps(secret)[1:-1]):
            assert form not in written
            assert form not in shown


async def test_a_parameter_that_is_no_json_spoils_neither_cache_nor_record(tmp_path):
    params = {"metadata": {"client": object(), "of": {7: "a"}, "x": {1, 2}}}
    with JudgeServer(by_table) as server:
        for _ in range(2):
            session = Session(cache=tmp_path / "cache.db", record=tmp_path / "judgements.jsonl")
            await judges.ruler(
                GROUP, "openai/o4-mini", api_base=server.url, extra_litellm_params=params, session=session
            )
    assert len(server.requests) == 1
    first, second = read_judgements(tmp_path)
    expected = {"metadata": {"client": "<object>", "of": {"7": "a"}, "x": "<set>"}}
    assert first["verdicts"][0]["judge"]["params"] == second["verdicts"][0]["judge"]["params"] == expected


def test_a_record_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "judgements.jsonl"
    with pytest.raises(JudgeInputError, match="does not exist: nothing was judged there"):
        list(read_judgements(tmp_path))
    path.write_text(json.dumps({"format": 99}) + "\n")
    with pytest.raises(
        JudgeInputError, match=r"no line of .* can be used: line 1 has format 99, and this version reads 1"
    ):
        list(read_judgements(path))
    path.write_text(json.dumps({"reward": 1}) + "\n")
    with pytest.raises(JudgeInputError, match="line 1 is no judgement"):
        list(read_judgements(path))
