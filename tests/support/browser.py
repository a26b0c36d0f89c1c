"""A page in headless Chromium, driven over its debugging pipe: scripts run, values come back, nothing is installed.

A driver package would download a browser of its own; this needs the standard library alone.
"""

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"
)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync")  # fmt: skip

ROWS = "document.querySelectorAll('#list .row').length"


def click(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)}).click()"


def text(selector: str) -> str:
    return f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent || ''"


class Page:
    """A page that is open; ``value`` evaluates JavaScript in it.

    Attributes:
        messages: What the page logged, what it was refused by its content security policy, and its exceptions.
    """

    def __init__(self, page: Path | str, profile: Path, fragment: str = ""):
        self.messages: list[str] = []
        self._url = (page if isinstance(page, str) else page.absolute().as_uri()) + fragment
        self._profile = profile
        self._numbers = itertools.count(1)
        self._events: list[str] = []
        self._session = ""

    def __enter__(self) -> Self:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # the browser reads commands from descriptor 3 and writes answers to 4
        plumbing = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", plumbing, "bash", CHROMIUM or "", *FLAGS, f"--user-data-dir={self._profile}",
             "--remote-debugging-pipe", "about:blank"],
            pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._answers = os.fdopen(self._read, "rb")
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")
        self._ask("Page.navigate", url=self._url)
        while "Page.loadEventFired" not in self._events:
            self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(120)
        self._answers.close()
        os.close(self._write)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def resize(self, width: int) -> None:
        """Make the window ``width`` CSS pixels wide."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)

    def print_preview(self) -> None:
        """Draw the page as on paper."""
        self._ask("Emulation.setEmulatedMedia", media="print")

    def type(self, selector: str, text: str) -> None:
        """Put the cursor into a field, empty it, and type."""
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        self._ask("Input.insertText", text=text)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a select, as a user's choice reports it."""
        self.value(
            f"(s => {{ s.value = {json.dumps(value)}; s.dispatchEvent(new Event('input', {{bubbles: true}})); }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._take()).get("id") != number:
            pass
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _take(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser is gone"
            data += byte
        message = json.loads(data)
        self._events.append(message.get("method", ""))
        if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.messages.append(json.dumps(message["params"])[:500])
        return message
