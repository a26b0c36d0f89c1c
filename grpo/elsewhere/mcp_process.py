"""A program that speaks MCP over its standard input and output: one JSON message a line. It needs no package.

It is asked to begin when it is made, and waited for at the first request: programs take seconds to start.
"""

import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any

from grpo.errors import EnvError
from judges.common.text import shown

VERSION = "2025-06-18"
REPLY_SECONDS = 300.0


class Refused(Exception):
    """The server answered a request with an error; its message."""


class McpProcess:
    """The program of a command.

    Raises:
        EnvError: It cannot be started.
    """

    def __init__(self, command: str):
        self._command, self._read, self._sent = command, b"", 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lasts as long as the program
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=pipe, stdout=pipe, stderr=self._errors, bufsize=0, process_group=0
            )
        except (OSError, ValueError, IndexError) as error:
            self._errors.close()
            raise EnvError(f"mcp:{command} cannot be started: {error}") from error
        client = {"name": "grpo", "version": "1"}
        self._send("initialize", {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request.

        Raises:
            Refused: The server answered with an error.
            EnvError: It gave no answer.
        """
        if self._sent == 1:
            self._result()
            self._write({"method": "notifications/initialized"})
        self._send(method, params)
        return self._result()

    def end(self) -> None:
        """Kill it, and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with self._process:
            self._errors.close()

    def _send(self, method: str, params: dict[str, Any]) -> None:
        self._sent += 1
        self._write({"id": self._sent, "method": method, "params": params})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None, "it is a pipe"
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        except OSError as error:
            raise self._failed(f"takes no message ({error})") from error

    def _result(self) -> dict[str, Any]:
        until = time.monotonic() + REPLY_SECONDS
        while True:
            message = self._message(until)
            if "method" in message and "id" in message:  # the server asks, and we have nothing but that we live
                known = {"result": {}} if message["method"] == "ping" else {"error": {"code": -32601, "message": "no"}}
                self._write({"id": message["id"], **known})
            elif message.get("id") == self._sent:
                if "error" in message:
                    raise Refused(str(message["error"].get("message")))
                return message["result"]

    def _message(self, until: float) -> dict[str, Any]:
        assert self._process.stdout is not None, "it is a pipe"
        file = self._process.stdout.fileno()
        while b"\n" not in self._read:
            if not wait([file], max(0.0, until - time.monotonic())):
                raise self._failed(f"said nothing for {REPLY_SECONDS:g} s")
            if not (piece := os.read(file, 1 << 16)):
                raise self._failed("has ended")
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise self._failed(f"wrote a line that is no message, {shown(line)}") from error

    def _failed(self, what: str) -> EnvError:
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2][:300]
        return EnvError(f"mcp:{self._command} {what}{': ' if last else ''}{last}")
