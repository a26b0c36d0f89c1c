"""An env's tools over MCP: one server object for all episodes, the episode taken from the request's address."""

from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route

from grpo.episodes.env_thread import EnvThread
from grpo.episodes.play import Play
from judges.common.tool_calls import mcp_tools


def mcp_route(episodes: EnvThread) -> tuple[Route, StreamableHTTPSessionManager]:
    """The route ``/ep/TOKEN/mcp`` and the manager whose ``run()`` must be entered while it is served."""

    def play_of(context: ServerRequestContext[Any, Any]) -> Play:
        token = context.request.path_params["token"] if context.request is not None else ""
        play = episodes.play(token)
        if play is None:
            raise ValueError("there is no such episode, or it has ended")
        return play

    async def list_tools(
        context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = mcp_tools(play_of(context).episode.tools)
        return types.ListToolsResult.model_validate({"tools": tools, "ttlMs": 0})

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        play = play_of(context)
        assert play.seat.thread is not None, "programs have an EnvThread"
        text = await play.seat.thread.run(lambda: play.call(params.name, dict(params.arguments or {})))
        return types.CallToolResult(content=[types.TextContent(text=text)])

    server: Server[Any] = Server("grpo-eval", on_list_tools=list_tools, on_call_tool=call_tool)
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=["127.0.0.1:*", "localhost:*"], allowed_origins=[]
    )
    manager = StreamableHTTPSessionManager(app=server, stateless=True, security_settings=security)
    return Route("/ep/{token}/mcp", endpoint=StreamableHTTPASGIApp(manager)), manager
