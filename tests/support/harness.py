"""A harness as verifiers has them, for an interpreter of its own: it plays a rollout against an OpenAI endpoint.

It asks whether a number is even; its tool `half` halves. The reward is 1 for "even" or "odd" where that is right. What it
does wrong is the taskset's id: "rewrites", "agents", "tools", "fails", "asks nothing", "cut"; "streams" is right.
"""

import asyncio
import json

import httpx

from grpo.types import Answer

HALF = {"type": "function", "function": {"name": "half", "parameters": {"type": "object", "properties": {"n": {}}}}}


async def ask(client, model, messages, tools, *, stream=False):
    body = {"model": "whatever", "messages": messages, "tools": tools, "stream": stream}
    reply = await client.post(f"{model.base_url}/chat/completions", json=body)
    if not stream:
        return reply.json()["choices"][0]["message"]
    whole = {"role": "assistant", "content": ""}
    for line in reply.text.splitlines():
        if line.startswith("data: {") and (choices := json.loads(line[6:])["choices"]):
            delta = choices[0]["delta"]
            whole["content"] += delta.get("content") or ""
            if "tool_calls" in delta:
                whole["tool_calls"] = [{**call, "index": None} for call in delta["tool_calls"]]
    return whole


async def rollout(task, _tools, model):
    kind = json.loads(task.instructions)["taskset"]["id"]
    if model is None:
        return Answer("5")
    if kind == "fails":
        raise LookupError("the taskset is lost")
    number, tools = int(task.question), [HALF]
    messages = [{"role": "system", "content": "Think."}, {"role": "user", "content": f"Is {number} even?"}]
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        if kind == "agents":
            other = [{"role": "user", "content": "Judge!"}]
            await asyncio.gather(ask(client, model, messages, tools), ask(client, model, other, tools))
        while kind != "asks nothing":
            said = await ask(client, model, messages, tools, stream=kind == "streams")
            messages.append(said)
            if not said.get("tool_calls"):
                break
            for call in said["tool_calls"]:
                n = json.loads(call["function"]["arguments"])["n"]
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(n / 2)})
            if kind == "rewrites":
                messages[1] = {"role": "user", "content": "A summary."}
            tools = [] if kind == "tools" else tools
    right = messages[-1].get("content") == ("odd" if number % 2 else "even")
    return Answer(json.dumps({"reward": float(right), "cut": kind == "cut"}))
