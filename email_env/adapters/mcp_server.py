"""An env's tools as an MCP server on stdin and stdout (`email-env-mcp`). One process is one episode.

The prompt is in the instructions and in the resource `episode://prompt`, how it ended in `episode://result`. It
speaks by the low-level server of mcp 1 or 2: their high-level server answers wrong calls itself, unseen by the env.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from email_env.adapters.episode import Episode
from email_env.versions import __version__
from judges.common.files import write_json
from judges.common.tool_calls import mcp_tools

_IS_OLD = hasattr(Server, "call_tool")  # mcp 1


async def run(episode: Episode, result: Path | None = None) -> None:
    """Serve until the client hangs up; `result` is a file that has the result after each call."""

    def call(params: Any) -> dict[str, Any]:
        text = episode.call(params.name, params.arguments or {})
        if result is not None:
            write_json(result, episode.result())
        return {"content": [{"type": "text", "text": text}]}

    def read(params: Any) -> dict[str, Any]:
        told = {"episode://prompt": episode.messages, "episode://result": episode.result()}[str(params.uri)]
        return {"contents": [{"uri": str(params.uri), "mimeType": "application/json", "text": json.dumps(told)}]}

    def handler(kind: str, answer: Callable[[Any], dict[str, Any]]) -> Callable[..., Any]:
        async def answered(*request: Any) -> Any:  # mcp 1: the request; mcp 2: context and parameters
            said = answer(request[0].params if _IS_OLD else request[1])
            made = getattr(types, f"{kind}Result").model_validate(said)
            return types.ServerResult(made) if _IS_OLD else made  # pyright: ignore[reportCallIssue]

        return answered

    resources = [{"uri": f"episode://{name}", "name": name} for name in ("prompt", "result")]
    handlers: dict[str, Callable[..., Any]] = {
        "list_tools": handler("ListTools", lambda _: {"tools": mcp_tools(episode.tools)}),
        "call_tool": handler("CallTool", call),
        "list_resources": handler("ListResources", lambda _: {"resources": resources}),
        "read_resource": handler("ReadResource", read),
    }
    new: dict[str, Any] = {} if _IS_OLD else {f"on_{name}": each for name, each in handlers.items()}
    told = "\n\n".join(message["content"] for message in episode.messages)
    server: Any = Server("email-env", version=__version__, instructions=told, **new)
    for name, each in handlers.items() if _IS_OLD else ():
        server.request_handlers[getattr(types, name.title().replace("_", "") + "Request")] = each
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
