"""A door before a server that fails as it is told."""

import http.client
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Proxy(ThreadingHTTPServer):
    """Passes requests on while its ``with`` block lasts, unless ``fault`` is one of these.

    ``hang``: they are taken and not answered, as long as it is so; ``500``, ``401``: so answered; ``drop``: the
    connection is closed; ``garbage``: a page, with status 200.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, url: str):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = str(urlsplit(url).netloc)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.fault = ""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        proxy = self.server
        assert isinstance(proxy, Proxy)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        while proxy.fault == "hang":
            time.sleep(0.1)
        if proxy.fault == "drop":
            self.close_connection = True
            return
        if proxy.fault:
            status = int(proxy.fault) if proxy.fault.isdigit() else 200
            self._answer(status, "text/html", b"<html>The gateway is out of order.</html>")
            return
        to = http.client.HTTPConnection(proxy.target, timeout=1800)
        kept = ("Content-Type", "Authorization", "Accept")
        to.request(self.command, self.path, body, {name: value for name in kept if (value := self.headers.get(name))})
        reply = to.getresponse()
        self._answer(reply.status, reply.getheader("Content-Type") or "text/plain", reply.read())
        to.close()

    do_GET = do_POST = _pass_on

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""
