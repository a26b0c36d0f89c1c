"""What a server may send instead of a turn: it is asked again, and at last said in one sentence; none of it is a turn."""

import asyncio
import gzip
import json
import re

import pytest

from grpo.errors import ServerError
from grpo.serving import policy
from grpo.serving.connection import Connection
from grpo.serving.fleet import Fleet
from grpo.serving.policy import CompletionsPolicy, SamplingParams, whole_turn
from grpo.serving.server import ExternalServer
from tests.support.http_stub import HttpStub, Request, Response

PROMPT = [4, 5, 6]
TURN = {
    "prompt_token_ids": PROMPT,
    "token_ids": [21, 22, 9],
    "logprobs": {"token_logprobs": [-0.5, -1, 0.0]},
    "finish_reason": "stop",
}


def turn(**changed):
    return Response(json.dumps({"choices": [{**TURN, **changed}]}).encode())


def logprobs(*values):
    return turn(logprobs={"token_logprobs": list(values)})


NO_COMPLETION = "the server's answer is no completion of a vLLM with return_token_ids: "
NOT_A_TURN = {
    "a page": (Response("<html><title>502</title></html>"), NO_COMPLETION + "'<html><title>502</title></html>'"),
    "nothing": (Response(b""), NO_COMPLETION + "''"),
    "bytes": (Response(b"\xff\xfe\x00\x1b[31m"), NO_COMPLETION),
    "half a reply": (Response(b'{"choices": [{"token_ids": [1'), NO_COMPLETION + '\'{"choices": [{"token_ids": [1\''),
    "brackets": (Response(b"[" * 100_000), NO_COMPLETION),
    "a list": (Response([]), NO_COMPLETION + "'[]'"),
    "null": (Response(None), NO_COMPLETION + "'None'"),
    "an error with status 200": (Response({"error": {"message": "loading"}}), NO_COMPLETION + "\"{'error':"),
    "no choice": (Response({"choices": []}), NO_COMPLETION),
    "a choice that is text": (Response({"choices": ["a turn"]}), NO_COMPLETION),
    "a chat": (Response({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}), NO_COMPLETION),
    "no logprobs": (turn(logprobs=None), NO_COMPLETION),
    "logprobs of another form": (turn(logprobs={"content": [{"logprob": -0.5}]}), NO_COMPLETION),
    "aborted": (turn(finish_reason="abort"), "the server ended a turn by 'abort', which is neither stop nor length"),
    "aborted at once": (turn(finish_reason="abort", token_ids=[], logprobs=None), NO_COMPLETION),
    "no reason": (turn(finish_reason=None), "the server ended a turn by None, which"),
    "another reason": (turn(finish_reason="content_filter"), "the server ended a turn by 'content_filter', which"),
    "no ids": (turn(token_ids=None), "the server gave no token ids for a turn, but None"),
    "an empty turn": (turn(token_ids=[]), "the server gave no token ids for a turn, but []"),
    "ids as text": (turn(token_ids="abc"), "the server gave no token ids for a turn, but abc"),
    "an id that is none": (turn(token_ids=[21, -1, 9]), "the server gave no token ids for a turn, but [21, -1, 9]"),
    "too few logprobs": (logprobs(-0.5), "the server gave 3 ids for a turn and other than as many logprobs: [-0.5]"),
    "a null": (logprobs(-0.5, None, -1.0), "the server gave None for 1 of the 3 logprobs of a turn"),
    "no numbers": (logprobs(*[float("nan")] * 3), "the server gave nan for 3 of the 3 logprobs of a turn"),
    "infinite": (logprobs(-0.5, float("-inf"), 0.0), "the server gave -inf for 1 of the 3 logprobs of a turn"),
    "probabilities": (logprobs(0.9, 0.8, 0.7), "the server gave 0.9 for 3 of the 3 logprobs of a turn"),
    "numbers as text": (logprobs("-0.5", -0.1, -0.1), "the server gave '-0.5' for 1 of the 3 logprobs of a turn"),
    "another prompt": (
        turn(prompt_token_ids=[5, 6]),
        "the server sampled after other ids than the 3 it was given; does a proxy or an option of it change prompts?",
    ),
    "no prompt": (turn(prompt_token_ids=None), "the server sampled after other ids than the 3"),
}


class Scripted(HttpStub):
    """Answers requests for a completion with ``replies``, one after another, and then with the last."""

    def __init__(self, *replies: Response):
        super().__init__()
        self.replies = list(replies)

    def answer(self, request: Request) -> Response:
        if request.method == "GET":
            return Response({"data": [{"id": "base"}]})
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def sample(server):
    async def ask():
        async with Connection(Fleet([ExternalServer(server.url)], on_change=[])) as connection:
            asked = CompletionsPolicy(connection, "base", [9])
            return await asked.sample(PROMPT, SamplingParams(), max_tokens=8, seed=3)

    with server:
        return asyncio.run(ask())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(policy, "PAUSES_SECONDS", (0.0, 0.0))


@pytest.mark.parametrize(("reply", "said"), NOT_A_TURN.values(), ids=NOT_A_TURN)
def test_what_is_no_turn_is_asked_again_and_is_an_error_at_last(reply, said):
    server = Scripted(reply)
    with pytest.raises(ServerError, match=re.escape(said)) as raised:
        sample(server)
    assert len(server.requests) == 3
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("reply", [reply for reply, _ in NOT_A_TURN.values()], ids=NOT_A_TURN)
def test_the_same_request_is_asked_again(reply):
    server = Scripted(reply, reply, turn())
    found = sample(server)
    assert (found.ids, found.logprobs, found.finish_reason) == ([21, 22, 9], [-0.5, -1.0, 0.0], "stop")
    first, second, third = (request.body for request in server.requests)
    assert first == second == third


def test_a_reply_that_cannot_be_unpacked_is_no_answer():
    broken = Response(gzip.compress(b"{}")[:-9] + b"123456789", headers={"Content-Encoding": "gzip"})
    assert sample(Scripted(broken, turn())).ids == [21, 22, 9]


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_a_turn_that_stopped_or_was_cut_for_its_length_is_one(reason):
    assert sample(Scripted(turn(finish_reason=reason))).finish_reason == reason


def test_a_logprob_that_rounding_put_above_0_is_one():
    assert whole_turn("a server", [7], [1e-6], "stop").logprobs == [1e-6]
