"""A policy server without a model: the part of vLLM's API that a run uses, over real sockets, on one event loop.

It keeps vLLM's rules on adapters (no name twice, a whole folder, known names only) and answers what it is told to. It
can be killed with requests under way, and come back on its port without adapters, as a restarted vLLM does.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Answer = Callable[[dict[str, Any]], Awaitable[list[int]]]
"""The ids that a request of ``/v1/completions`` is answered with."""


async def one_token(_request: dict[str, Any]) -> list[int]:
    """An answer at once."""
    return [7]


class StubServer:
    """Serves on an event loop; `ThreadedStub` has a loop of its own."""

    def __init__(self, answer: Answer = one_token, models: tuple[str, ...] = ()):
        """Prepare; ``models`` are served besides the base model and what is loaded."""
        self.answer = answer
        self.models = models
        self.loaded: dict[str, str] = {}
        self.requests: list[dict[str, Any]] = []
        self.refuses_adapters = False
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the port of the last time."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=4096, limit=2**24)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        """End as a killed process does: every request under way is cut off, and all adapters are lost."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        self.loaded.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                method, path, _ = lines[0].split(" ")
                length = next((int(line[15:]) for line in lines if line.lower().startswith("content-length:")), 0)
                body = json.loads(await reader.readexactly(length)) if length else {}
                status, value = await self._respond(method, path, body)
                text = json.dumps(value).encode()
                head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
                writer.write(head.encode() + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # who asked is gone, or this server is
        finally:
            self._open.discard(writer)
            writer.close()

    async def _respond(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if method == "GET":
            names = ["base", *self.models]
            return 200, {"data": [{"id": name} for name in names] if path == "/v1/models" else []}
        if path.endswith("_lora_adapter"):
            return self._adapter(path, body)
        if body["model"] not in {"base", *self.models, *self.loaded}:
            return 404, {"error": f"The model `{body['model']}` does not exist."}
        self.requests.append(body)
        ids = await self.answer(body)
        choice = {"token_ids": ids, "prompt_token_ids": body["prompt"], "finish_reason": "stop"}
        return 200, {"choices": [{**choice, "logprobs": {"token_logprobs": [-0.5] * len(ids)}}]}

    def _adapter(self, path: str, body: dict[str, str]) -> tuple[int, str]:
        name = body["lora_name"]
        if path == "/v1/unload_lora_adapter":
            found = self.loaded.pop(name, None)
            return (200, "ok") if found else (404, f"The lora adapter '{name}' cannot be found.")
        if self.refuses_adapters:
            return 500, "no room for another adapter"
        if name in self.loaded:
            return 400, f"The lora adapter '{name}' has already been loaded."
        if not (Path(body["lora_path"]) / "adapter_config.json").exists():
            return 404, f"No adapter found for LoRA '{name}'"
        self.loaded[name] = body["lora_path"]
        return 200, "ok"


class ThreadedStub(StubServer):
    """A stub with a thread and a loop of its own, started at once; to be closed with ``close``."""

    def __init__(self, answer: Answer = one_token, models: tuple[str, ...] = ()):
        super().__init__(answer, models)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.revive()

    def revive(self) -> None:
        """Serve again after ``die``."""
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result()

    def die(self) -> None:
        """See ``kill``."""
        asyncio.run_coroutine_threadsafe(self.kill(), self._loop).result()

    def close(self) -> None:
        """End it and its thread."""
        self.die()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
