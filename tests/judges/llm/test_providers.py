"""Judges that do not speak OpenAI's protocol: the same verdict arrives, over the wire format of each provider."""

import json

import pytest

from judges import JudgeClient, ruler
from tests.support.http_stub import HttpStub, Response
from tests.support.judge_server import shown_trajectories, verdict

GROUP = [[{"role": "user", "content": "When?"}, {"role": "assistant", "content": text}] for text in ("At 9.", "Who?")]


def judged(system, user):
    labels = shown_trajectories([{"content": system}, {"content": user}])
    return verdict((label, 0.9 if "At 9." in str(said) else 0.2, "why") for label, said in labels.items())


def anthropic(body):
    text = judged("", "".join(part["text"] for part in body["messages"][0]["content"]))
    if tools := body.get("tools"):  # its structured output: a forced tool call
        block = {"type": "tool_use", "id": "t1", "name": tools[0]["name"], "input": json.loads(text)}
    else:
        block = {"type": "text", "text": text}
    usage = {"input_tokens": 100, "output_tokens": 10}
    return {"id": "m1", "type": "message", "role": "assistant", "model": body["model"], "content": [block]} | {
        "stop_reason": "end_turn",
        "usage": usage,
    }


def ollama(body):
    said = {"model": body["model"], "created_at": "2024-01-01T00:00:00Z", "done": True}
    counts = {"prompt_eval_count": 100, "eval_count": 10}
    if "prompt" in body:
        return said | counts | {"response": judged("", body["prompt"])}
    content = judged("", body["messages"][1]["content"])
    return said | counts | {"message": {"role": "assistant", "content": content}}


ANSWERS = {"/v1/messages": anthropic, "/api/generate": ollama, "/api/chat": ollama}


@pytest.fixture
def server():
    """One server for all of them, told apart by path."""

    def answer(request):
        known = ANSWERS.get(request.path)
        return Response(known(request.body)) if known else Response({}, 404)

    with HttpStub(answer) as stub:
        yield stub


@pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier")  # of litellm's own types for ollama
@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("anthropic/claude-sonnet-4-20250514", "/v1/messages"),
        ("ollama/qwen3", "/api/generate"),
        ("ollama_chat/qwen3", "/api/chat"),
    ],
)
async def test_a_verdict_arrives_whatever_the_provider_speaks(server, monkeypatch, model, path):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-tests")
    scores = await ruler(GROUP, judges=[JudgeClient(model, api_base=server.url, max_retries=0)])
    assert [(score.trajectory_id, score.score) for score in scores] == [("1", 0.9), ("2", 0.2)]
    (asked,) = (request for request in server.requests if request.path == path)
    schema = json.dumps([asked.body.get("tools"), asked.body.get("format")])
    assert "trajectory_id" in schema, "the form of a verdict is asked for"
    key = asked.headers.get("x-api-key")
    assert key == ("sk-ant-of-the-tests" if model.startswith("anthropic/") else None)
