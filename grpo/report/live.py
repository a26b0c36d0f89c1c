"""The page of a run while it goes on, on this machine's loopback interface, until the run ends.

A frame says every two seconds what the run does, and holds the report, which is made anew after each step and each
evaluation. The address has a secret, because whoever has an account here reaches the port, and a report holds mail.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from grpo.errors import ReportError
from grpo.report.page import render
from grpo.report.run import load_run
from grpo.report.training import training_page
from judges.common.files import Closeable

LOOK_SECONDS = 1.0


class LiveView(Closeable):
    """Serves while its ``with`` block lasts.

    Args:
        root: Directory of the run.
        lines: Tell what the run does now, and what is wrong.
        port: To listen on; 0 for any free one.

    Raises:
        ReportError: The port is taken.
    """

    def __init__(self, root: Path, lines: Callable[[], list[str]], port: int = 0):
        self.root, self.lines = root, lines
        self.is_over = False
        self.over_was_told = threading.Event()
        self._making = threading.Lock()
        self._page: tuple[str, bytes] = ("", b"")
        try:
            self._http = _Http(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise ReportError(f"cannot listen on port {port}: {error.strerror}; choose another --port") from error
        self._http.view, self.secret = self, secrets.token_urlsafe(16)
        threading.Thread(target=self._http.serve_forever, name="grpo-live", daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/{self.secret}/"

    def until(self, is_over: Callable[[], bool]) -> None:
        """Wait until the run is over, and whoever looks has been told, within some seconds."""
        while not is_over():
            time.sleep(LOOK_SECONDS)
        self.is_over = True
        self.over_was_told.wait(5.0)

    def close(self) -> None:
        """End it."""
        self._http.shutdown()
        self._http.server_close()

    def answer(self, name: str) -> tuple[str, bytes]:
        """Type and content of what is asked for.

        Raises:
            KeyError: There is no such thing.
        """
        if name == "now":
            told = {"lines": self.lines(), "page": self._version(), "over": self.is_over}
            return "application/json", json.dumps(told).encode()
        return "text/html; charset=utf-8", {"": _frame, "report": self._report}[name]()

    def _version(self) -> str:
        parts = [self.root / "metrics.jsonl", self.root / "eval", self.root / "warmstart.jsonl"]
        return " ".join(str(path.stat().st_mtime_ns) for path in parts if path.exists())

    def _report(self) -> bytes:
        with self._making:
            version = self._version()
            if version != self._page[0]:
                page = training_page(load_run(self.root), self.root.absolute().name)
                self._page = version, "".join(render(page)).encode(errors="replace")
            return self._page[1]


def _frame() -> bytes:
    return Path(__file__).with_name("live.html").read_bytes()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    view: LiveView


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        view = cast(_Http, self.server).view
        start, _, name = self.path.partition("?")[0].removeprefix("/").partition("/")
        status = 200
        try:
            if not secrets.compare_digest(start.encode(), view.secret.encode()):
                raise KeyError
            kind, content = view.answer(name)
        except KeyError:
            status, kind, content = 404, "text/plain", b"There is nothing here.\n"
        except ReportError as error:
            status, kind, content = 503, "text/plain; charset=utf-8", f"{error}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(content)
        if name == "now" and view.is_over:
            view.over_was_told.set()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""
