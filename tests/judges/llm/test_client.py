import json
import time
from base64 import b64encode

import pytest

from judges import ContextOverflow, JudgeCallError, JudgeInputError, JudgeTimeoutError
from judges.llm.client import JudgeClient
from judges.llm.failure import Failure
from judges.scoring.verdict import RESPONSE_FORMAT
from tests.support.judge_server import JudgeServer, Reply

ASK = [{"role": "user", "content": "grade"}]


def client(server, **options):
    options = {"timeout_seconds": 20, "backoff_seconds": 0.01, **options}
    return JudgeClient(options.pop("model", "o4-mini"), api_base=server.url, **options)


async def test_a_bare_name_with_a_url_speaks_openai_to_that_url_and_needs_no_key():
    with JudgeServer(["hello"]) as server:
        reply = await client(server).complete(ASK, RESPONSE_FORMAT)
    assert (reply.content, reply.finish_reason) == ("hello", "stop")
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body["model"] == "o4-mini"
    assert request.body["messages"] == ASK
    assert request.body["response_format"] == RESPONSE_FORMAT


async def test_url_and_key_may_come_from_the_environment_and_end_in_a_line_break(monkeypatch):
    with JudgeServer(["a", "b"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", " sk-from-environment\r\n")
        await JudgeClient("openai/some-model").complete(ASK)
        await JudgeClient("openai/some-model", f" {server.url}\n", "sk-from-argument\n").complete(ASK)
    keys = [request.headers["authorization"] for request in server.requests]
    assert keys == ["Bearer sk-from-environment", "Bearer sk-from-argument"]
    assert server.requests[0].body["model"] == "some-model"


async def test_user_and_password_of_the_url_go_to_the_server_in_place_of_the_key(monkeypatch):
    with JudgeServer(["a", "b", "c"]) as server:
        url = server.url.replace("://", "://me:p%40ss@")
        await JudgeClient("o4-mini", api_base=url).complete(ASK)
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        await JudgeClient("openai/o4-mini").complete(ASK)
        own = {"extra_headers": {"Authorization": "Bearer of-the-proxy"}}
        await JudgeClient("openai/o4-mini", extra_litellm_params=own).complete(ASK)
    basic = "Basic " + b64encode(b"me:p@ss").decode()
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == [basic, basic, "Bearer of-the-proxy"], "what the user says in a header goes before"


@pytest.mark.parametrize("model", ["hosted_vllm/Qwen/Qwen2.5-0.5B", "openai/Qwen/Qwen2.5-0.5B"])
async def test_a_model_name_may_hold_slashes_after_its_provider(model):
    with JudgeServer(["hello"]) as server:
        assert (await client(server, model=model).complete(ASK)).content == "hello"
    assert server.requests[0].body["model"] == "Qwen/Qwen2.5-0.5B"


async def test_parameters_of_litellm_reach_the_server():
    with JudgeServer(["hello"]) as server:
        params = {"max_tokens": 77, "temperature": 0.5, "api_base": server.url, "api_key": "sk-in-params"}
        await JudgeClient("openai/some-model", extra_litellm_params=params).complete(ASK)
    assert server.requests[0].body["max_tokens"] == 77
    assert server.requests[0].body["temperature"] == 0.5
    assert server.requests[0].headers["authorization"] == "Bearer sk-in-params"
    assert params["max_tokens"] == 77
    assert len(params) == 4


@pytest.mark.parametrize("status", [429, 500, 503, 408])
async def test_a_passing_failure_is_tried_again(status):
    with JudgeServer([status, status, "hello"]) as server:
        assert (await client(server).complete(ASK)).content == "hello"
    assert len(server.requests) == 3


async def test_a_cut_connection_and_a_hang_are_tried_again():
    with JudgeServer([Reply(cut=True), Reply(delay_seconds=300), "hello"]) as server:
        assert (await client(server, timeout_seconds=2).complete(ASK)).content == "hello"
    assert len(server.requests) == 3


async def test_retries_are_bounded_and_the_error_says_what_happened():
    words = r"^openai/o4-mini at http://127.* failed after 3 attempts \(HTTP 429: .*429"
    with JudgeServer([429] * 9) as server, pytest.raises(JudgeCallError, match=words) as caught:
        await client(server, max_retries=2).complete(ASK)
    assert len(server.requests) == 3
    assert caught.value.status == 429
    assert caught.value.__suppress_context__, "litellm's own error may repeat a key"
    assert isinstance(caught.value, ConnectionError)


async def test_the_wait_before_a_retry_honours_retry_after():
    with JudgeServer([Reply(status=429, headers={"Retry-After": "0.5"}), "hello"]) as server:
        began = time.monotonic()
        await client(server, timeout_seconds=60).complete(ASK)
    assert time.monotonic() - began >= 0.5


async def test_a_hang_past_the_timeout_of_every_attempt_is_a_timeout():
    with (
        JudgeServer([Reply(delay_seconds=300)] * 2) as server,
        pytest.raises(
            JudgeTimeoutError, match=r"did not answer within 0.2 s after 2 attempts; raise timeout_seconds"
        ) as caught,
    ):
        await client(server, timeout_seconds=0.2, max_retries=1).complete(ASK)
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_failure_that_a_retry_cannot_mend_ends_at_once(status):
    with JudgeServer([status, "hello"]) as server:
        judge = client(server)
        with pytest.raises(JudgeCallError, match=r"failed \("):
            await judge.complete(ASK, RESPONSE_FORMAT)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
        (429, {"error": {"message": "No more", "type": "billing_hard_limit_reached"}}),
        (413, {"error": {"message": "Request too large"}}),
        (402, {"error": {"message": "Insufficient credits"}}),
        (400, {"error": {"message": "The prompt was filtered", "code": "content_filter"}}),
        (500, {"error": {"message": "no", "type": "content_policy_violation"}}),
        (400, {"error": {"message": "Invalid prompt: it was flagged", "code": "invalid_prompt"}}),
        (400, {"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
    ],
)
async def test_a_failure_that_lasts_is_not_tried_again(status, said):
    words = rf"failed \(HTTP {status}: "
    with (
        JudgeServer([Reply(status=status, raw=json.dumps(said).encode()), "hello"]) as server,
        pytest.raises(JudgeCallError, match=words) as caught,
    ):
        await client(server).complete(ASK, RESPONSE_FORMAT)
    assert (len(server.requests), caught.value.status, caught.value.may_be_of_form) == (1, status, False)


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>",
        b"",
        b'data: {"choices": []}\n\n',
        b"[]",
        b'{"id": "1", "usage": {"prompt_tokens": 9}}',
        b'{"choices": [{"message": 3}]}',
        b'{"choices": [{"message": {"content": {"scores": []}}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": [{"type": "text", "text": "hm"}]}, "finish_reason": "stop"}]}',
    ],
)
@pytest.mark.parametrize("model", ["openai/m", "hosted_vllm/m"])
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # as `load_litellm` does; a test has its own filters
async def test_a_reply_that_cannot_be_read_may_be_paid_so_it_is_asked_for_once(raw, model):
    with JudgeServer([Reply(raw=raw), "hello"]) as server:
        reply = await client(server, model=model).complete(ASK)
    assert (reply.content, reply.cost_dollars, len(server.requests)) == ("", None, 1)
    assert reply.problem.startswith(f"{model} at {server.url} failed (")
    assert "Traceback" not in reply.problem
    if raw.startswith(b"{"):
        assert "HTTP 200: {" in reply.problem, "what the server says, and not that litellm cannot read it"


@pytest.mark.parametrize(("code", "asked"), [(400, 1), (401, 1), (413, 1), (429, 3), (502, 3), ("503", 3), (529, 3)])
async def test_an_error_with_a_status_is_that_also_in_a_reply_with_status_200(code, asked):
    said = json.dumps({"error": {"message": "Provider returned error", "code": code}}).encode()
    with (
        JudgeServer([Reply(raw=said)] * 2 + [Reply(raw=said)]) as server,
        pytest.raises(JudgeCallError, match=r"HTTP 200: .*Provider returned error") as caught,
    ):
        await client(server, max_retries=2).complete(ASK)
    assert (len(server.requests), caught.value.status) == (asked, int(code))


@pytest.mark.parametrize("code", ["insufficient_quota", 1302, 0, -1, 5.5, True, None, {"a": 1}, 500])
async def test_an_error_in_a_reply_with_status_200_that_names_no_status_is_not_asked_again(code):
    said = json.dumps({"error": {"message": "Provider returned error", "code": code}}).encode()
    with JudgeServer([Reply(raw=said)]) as server:
        reply = await client(server, max_retries=2).complete(ASK)
    assert "Provider returned error" in reply.problem
    assert len(server.requests) == 1


async def test_what_is_refused_before_it_is_sent_is_not_paid():
    with JudgeServer([]) as server, pytest.raises(JudgeCallError, match=r"failed \("):
        await client(server, extra_litellm_params={"tools": 5}).complete(ASK)
    assert server.requests == []


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        ("stop", "stop"),
        ("eos_token", "stop"),
        ("length", "length"),
        ("abort", "abort"),
        ("error", "error"),
        (None, "None"),
    ],
)
async def test_the_end_of_a_reply_is_told_as_the_server_wrote_it(end, shown):
    with JudgeServer([Reply("hello", finish_reason=end)] * 2) as server:
        for model in ("openai/m", "hosted_vllm/m"):
            assert (await client(server, model=model).complete(ASK)).finish_reason == shown


async def test_a_server_on_loopback_is_asked_past_a_proxy(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "intranet.example")
    monkeypatch.delenv("no_proxy", raising=False)
    with JudgeServer(["a", "b"]) as server:
        for model in ("openai/m", "hosted_vllm/m"):
            assert (await client(server, model=model, max_retries=0).complete(ASK)).content in "ab"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("the model is loaded with context length of only 4096 tokens", "the model is loaded with context length"),
        ({"message": "This model's maximum context length is 4096 tokens"}, "maximum context length is 4096"),
        ({"message": "Input tokens exceed the configured limit of 9 tokens"}, "exceed the configured limit"),
        ({"message": "The input token count (9) exceeds the maximum number of tokens allowed (4)."}, "token count"),
        ({"message": "The decoder prompt (length 9) is longer than the maximum model length of 4."}, "is longer than"),
    ],
)
async def test_a_prompt_above_the_context_is_told_in_the_servers_words(error, words):
    with (
        JudgeServer([Reply(status=400, raw=json.dumps({"error": error}).encode())]) as server,
        pytest.raises(ContextOverflow, match=f"{words}.*; lower max_prompt_tokens") as caught,
    ):
        await client(server).complete(ASK, RESPONSE_FORMAT)
    assert not caught.value.may_be_of_form


async def test_a_url_without_a_path_is_hinted_at_where_nothing_is_found():
    said = {"error": "Unexpected endpoint or method. (POST /chat/completions)"}  # LM Studio, with status 200
    with JudgeServer([404, 405, Reply(raw=json.dumps(said).encode()), Reply(raw=b"<html>"), 404]) as server:
        judge = JudgeClient("openai/m", api_base=server.url.removesuffix("v1"))
        for _ in range(3):
            with pytest.raises(JudgeCallError, match=f"its URL has no path: is it {server.url}\\?"):
                await judge.complete(ASK)
        assert f"is it {server.url}?" in (await judge.complete(ASK)).problem, "a page"
        with pytest.raises(JudgeCallError) as caught:
            await client(server).complete(ASK)
    assert "its URL" not in str(caught.value)


def failure(status, retry_after=None):
    return Failure(status, "", {} if retry_after is None else {"retry-after": retry_after})


@pytest.mark.parametrize(
    ("failed", "shortest"),
    [
        (failure(500), [1, 2, 4]),
        (failure(None), [1, 2, 4]),
        (failure(429), [9, 18, 36]),
        (failure(429, "soon"), [9, 18, 36]),
        (failure(429, "0"), [1, 2, 4]),
        (failure(429, "12"), [12, 12, 12]),
        (failure(503, "2.5"), [2.5, 2.5, 4]),
        (failure(429, "3600"), [60, 60, 60]),
        (failure(429, "Sun, 06 Nov 1994 08:49:37 GMT"), [1, 2, 4]),
    ],
)
def test_a_wait_is_what_the_server_asks_for_or_doubles_within_a_bound(failed, shortest):
    for attempt, least in enumerate(shortest, start=1):
        waits = {failed.wait_seconds(attempt, 1.0) for _ in range(40)}
        assert least <= min(waits) < max(waits) <= min(least + 2, 60) * 1.25, "with jitter, upwards"
    assert failure(429).wait_seconds(9, 1.0) <= 75


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"])
def test_a_date_says_how_long_to_wait_in_each_of_the_three_forms_of_http(form):
    date = time.strftime(form, time.gmtime(time.time() + 30))
    assert 25 < failure(429, date).wait_seconds(1, 1.0) < 30 * 1.25


def test_no_repr_holds_a_key():
    assert "sk-verysecret" not in repr(JudgeClient("m", api_key="sk-verysecret-0123456789"))
    hidden = {"extra_headers": {"X-Team": "team-mail-0123"}, "max_tokens": 9}
    judge = JudgeClient("m", api_base="http://me:pa55word@host:1/v1?key=0123456789", extra_litellm_params=hidden)
    shown = {"model": "openai/m", "api_base": "http://host:1/v1", "params": {"max_tokens": 9}}
    assert repr(judge) == f"JudgeClient({shown})"


async def test_failures_print_nothing(capsys):
    with JudgeServer([401, 500, 400]) as server:
        for _ in range(3):
            with pytest.raises(JudgeCallError):
                await client(server, max_retries=0).complete(ASK)
    assert capsys.readouterr() == ("", "")


async def test_no_connection_outlives_its_request():
    with JudgeServer(["a", "b"]) as server:
        await client(server).complete(ASK)
        await client(server, extra_litellm_params={"extra_headers": {"X-Team": "mail"}}).complete(ASK)
    assert [request.headers["connection"] for request in server.requests] == ["close", "close"]
    assert server.requests[1].headers["x-team"] == "mail"


async def test_without_a_key_or_a_url_nothing_is_sent():
    with pytest.raises(JudgeCallError, match="no API key for openai/o4-mini; set OPENAI_API_KEY"):
        await JudgeClient("openai/o4-mini").complete(ASK)


async def test_openais_key_goes_to_openai_alone(monkeypatch):
    """A bare name may be another provider's: it gets that provider's key and URL."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-anthropic")
    with JudgeServer(["a"]) as openai, JudgeServer([401]) as anthropic:
        monkeypatch.setenv("OPENAI_BASE_URL", openai.url)
        monkeypatch.setenv("ANTHROPIC_API_BASE", anthropic.url.removesuffix("/v1"))
        assert (await JudgeClient("gpt-4.1").complete(ASK)).content == "a"
        with pytest.raises(JudgeCallError, match="HTTP 401"):
            await JudgeClient("claude-sonnet-4-5").complete(ASK)
    assert [request.headers["authorization"] for request in openai.requests] == ["Bearer sk-of-openai"]
    assert [(r.path, r.headers["x-api-key"]) for r in anthropic.requests] == [("/v1/messages", "sk-ant-of-anthropic")]
    assert "sk-of-openai" not in str(anthropic.requests)


async def test_a_refusal_is_told_in_the_judges_words():
    message = {"role": "assistant", "content": None, "refusal": "I cannot grade this."}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    body |= {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    with JudgeServer([Reply(raw=json.dumps(body).encode())]) as server:
        assert (await client(server).complete(ASK)).content == "I cannot grade this."


async def test_an_unclear_provider_is_explained():
    with JudgeServer([]) as server, pytest.raises(JudgeCallError, match="write openai/Qwen/Some-Model"):
        await client(server, model="Qwen/Some-Model").complete(ASK)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"model": ""}, "judge_model is empty"),
        ({"timeout_seconds": 0}, "timeout_seconds must be above 0"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds must be above 0"),
        ({"max_retries": -1}, "max_retries must be 0 or more"),
        ({"extra_litellm_params": {"model": "x", "stream": True}}, "may not set model, stream"),
        ({"extra_litellm_params": "temperature=0"}, "must be a dict, got a str"),
        ({"extra_litellm_params": {"extra_headers": "X-Team: mail"}}, "extra_headers must be a dict of texts"),
        ({"extra_litellm_params": {"extra_headers": {"X-Team": 7}}}, "extra_headers must be a dict of texts"),
        ({"api_key": 12345678}, "api_key holds what no header can; write it without quotes and line breaks"),
        ({"api_key": "sk-0123\n4567"}, "api_key holds what no header can"),
        ({"timeout_seconds": "9"}, "timeout_seconds must be above 0 and finite, got '9'"),
        ({"max_retries": 2.5}, "max_retries must be 0 or more, got 2.5"),
        ({"model": 3}, "judge_model is 3"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(options, part):
    with pytest.raises(JudgeInputError, match=part):
        JudgeClient(**{"model": "o4-mini", **options})


async def test_half_a_character_in_an_answer_can_be_shown_to_the_judge_again():
    with JudgeServer(["half \ud83d", "whole"]) as server:
        asked = client(server)
        said = (await asked.complete(ASK)).content
        again = await asked.complete([*ASK, {"role": "assistant", "content": said}])
    assert (said, again.content) == ("half ?", "whole")


@pytest.mark.parametrize(
    ("base", "shown"),
    [
        ("127.0.0.1:8000/v1", "127.0.0.1:8000/v1"),
        ("me:pa55word@host:8000/v1", "host:8000/v1"),
        ("localhost", "localhost"),
        ("localhost:8000?key=0123456789", "localhost:8000"),
        ("ftp://me:pa55word@host/v1", "ftp://host/v1"),
        ("http:///v1", "http:///v1"),
        ("http://me:pa55word@host:port/v1", "http://host:port/v1"),
        ("http://[me:pa55word@host/v1", "(not readable)"),
        (8000, 8000),
    ],
)
async def test_an_address_that_is_no_url_is_refused_at_once_and_shown_without_its_password(base, shown, monkeypatch):
    with pytest.raises(JudgeInputError) as caught:
        JudgeClient("o4-mini", api_base=base)
    assert str(caught.value) == f"api_base {shown!r} is no URL; write http://HOST:PORT/v1"
    if isinstance(base, str):
        monkeypatch.setenv("OPENAI_BASE_URL", base)
        with pytest.raises(JudgeInputError, match="is no URL"):
            await JudgeClient("openai/o4-mini").complete(ASK)
