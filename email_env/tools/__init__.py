"""The agent's tools: `actions` reads the calls of a turn, `toolbox` runs them, `prompts` words what came of them."""
