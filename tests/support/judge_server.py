"""A judge of our own making: an OpenAI-compatible chat-completions server on a real socket of the loopback interface.

    with JudgeServer([429, "not json", Reply(content="...", delay_seconds=2)]) as server: ...   # one reply per request
    with JudgeServer(score_by(lambda messages: (0.5, "fair"))) as server: ...                   # prompt -> content

`server.url` goes into `api_base`; `server.requests` holds what arrived.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.http_stub import HttpStub, Request, Response

Messages = list[dict[str, Any]]

ASKED = "(the id that is asked for)"
"""In the content of a reply: the label under which the answer judge is to give its verdict."""


@dataclass(frozen=True)
class Reply:
    """One answer of the server."""

    content: str | None = ""
    status: int = 200
    delay_seconds: float = 0.0
    cut: bool = False
    """Close the connection without an answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str | None = "stop"
    raw: bytes | None = None
    """Sent as the body instead of a completion."""


Scripted = Reply | str | int
"""A whole reply, a content, or the status of an error."""


class JudgeServer(HttpStub):
    """Serves while the `with` block lasts. A script that has run out answers 404."""

    def __init__(self, script: Iterable[Scripted] | Callable[[Messages], Scripted]) -> None:
        super().__init__()
        self._judge = script if callable(script) else None
        self._script = [] if callable(script) else list(script)
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def answer(self, request: Request) -> Response:
        if self._judge is not None:
            reply = self._judge(request.body["messages"])
        else:
            with self._lock:
                reply = self._script.pop(0) if self._script else 404
        if isinstance(reply, int):
            reply = Reply(status=reply)
        elif isinstance(reply, str):
            reply = Reply(reply)
        self.wait(reply.delay_seconds)
        if reply.cut:
            raise ConnectionAbortedError
        if reply.content and (asked := re.search(r"Check exactly this id: (\w+)", str(request.body["messages"]))):
            reply = replace(reply, content=reply.content.replace(ASKED, asked[1]))
        body = _payload(reply, request.body["model"]) if reply.raw is None else reply.raw
        return Response(body, reply.status, reply.headers)


def _payload(reply: Reply, model: str) -> dict[str, Any]:
    if reply.status != 200:
        message = reply.content or f"scripted status {reply.status}"
        return {"error": {"message": message, "type": "scripted", "code": reply.status}}
    choice = {
        "index": 0,
        "finish_reason": reply.finish_reason,
        "message": {"role": "assistant", "content": reply.content},
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}


def shown_trajectories(messages: Messages) -> dict[str, Messages]:
    """Label -> messages as a judge sees them, in the order shown: whatever stands between two tags counts."""
    text = messages[1]["content"]
    blocks = re.findall(r'<trajectory id="([^"]*)">(.*?)</trajectory>', text, re.DOTALL)
    assert len({label for label, _ in blocks}) == len(blocks), "a label was shown twice"
    return {label: json.loads(block) for label, block in blocks}


def shown(messages: Messages) -> list[Any]:
    """Question, references and answer as the answer judge sees them."""
    parts = re.findall(r"<(question|reference|answer)>\n(.*?)\n</\1>", messages[1]["content"], re.DOTALL)
    return [json.loads(text) for _, text in parts]


def verdict(entries: Iterable[tuple[str, Any, str]]) -> str:
    """The JSON of a verdict from (label, score, explanation)."""
    return json.dumps({"scores": [{"trajectory_id": i, "explanation": why, "score": s} for i, s, why in entries]})


def score_by(judge: Callable[[Messages], tuple[float, str]]) -> Callable[[Messages], str]:
    """A judge that scores each trajectory by its own messages (those after the shared ones) alone."""

    def answer(messages: Messages) -> str:
        judged = {label: judge(trajectory) for label, trajectory in shown_trajectories(messages).items()}
        return verdict((label, score, why) for label, (score, why) in judged.items())

    return answer
