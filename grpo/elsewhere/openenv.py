"""``openenv:URL``: an env behind OpenEnv's server, by its WebSocket (needs the package websockets).

An env whose actions are calls of tools (MCP) shows these, and prose ends its episode. Any other env has one tool,
``act``, with the schema of its action; there prose is a fault. A session lasts from a reset to the end of its episode.
"""

import json
import time
from contextlib import ExitStack, suppress
from typing import Any

import httpx

from grpo.agents.wire.form import function_tool
from grpo.elsewhere.tool_env import MAX_TURNS, Outcome, ToolEnv, faulty, replies
from grpo.errors import EnvError, describe
from grpo.types import Message
from judges.common.loopback import is_loopback
from judges.common.text import shown
from judges.common.tool_calls import ErrorCode, ParsedTurn

ACT = "act"
OF_TOOLS = ("Action", "CallToolAction", "ListToolsAction")
"""Titles of the schema of an env whose actions are calls of tools."""
REPLY_SECONDS = 300.0
WAIT_SECONDS = 120.0
"""How long a server that has no session free is asked again."""
PAUSE_SECONDS = 0.5
FULL, INVALID = "CAPACITY_REACHED", "VALIDATION_ERROR"


class OpenEnv(ToolEnv):
    """See the module.

    Args:
        address: The server's URL.
        max_turns: As of `ToolEnv`.
        reset: Further arguments of its ``reset``.
    """

    def __init__(self, address: str, max_turns: int = MAX_TURNS, reset: dict[str, Any] | None = None):
        super().__init__(max_turns)
        self._url = address.rstrip("/")
        self._arguments = reset or {}
        self._session, self._socket = ExitStack(), None
        schema = self._get("schema")["action"]
        self._has_tools = schema.get("title") in OF_TOOLS
        own = {name: field for name, field in schema.get("properties", {}).items() if name != "metadata"}
        self._act = function_tool(ACT, schema.get("description"), {**schema, "properties": own})
        self._about = str(self._get("metadata").get("description") or "")

    def _begin(self, seed: int | None, options: dict[str, Any]) -> tuple[list[Message], list[dict[str, Any]]]:
        until = time.monotonic() + WAIT_SECONDS
        while (first := self._ask("reset", {"seed": seed, **self._arguments})).get("code") == FULL:
            self._end()
            if time.monotonic() >= until:
                raise EnvError(
                    f"{self._url} had no session free for {WAIT_SECONDS:g} s ({first['message']}); play fewer "
                    "episodes at once (--concurrency, rollout.concurrency), or start it with more"
                )
            time.sleep(PAUSE_SECONDS)
        messages = [{"role": "system", "content": self._about}] if self._about else []
        messages.append({"role": "user", "content": _text(first["observation"]) or "Begin."})
        if not self._has_tools:
            return messages, [self._act]
        listed = self._ask("step", {"type": "list_tools"})["observation"]["tools"]
        return messages, [function_tool(tool["name"], tool["description"], tool["input_schema"]) for tool in listed]

    def _take(self, turn: ParsedTurn) -> Outcome:
        if not turn.items and not self._has_tools:
            return faulty(turn, ErrorCode.NO_TOOL_CALL, "prose is no action")
        texts, reward, done, cut = list[str](), 0.0, not turn.items, False
        for call in turn.calls:
            called = {"type": "call_tool", "tool_name": call.name, "arguments": call.arguments}
            said = self._ask("step", called if self._has_tools else call.arguments)
            if said.get("code") == INVALID:
                wrong = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in said.get("errors", ())]
                return faulty(turn, ErrorCode.BAD_ARGS, "; ".join(wrong) or said["message"], texts)
            texts.append(_text(said["observation"]))
            reward += said["reward"] or 0.0
            done, cut = said["done"], bool(said["observation"].get("truncated"))
            if done:
                break
        return Outcome(replies(turn, texts) if texts else [], reward, done and not cut, done and cut)

    def _end(self) -> None:
        self._session.close()
        self._socket = None

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with httpx.Client(trust_env=not is_loopback(self._url), timeout=REPLY_SECONDS) as client:
                return client.get(f"{self._url}/{path}").raise_for_status().json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise EnvError(
                f"{self._url}/{path} gives no JSON ({describe(error)}); is it the URL of an OpenEnv server?"
            ) from error

    def _ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """The data of what the server answers: an observation, or an error that is `FULL` or `INVALID`."""
        from websockets.exceptions import ConnectionClosed, WebSocketException
        from websockets.sync.client import connect

        try:
            if self._socket is None:
                proxy: Any = None if is_loopback(self._url) else True
                connected = connect(f"ws{self._url.removeprefix('http')}/ws", max_size=None, proxy=proxy)
                self._socket = self._session.enter_context(connected)
            with suppress(ConnectionClosed):  # a full server has said so and closed; that is read below
                self._socket.send(json.dumps({"type": kind, "data": data}))
            reply = json.loads(self._socket.recv(REPLY_SECONDS))
        except (OSError, WebSocketException, ValueError) as error:
            raise EnvError(f"{self._url} gave no answer to {kind} ({describe(error)})") from error
        if reply["type"] == "error" and (code := reply["data"].get("code")) not in (FULL, INVALID):
            raise EnvError(f"{self._url} failed at {kind}: {code} {shown(reply['data'].get('message'))}")
        return reply["data"]


def _text(observation: dict[str, Any]) -> str:
    """What a model reads: the texts of a tool's result, else the fields as JSON, or the only text that there is."""
    if error := observation.get("error") if "tool_name" in observation else None:
        return f"Error: {error['message']}"
    result = observation.get("result")
    if isinstance(result, dict) and (texts := [part["text"] for part in result.get("content") or () if "text" in part]):
        return "\n".join(texts)
    left = {name: value for name, value in observation.items() if name != "metadata" and value not in (None, "")}
    only = next(iter(left.values())) if len(left) == 1 else None
    return only if isinstance(only, str) else json.dumps(left, ensure_ascii=False) if left else ""
