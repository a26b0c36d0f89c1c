"""mcp's own client plays episodes: python mcp_client.py EPISODES.json SERVER. Prints what came of each, as JSON."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def play(command, episode):
    arguments = ["--env-kwargs", '{"split": "test"}', "--scenario", episode["scenario_id"]]
    server = StdioServerParameters(command=command, args=arguments)
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        begun = plain(await session.initialize())
        tools = plain(await session.list_tools())["tools"]
        resources = plain(await session.list_resources())["resources"]

        async def read(uri):
            return json.loads(plain(await session.read_resource(uri))["contents"][0]["text"])

        texts = []
        for name, call in episode["calls"]:
            texts.append(plain(await session.call_tool(name, call))["content"][0]["text"])
        return {
            "instructions": begun["instructions"],
            "tools": tools,
            "resources": [each["uri"] for each in resources],
            "prompt": await read("episode://prompt"),
            "result": await read("episode://result"),
            "texts": texts,
        }


async def main(path, command):
    with open(path) as file:
        print(json.dumps([await play(command, episode) for episode in json.load(file)]))


asyncio.run(main(*sys.argv[1:]))
