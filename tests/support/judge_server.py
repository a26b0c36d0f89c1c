"""A judge of our own making: an OpenAI-compatible chat-completions server on a real socket of the loopback interface.

    with JudgeServer([429, "not json", Reply(content="...", delay_seconds=2)]) as server: ...   # one reply per request
    with JudgeServer(score_by(lambda messages: (0.5, "fair"))) as server: ...                   # prompt -> content

`server.url` goes into `api_base`; `server.requests` holds what arrived.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Reply:
    """One answer of the server."""

    content: str | None = ""
    status: int = 200
    delay_seconds: float = 0.0
    cut: bool = False
    """Close the connection without an answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    raw: bytes | None = None
    """Sent as the body instead of a completion."""


@dataclass(frozen=True)
class Request:
    """One request that arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


Scripted = Reply | str | int
"""A whole reply, a content, or the status of an error."""


class JudgeServer:
    """Serves while the `with` block lasts. A script that has run out answers 404."""

    def __init__(self, script: Iterable[Scripted] | Callable[[Messages], Scripted]) -> None:
        self.requests: list[Request] = []
        self._answer = script if callable(script) else None
        self._script = [] if callable(script) else list(script)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.judge = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> JudgeServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def reply_to(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            scripted = self._script.pop(0) if self._script else 404
        if self._answer is not None:
            scripted = self._answer(request.body["messages"])
        if isinstance(scripted, int):
            return Reply(status=scripted)
        return Reply(content=scripted) if isinstance(scripted, str) else scripted

    def wait(self, seconds: float) -> None:
        self._stopping.wait(seconds)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    judge: JudgeServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up before its answer is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server.judge.reply_to(Request(self.path, headers, body))
        self.server.judge.wait(reply.delay_seconds)
        if reply.cut:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        data = reply.raw if reply.raw is not None else json.dumps(_payload(reply, body["model"])).encode()
        self.send_response(reply.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **reply.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


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


def verdict(entries: Iterable[tuple[str, Any, str]]) -> str:
    """The JSON of a verdict from (label, score, explanation)."""
    return json.dumps({"scores": [{"trajectory_id": i, "explanation": why, "score": s} for i, s, why in entries]})


def score_by(judge: Callable[[Messages], tuple[float, str]]) -> Callable[[Messages], str]:
    """A judge that scores each trajectory by its own messages (those after the shared ones) alone."""

    def answer(messages: Messages) -> str:
        judged = {label: judge(trajectory) for label, trajectory in shown_trajectories(messages).items()}
        return verdict((label, score, why) for label, (score, why) in judged.items())

    return answer
