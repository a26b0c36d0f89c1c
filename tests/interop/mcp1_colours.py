"""A server of the package mcp 1.x, over stdio: what colour is a thing?"""

from mcp.server.fastmcp import FastMCP

server = FastMCP("colours")


@server.tool()
def look_up(thing: str) -> str:
    """Say what colour a thing has."""
    return {"sky": "blue", "grass": "green", "coal": "black", "snow": "white"}.get(thing, "nobody knows")


@server.tool()
def mix(amounts: dict[str, int]) -> list[str]:
    """Mix colours."""
    return [name for name, amount in amounts.items() for _ in range(amount)]


if __name__ == "__main__":
    server.run()
