"""A proxy before vLLM that keeps every completion: what was learned is compared with what the server said."""

import http.client
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

Completion = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
"""Ids of the prompt, ids of the reply, and the log-probabilities of these."""


class Witness(ThreadingHTTPServer):
    """Passes requests that show ``key`` on to ``url`` while its ``with`` block lasts; ``said`` has the completions."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, url: str, key: str):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.key = str(urlsplit(url).netloc), key
        self.said: set[Completion] = set()
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def keep(self, answer: bytes) -> None:
        """A completion's ids and log-probabilities."""
        for choice in json.loads(answer)["choices"]:
            logprobs = tuple(choice["logprobs"]["token_logprobs"])
            self.said.add((tuple(choice["prompt_token_ids"]), tuple(choice["token_ids"]), logprobs))


class _Handler(BaseHTTPRequestHandler):
    server: Witness
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        to = http.client.HTTPConnection(self.server.target, timeout=1800)
        to.request(
            self.command,
            self.path,
            body,
            {"Content-Type": "application/json", "Authorization": self.headers.get("Authorization", "")},
        )
        reply = to.getresponse()
        answer = reply.read()
        if self.path == "/v1/completions" and reply.status == 200:
            self.server.keep(answer)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.getheader("Content-Type") or "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
        to.close()

    do_GET = do_POST = _pass_on

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""
