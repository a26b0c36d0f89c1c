"""Agents for tests of the evaluation, good and bad, as `--agent tests.support.agents:NAME` finds them."""

import asyncio
import contextlib
import json
import os
import tempfile
import threading
import time
import typing

from grpo.eval import Answer
from tests.support.reports import HOSTILE


def by_tool(task, tools, model):
    number = int(task.question.split()[2])
    double, answer = tools
    answer(answer=double(number), sources=["s1"])
    return "ignored: the answer was given"


async def by_tool_async(task, tools, model):
    number = await asyncio.to_thread(tools[0], int(task.question.split()[2]))
    await asyncio.to_thread(tools[1], answer=number, sources=["s1"])


agents_met = threading.Barrier(2)


def by_appointment(task, tools, model):
    """Calls its first tool when two agents are there."""
    agents_met.wait(60)
    tools[1](answer=tools[0](int(task.question.split()[2])), sources=[])


def maple(task, tools, model):
    return "It is maple."


def hanging_at_quartz(task, tools, model):
    return "hang" if "begins with q" in task.question else "It is maple."


async def with_sources(task, tools, model):
    await asyncio.sleep(0)
    return Answer(tools[0](number=int(task.question.split()[2])), sources=("a", "b"))


def moving(task, tools, model):
    os.chdir(tempfile.gettempdir())
    return "0"


def yielding(task, tools, model):
    yield "42"


def silent(task, tools, model):
    return None


def crashing(task, tools, model):
    raise LookupError("no idea")


def leaving(task, tools, model):
    raise SystemExit(3)


def interrupting(task, tools, model):
    raise KeyboardInterrupt


def talking(task, tools, model):
    print("a line of the agent's own")
    return "0"


def sleeping(task, tools, model):
    time.sleep(600)


async def sleeping_async(task, tools, model):
    await asyncio.sleep(600)


def walking(task, tools, model):
    while True:
        tools[0]()


async def walking_async(task, tools, model):
    """Blocks its event loop, as async functions should not."""
    while True:
        tools[0]()


async def leaving_async(task, tools, model):
    raise SystemExit(3)


async def interrupting_async(task, tools, model):
    raise KeyboardInterrupt


async def giving_up(task, tools, model):
    async with asyncio.timeout(0.01):
        await asyncio.sleep(30)


class Odd(BaseException):
    pass


def of_no_exception(task, tools, model):
    raise Odd("neither error nor exit")


def going_on(task, tools, model):
    tools[1](answer="0", sources=[])
    while True:
        tools[0](1)


async def in_a_thread(task, tools, model):
    await asyncio.to_thread(time.sleep, 600)


def asking_in_all_ways(task, tools, model):
    from openai import OpenAI

    schema = {"name": "peek", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
    question = [{"role": "user", "content": "?"}]
    with OpenAI(base_url=model.base_url, api_key=model.api_key) as client:
        more = {"temperature": 0.5, "max_output_tokens": 9, "tools": [{"type": "function", **schema}]}
        client.responses.create(model="m", instructions="Be short.", input="?", **more)
        offered = [{"type": "function", "function": schema}]
        client.chat.completions.create(model="m", messages=question, n=2, seed=7, tools=offered)
        list(client.chat.completions.create(model="m", messages=question, stream=True))
    return "0"


def impatient(task, tools, model):
    import httpx

    with contextlib.suppress(httpx.TimeoutException):
        patience = httpx.Timeout(None, read=0.3)
        httpx.post(f"{model.base_url}/chat/completions", json={"messages": []}, timeout=patience)
    time.sleep(3)
    return "0"


def chatty(task, tools, model):
    return model.base_url


def of_odd_type(task, tools, model):
    return 42


def careless(task, tools, model):
    texts = [tools[0]("seven"), tools[0](nmber=7)]
    return " / ".join(texts)


def overflowing(task, tools, model):
    raise ValueError("Error code: 400 - maximum context length is 8192 tokens")


late: list[str] = []
first_plays, second_plays, ended = (threading.Event() for _ in range(3))


def staying(task, tools, model):
    """In the first episode: calls its tool when its time is up and the second one plays."""
    if first_plays.is_set():
        second_plays.set()
        ended.wait(60)
        return
    first_plays.set()
    second_plays.wait(60)
    try:
        late.append(tools[0](1))
    except RuntimeError as error:
        late.append(str(error))
    ended.set()


def stay_anew():
    """Forget what ``staying`` has met."""
    for event in (first_plays, second_plays, ended):
        event.clear()
    late.clear()


seen: dict[str, typing.Any] = {}


def looking(task, tools, model):
    seen.update(task=task, tools=tools, model=model)
    return "I don't know"


def by_chat(task, tools, model):
    """The stock openai client in a loop of its own, streaming."""
    from openai import OpenAI

    messages: list[typing.Any] = [{"role": "user", "content": str(task)}]
    functions = {tool.__name__: tool for tool in tools}
    schemas = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in functions]
    with OpenAI(base_url=model.base_url, api_key=model.api_key) as client:
        while True:
            asked = {"messages": messages, "tools": schemas, "stream": True, "temperature": 0.7}
            stream = client.chat.completions.create(model="gpt-4o", **asked)
            text, calls = "", {}
            for chunk in stream:
                delta = chunk.choices[0].delta
                text += delta.content or ""
                for piece in delta.tool_calls or ():
                    call = calls.setdefault(piece.index, {"id": piece.id, "name": piece.function.name, "arguments": ""})
                    call["arguments"] += piece.function.arguments or ""
            if not calls:
                return text
            made = [
                {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
                for c in calls.values()
            ]
            messages.append({"role": "assistant", "content": text or None, "tool_calls": made})
            for call in calls.values():
                result = functions[call["name"]](**json.loads(call["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


async def by_responses(task, tools, model):
    """The stock openai client with the Responses API, streamed."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=model.base_url, api_key=model.api_key) as client:
        first = await client.responses.create(model=model.name, input=str(task), tools=[])
        call = first.output[0]
        result = tools[0](**json.loads(call.arguments))
        items: list[typing.Any] = [
            {"role": "user", "content": str(task)},
            {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
            {"type": "function_call_output", "call_id": call.call_id, "output": result},
        ]
        async with client.responses.stream(model=model.name, input=items) as stream:
            async for _ in stream:
                pass
            return (await stream.get_final_response()).output_text


def one_response(task, tools, model, stream=False):
    """The same with the Responses API."""
    from openai import OpenAI

    with OpenAI(base_url=model.base_url, api_key=model.api_key, max_retries=0) as client:
        asked = client.responses.create(model=model.name, input=task.question, stream=stream)
        return None if stream and list(asked) else "17"


def one_streamed_response(task, tools, model):
    return one_response(task, tools, model, stream=True)


def one_question(task, tools, model):
    """Asks once and says what came."""
    from openai import OpenAI

    with OpenAI(base_url=model.base_url, api_key=model.api_key, max_retries=0) as client:
        messages: list[typing.Any] = [{"role": "user", "content": task.question}]
        reply = client.chat.completions.create(model=model.name, messages=messages)
        return reply.choices[0].message.content


def nosy(task, tools, model):
    """Tries the endpoint of an episode it does not know."""
    import httpx

    root, _, _ = model.base_url.partition("/ep/")
    told = httpx.post(f"{root}/ep/{'0' * 32}/v1/chat/completions", json={}).status_code
    named = httpx.get(f"{model.base_url}/models").json()["data"][0]["id"]
    return f"{told} {named}"


MCP_AGENT = """
import anyio, os, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

async def main():
    async with streamable_http_client(os.environ["AGENT_MCP_URL"]) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert names == ["double", "return_final_answer"], names
        number = int(sys.argv[1].split()[2])
        wrong = await session.call_tool("double", {"number": "seven"})
        assert wrong.content[0].text == "Error: number must be a whole number.", wrong
        result = await session.call_tool("double", {"number": number})
        text = result.content[0].text
        await session.call_tool("return_final_answer", {"answer": text, "sources": ["m1"]})
        print("ignored: it has answered")

anyio.run(main)
"""
"""A program that asks for the env's tools over MCP and calls them, once wrongly."""


def one_step_down(task, tools, model):
    """Stops early in FrozenLake; what it says would be a way to go."""
    tools[0](action=1)
    return "1"


def hostile(task, tools, model):
    """Says what would be a script on a careless page, as its answer or as its last words."""
    tools[0](number=HOSTILE)
    if int(task.question.split()[2]) % 2:
        raise RuntimeError(HOSTILE)
    return HOSTILE


class Unwritable(Exception):
    """Raises when it is written."""

    def __str__(self):
        raise RuntimeError("no words")


def unwritable(task, tools, model):
    raise Unwritable


def by_anthropic(task, tools, model, *, streamed=True):
    """Anthropic's form over plain HTTP, a loop of its own; counts the tokens of its first request."""
    import httpx

    functions = {tool.__name__: tool for tool in tools}
    schemas = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in functions]
    body = {"model": "claude", "max_tokens": 4096, "system": task.instructions, "tools": schemas}
    messages: list[typing.Any] = [{"role": "user", "content": task.question}]
    with httpx.Client(base_url=model.base_url, trust_env=False, timeout=60) as client:
        counted = client.post("messages/count_tokens", json=body | {"messages": messages}).json()["input_tokens"]
        assert counted > 0
        while True:
            reply = client.post("messages", json=body | {"messages": messages, "stream": streamed})
            content = _streamed_blocks(reply.text) if streamed else reply.json()["content"]
            messages.append({"role": "assistant", "content": content})
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                return "".join(block.get("text", "") for block in content)
            results = [(call["id"], functions[call["name"]](**call["input"])) for call in calls]
            blocks = [{"type": "tool_result", "tool_use_id": name, "content": said} for name, said in results]
            messages.append({"role": "user", "content": blocks})


def _streamed_blocks(text):
    events = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and "[DONE]" not in line]
    blocks = {}
    for event in events:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = event["content_block"] | {"json": ""}
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            block["text"] = block.get("text", "") + delta.get("text", "")
            block["json"] += delta.get("partial_json", "")
    for block in blocks.values():
        if made := block.pop("json"):
            block["input"] = json.loads(made)
        if block["type"] == "tool_use":
            block.pop("text")
    return list(blocks.values())


def only_asking(task, tools, model):
    """Asks its model the same until it hears that the episode is over."""
    from openai import OpenAI

    with OpenAI(base_url=model.base_url, api_key=model.api_key) as client:
        said = ""
        while said != "The episode is over.":
            messages = [{"role": "user", "content": "?"}]
            said = client.chat.completions.create(model="m", messages=messages).choices[0].message.content


def doubling(task, tools, model):
    return str(2 * int(task.question.split()[2]))


def forgetful(task, tools, model):
    """Tells its model that it has said something else."""
    from openai import OpenAI

    question, lie = {"role": "user", "content": str(task)}, {"role": "assistant", "content": "nine"}
    with OpenAI(base_url=model.base_url, api_key=model.api_key) as client:
        client.chat.completions.create(model="m", messages=[question], temperature=0.1)
        asked = [question, lie, {"role": "user", "content": "Sure?"}]
        return client.chat.completions.create(model="m", messages=asked).choices[0].message.content
