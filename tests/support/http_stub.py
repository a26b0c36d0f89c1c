"""A server of scripted answers on a real socket of the loopback interface. All fake servers of the tests build on it.

    with HttpStub(lambda request: Response({"data": []})) as server: ...

`server.url` is where it listens, `server.requests` what arrived.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Request:
    """One request that arrived. The names of its headers are in small letters; a body is JSON."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any = None


@dataclass(frozen=True)
class Response:
    """An answer: bytes and text as they are, anything else as JSON; or a stream, after which the connection is closed."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Iterable[bytes] | None = None


class HttpStub:
    """Serves between ``start`` and ``stop``, or while a ``with`` block lasts; each connection in a thread of its own."""

    def __init__(self, answer: Callable[[Request], Response] | None = None) -> None:
        if answer is not None:
            self.answer = answer
        self.requests: list[Request] = []
        self.running = False
        self._ended = threading.Event()
        self._port = 0

    def answer(self, request: Request) -> Response:
        """What a request is answered; a `ConnectionError` closes its connection without an answer."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen, on the port of the last time."""
        self._ended.clear()
        self._http = _Http(("127.0.0.1", self._port), _Handler)
        self._http.stub = self
        self._port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.running = True

    def stop(self) -> None:
        """End as a killed process does: every request under way is cut off."""
        if not self.running:
            return
        self.running = False
        self._ended.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self._http.cut_off()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, seconds: float) -> None:
        """Let a request wait, no longer than the server runs."""
        self._ended.wait(seconds)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    stub: HttpStub

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def cut_off(self) -> None:
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has ended meanwhile
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up before its answer is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer leaves in one piece
    server: _Http

    def handle_method(self) -> None:
        stub = self.server.stub
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, body)
        stub.requests.append(request)
        try:
            response = stub.answer(request)
        except ConnectionError:
            self.close_connection = True
            return
        self.send_response(response.status)
        if response.stream is None:
            self._whole(response)
        else:
            self._streamed(response, response.stream)

    do_GET = do_HEAD = do_POST = handle_method

    def _whole(self, response: Response) -> None:
        body, kind = response.body, "application/json"
        if isinstance(body, str):
            body, kind = body.encode(), "text/plain"
        elif not isinstance(body, bytes):
            body = json.dumps(body).encode()
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **response.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _streamed(self, response: Response, stream: Iterable[bytes]) -> None:
        for name, value in {"Connection": "close", **response.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for part in stream:
            self.wfile.write(part)
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet."""
