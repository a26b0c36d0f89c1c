"""The HTTP side of an episode, on a loopback port of its own thread: a recording model endpoint and an MCP server.

    /ep/TOKEN/v1/chat/completions   asked of the upstream model and recorded, streaming too
    /ep/TOKEN/v1/responses          the same
    /ep/TOKEN/v1/messages           the same in Anthropic's form; /count_tokens behind it is answered, not recorded
    /ep/TOKEN/v1/models             names the one model there is
    /ep/TOKEN/mcp                   the env's tools (streamable HTTP)

TOKEN is an episode's secret: whoever does not know it reaches nothing, and after the episode it opens nothing. The
model that a request names is replaced by the upstream's; keys that a request carries are dropped.

Many agents ask on after the answer was given, until something stops them. Once the env has ended the episode, or the
policy has no room, a request is answered with what ends an agent: text without calls, or a call of a tool that it
offers for its end. Such calls are counted, and neither recorded nor learned from.
"""

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator
from typing import Any
from weakref import WeakKeyDictionary

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from uvicorn import Config, Server

from grpo.agents.recorder import CallRecorder
from grpo.agents.upstream import Reply, Upstream, UpstreamFailed
from grpo.agents.wire import CHAT, FORMS, Asked, Form, Said, SaidCall, unread
from grpo.agents.wire.anthropic import COUNT_TOKENS
from grpo.episodes.env_thread import EnvThread
from grpo.episodes.play import Play
from grpo.errors import EvaluationError, ModelError
from grpo.types import Model

START_SECONDS = 20.0

RETRIES = "x-stainless-retry-count"
"""How often OpenAI's and Anthropic's clients have sent a request before."""

FAREWELL = "The episode is over."
END_TOOLS = ("final_answer", "finish")
"""Tools by which agents end themselves (smolagents, DSPy); others end at text without calls."""


class Endpoint:
    """Serves the episodes that are admitted.

    Args:
        episodes: Those that are served, by their tokens.
        upstream: The model; None where there is none to talk to.
        with_mcp: Whether to serve the tools over MCP.
    """

    def __init__(self, episodes: EnvThread, upstream: Upstream | None, *, with_mcp: bool = False):
        self.upstream = upstream
        self._spoken = upstream.spoken if upstream else ()
        self._episodes = episodes
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._with_mcp = with_mcp
        self._asking: WeakKeyDictionary[Play, dict[str, asyncio.Task[Said]]] = WeakKeyDictionary()

    def start(self) -> None:
        """Listen; returns when requests are answered.

        Raises:
            EvaluationError: The server did not come up.
        """
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(1024)
        config = Config(self._app(), log_level="error", access_log=False, lifespan="on", timeout_graceful_shutdown=1)
        server = self._server = Server(config)
        self._thread = threading.Thread(
            target=lambda: server.run(sockets=[self._socket]), name="grpo-eval-endpoint", daemon=True
        )
        self._thread.start()
        until = time.monotonic() + START_SECONDS
        while not server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        if not server.started:
            raise EvaluationError("the endpoint for agents did not start; is 127.0.0.1 usable?")

    def stop(self) -> None:
        """Stop listening."""
        # Requests of agents that are left behind are cut off, which uvicorn would show as an error of ours.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()

    def model(self, token: str) -> Model:
        """The model that an episode's agent is told of."""
        name = self.upstream.model if self.upstream else ""  # less its provider, by which some clients choose a route
        return Model(name.rpartition("/")[2], f"{self.url(token)}/v1")

    def url(self, token: str) -> str:
        """Where an episode is served."""
        host, port = self._socket.getsockname()
        return f"http://{host}:{port}/ep/{token}"

    def _app(self) -> Starlette:
        routes: list[BaseRoute] = [Route(f"/ep/{{token}}/v1/{path}", self._ask, methods=["POST"]) for path in FORMS]
        routes.append(Route("/ep/{token}/v1/models", self._models))
        routes.append(Route(f"/ep/{{token}}/v1/{COUNT_TOKENS}", self._count, methods=["POST"]))
        tools: Any = contextlib.nullcontext()
        if self._with_mcp:
            from grpo.agents.mcp_tools import mcp_route

            route, manager = mcp_route(self._episodes)
            routes.append(route)
            tools = manager.run()

        @contextlib.asynccontextmanager
        async def lifespan(_app: Starlette) -> AsyncIterator[None]:
            async with tools:
                yield
                if self.upstream:
                    await self.upstream.close()

        return Starlette(routes=routes, lifespan=lifespan)

    async def _models(self, request: Request) -> Response:
        if self._episodes.play(request.path_params["token"]) is None or self.upstream is None:
            return _error(404, "there is no such episode, or it has ended")
        model = {"id": self.upstream.model, "object": "model", "created": 0, "owned_by": "grpo-eval"}
        return JSONResponse({"object": "list", "data": [model]})

    async def _count(self, request: Request) -> Response:
        play = self._episodes.play(request.path_params["token"])
        if play is None or self.upstream is None:
            return _error(404, "there is no such episode, or it has ended")
        try:
            asked = FORMS["messages"].read(await _body(request))
            return JSONResponse({"input_tokens": await asyncio.to_thread(self.upstream.count, asked, play)})
        except (ValueError, ModelError) as error:
            return _error(400, str(error))

    async def _ask(self, request: Request) -> Response:
        play = self._episodes.play(request.path_params["token"])
        if play is None or self.upstream is None:
            return _error(404, "there is no such episode, or it has ended")
        form = FORMS[request.url.path.partition("/v1/")[2]]
        is_late = play.takes_no_calls()
        is_spoken = form.path in self._spoken
        body: dict[str, Any] = {}
        try:
            body = await _body(request)
            asked = form.read(body)
        except ValueError as error:
            if not body or is_late or not is_spoken:
                return _error(400, str(error))
            asked = unread(body)
        if is_late:
            play.episode.late_calls += 1
            return self._written(form, farewell(asked), asked)
        if not is_spoken:
            return await self._translated(request, play, form, asked)
        recorder = CallRecorder(play, asked, self.upstream, form.path)
        hidden = _ask_for_usage(form.path, body)
        try:
            reply = await self.upstream.ask(form.path, body)
        except UpstreamFailed as error:
            if error.status == 404 and form.path != CHAT:  # the server speaks chat alone, or lacks the model there, too
                self._spoken = (CHAT,)
                recorder.forget()
                return await self._translated(request, play, form, asked)
            recorder.refused(error)
            return JSONResponse(error.body, error.status or 502)
        if reply.events is not None:
            return StreamingResponse(_stream(reply, recorder, hidden), media_type="text/event-stream")
        if await request.is_disconnected():
            recorder.failed("the agent hung up before the reply", 499)
        else:
            recorder.whole(reply.body, reply.cost)
        return JSONResponse(reply.body)

    async def _translated(self, request: Request, play: Play, form: Form, asked: Asked) -> Response:
        """A request in a form that the upstream does not speak.

        A client that lost the connection, or patience, asks the same again: it gets what was said the first time.
        """
        asking = self._asking.setdefault(play, {})
        key = f"{form.path} {asked}"
        earlier = asking.get(key)
        is_again = earlier is not None and (earlier.done() or request.headers.get(RETRIES, "0") != "0")
        task = earlier if earlier is not None and is_again else asyncio.create_task(self._said(play, asked))
        asking[key] = task
        try:
            said = await asyncio.shield(task)
        except UpstreamFailed as error:
            asking.pop(key, None)
            if error.is_context_full and play.has_no_room:
                return self._written(form, farewell(asked), asked)
            return JSONResponse({"type": "error", **error.body}, error.status or 502)
        if not await request.is_disconnected():
            asking.pop(key, None)
        return self._written(form, said, asked)

    async def _said(self, play: Play, asked: Asked) -> Said:
        assert self.upstream is not None, "there is a model"
        recorder = CallRecorder(play, asked, self.upstream)
        try:
            said = await self.upstream.said(asked, play, recorder.call)
        except UpstreamFailed as error:
            recorder.refused(error)
            raise
        recorder.said(said)
        return said

    def _written(self, form: Form, said: Said, asked: Asked) -> Response:
        assert self.upstream is not None, "there is a model"
        model = self.upstream.model
        if not asked.streamed:
            return JSONResponse(form.whole(said, model))
        events = [_event(event) for event in form.events(said, model, asked)]
        return StreamingResponse(iter([*events, b"data: [DONE]\n\n"]), media_type="text/event-stream")


def farewell(asked: Asked) -> Said:
    """What ends the agent that asks: plain text, or a call of its own tool for that."""
    for tool in asked.tools:
        if (name := tool["function"]["name"]) in END_TOOLS:
            wanted = tool["function"].get("parameters", {}).get("required") or ()
            return Said("over", "", calls=(SaidCall("over", name, json.dumps(dict.fromkeys(wanted, FAREWELL))),))
    return Said("over", FAREWELL)


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError as error:
        raise ValueError("the request's body is not JSON") from error
    if not isinstance(body, dict):
        raise ValueError("the request's body is not a JSON object")
    return body


def _ask_for_usage(path: str, body: dict[str, Any]) -> bool:
    """Have a stream end with its token counts; says whether the agent did not ask for them and must not see them."""
    options = body.get("stream_options")
    if path != CHAT or not body.get("stream") or (options or {}).get("include_usage"):
        return False
    body["stream_options"] = {**(options or {}), "include_usage": True}
    return True


async def _stream(reply: Reply, recorder: CallRecorder, hide_usage: bool) -> AsyncIterator[bytes]:
    assert reply.events is not None, "a streamed reply"
    whole = False
    try:
        async for event in reply.events:
            recorder.event(event)
            if hide_usage and event.get("usage") and not event.get("choices"):
                continue
            yield _event(event)
        whole = True
        recorder.streamed()
        yield b"data: [DONE]\n\n"
    except UpstreamFailed as error:
        whole = True
        recorder.refused(error)
        yield f"data: {json.dumps(error.body)}\n\n".encode()
    finally:
        if not whole and not recorder.call.error:  # after an error in the stream, hanging up is the right answer
            recorder.failed("the agent hung up before the end of the reply", 499)


def _event(event: dict[str, Any]) -> bytes:
    kind = f"event: {event['type']}\n" if "type" in event else ""
    return f"{kind}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "grpo-eval", "code": status}}, status)
