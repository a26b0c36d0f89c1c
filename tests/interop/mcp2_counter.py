"""A server of the package mcp 2.x, over stdio, that has a state: a counter."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("counter")
counted = [0]


@server.tool()
def count(by: int = 1) -> int:
    """Count on, and say how far it is."""
    if by < 1:
        raise ValueError("it counts on, never back")
    counted[0] += by
    return counted[0]


if __name__ == "__main__":
    server.run()
