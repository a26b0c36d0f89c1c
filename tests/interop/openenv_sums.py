"""An env of OpenEnv whose actions are calls of tools (MCPEnvironment): reach a number by adding. Run with a port.

The number is drawn by the seed. A sum that hits it is worth 1 and ends the episode, any other call costs a tenth.
"""

import random
import sys

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation, State


class Asked(Observation):
    question: str = ""


class SumsEnvironment(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server = FastMCP("sums")

        @server.tool()
        def add(a: int, b: int) -> int:
            """Add two numbers from 0 to 9."""
            self.result = a + b
            return self.result

        super().__init__(server)
        self.result = self.number = 0

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.number = random.Random(seed).randint(5, 15)
        return Asked(question=f"Which two numbers make {self.number}?", done=False, reward=0.0)

    async def step_async(self, action, timeout_s=None, **kwargs):
        self.result = None
        seen = await super().step_async(action, timeout_s=timeout_s, **kwargs)
        if isinstance(action, CallToolAction):
            seen.done = self.result == self.number
            seen.reward = 1.0 if seen.done else -0.1
        return seen

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Asked(question="There is nothing but add.")

    @property
    def state(self):
        return State(step_count=0)


if __name__ == "__main__":
    app = create_app(SumsEnvironment, CallToolAction, CallToolObservation, env_name="sums", max_concurrent_envs=2)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
