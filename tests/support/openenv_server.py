"""A server that speaks OpenEnv's wire on a real port, as openenv 0.10 does: /schema and /metadata, and /ws with sessions.

    with OpenEnvServer() as server: ...              # typed: an action is {"guess": int}; the number is the seed's
    with OpenEnvServer(tools=True, sessions=1) ...   # its actions are calls of tools

`server.open` counts the sessions, `server.most` the most at once, `server.resets` has what resets were asked.
"""

import json
import threading
from http import HTTPStatus
from types import TracebackType
from typing import Self

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response
from websockets.sync.server import serve

GUESS = {
    "title": "GuessAction",
    "description": "A guess.",
    "type": "object",
    "properties": {"metadata": {"type": "object"}, "guess": {"type": "integer"}},
    "required": ["guess"],
    "additionalProperties": False,
}
CALL = {"title": "CallToolAction", "type": "object", "properties": {"tool_name": {"type": "string"}}}
LOOK = {
    "name": "look",
    "description": "Look.",
    "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
}


class OpenEnvServer:
    def __init__(self, *, tools: bool = False, sessions: int = 8, breaks: bool = False) -> None:
        self.tools, self.sessions, self.breaks = tools, sessions, breaks
        self.open = self.most = 0
        self.resets: list[dict] = []
        self._lock = threading.Lock()
        self._server = serve(self._session, "127.0.0.1", 0, process_request=self._page)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()

    def _page(self, _connection, request):
        pages = {
            "/schema": {"action": CALL if self.tools else GUESS},
            "/metadata": {"description": "A number is sought."},
        }
        if request.path == "/ws":
            return None
        if request.path not in pages:
            return Response(HTTPStatus.NOT_FOUND, "Not Found", Headers(), b"{}")
        body = json.dumps(pages[request.path]).encode()
        return Response(HTTPStatus.OK, "OK", Headers({"Content-Length": str(len(body))}), body)

    def _session(self, socket):
        with self._lock:
            is_full = self.open >= self.sessions
            if not is_full:
                self.open += 1
                self.most = max(self.most, self.open)
        if is_full:
            data = {"message": f"{self.sessions} of {self.sessions}", "code": "CAPACITY_REACHED"}
            socket.send(json.dumps({"type": "error", "data": data}))
            return
        try:
            number = 0
            for raw in socket:
                message = json.loads(raw)
                if message["type"] == "reset":
                    self.resets.append(message["data"])
                    number = message["data"]["seed"] % 10
                    reply = self._seen(
                        {"hint": f"the digit sum of the seed is {number}", "metadata": {"id": id(socket)}}
                    )
                else:
                    reply = self._stepped(message["data"], number)
                socket.send(json.dumps(reply))
        except ConnectionClosed:
            pass
        finally:
            with self._lock:
                self.open -= 1

    def _stepped(self, action, number):
        if self.breaks:
            return {"type": "error", "data": {"message": "division by zero", "code": "EXECUTION_ERROR"}}
        if action.get("type") == "list_tools":
            return self._seen({"tools": [LOOK], "metadata": {}})
        if action.get("type") == "call_tool":
            result = {
                "content": [{"type": "text", "text": f"you see {action['arguments'].get('at')}"}],
                "is_error": False,
            }
            return self._seen({"tool_name": "look", "result": result, "error": None}, reward=0.25)
        if not isinstance(action["guess"], int):
            wrong = [{"loc": ["guess"], "msg": "Input should be a valid integer"}]
            return {
                "type": "error",
                "data": {"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": wrong},
            }
        right = action["guess"] == number
        return self._seen({"hint": "right" if right else "wrong", "tried": action["guess"]}, float(right), done=right)

    @staticmethod
    def _seen(observation, reward=None, *, done=False):
        return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": done}}
