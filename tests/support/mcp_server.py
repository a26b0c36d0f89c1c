"""A program that speaks MCP over stdin and stdout with nothing but the standard library: `python mcp_server.py [FAULT]`.

Its tools: `count` says how often it was called in this process, `add` adds two integers, `break` ends the process. It has
two pages of tools, logs on stderr, sends a notification and a ping amid the answers. FAULT: mute, chatty, dead.
"""

import json
import os
import sys

INTEGER = {"type": "integer"}
PAGES = {
    None: [
        {"name": "count", "inputSchema": {"type": "object"}},
        {
            "name": "add",
            "description": "Add.",
            "inputSchema": {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "required": ["a", "b"]},
        },
    ],
    "more": [{"name": "break", "inputSchema": {"type": "object"}}, {"name": "draw", "inputSchema": {"type": "object"}}],
}


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def called(name, arguments):
    if name == "count":
        called.times += 1
        return {"content": [{"type": "text", "text": str(called.times)}]}
    if name == "break":
        os._exit(3)
    if name == "draw":
        return {
            "content": [{"type": "text", "text": "a house"}, {"type": "image", "data": "", "mimeType": "image/png"}]
        }
    if not all(isinstance(arguments[key], int) for key in "ab"):
        return {"isError": True, "content": [{"type": "text", "text": "a and b are integers"}]}
    if arguments["a"] == 13:
        return None
    return {"content": [{"type": "text", "text": json.dumps({"sum": arguments["a"] + arguments["b"]})}]}


def main(fault):
    called.times = 0
    print("serving", file=sys.stderr, flush=True)
    if fault == "dead":
        sys.exit("no licence")
    if fault == "chatty":
        print("Welcome!", flush=True)
    begun = 0
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if fault == "mute" or method is None:
            continue
        if method == "initialize":
            assert params["protocolVersion"] == "2025-06-18"
            say(method="notifications/message", params={"level": "info", "data": "hello"})
            say(id="p1", method="ping")
            say(id=message["id"], result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}})
        elif method == "notifications/initialized":
            begun = 1
        elif method == "tools/list" and begun:
            page = params.get("cursor")
            say(id=message["id"], result={"tools": PAGES[page], **({} if page else {"nextCursor": "more"})})
        elif method == "tools/call" and begun:
            result = called(params["name"], params["arguments"])
            wrong = {"error": {"code": -32602, "message": "13 is unlucky"}}
            say(id=message["id"], **(wrong if result is None else {"result": result}))


if __name__ == "__main__":
    main(*sys.argv[1:] or [""])
