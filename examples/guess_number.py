"""A text env that imports nothing of email-rl: guess a number from 1 to 20, told "higher" or "lower".

grpo-train --env-import examples.guess_number --env GuessNumber-v0
"""

import re
import string

import gymnasium
from gymnasium import spaces

GUESS = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS = [{"type": "function", "function": {"name": "guess", "description": "Guess the number.", "parameters": GUESS}}]


class GuessNumber(gymnasium.Env[str, str]):
    """Seven guesses; a right one is worth 1, less a tenth for every guess before it."""

    observation_space = spaces.Text(100, charset=string.printable)
    action_space = spaces.Text(2000, charset=string.printable)

    def reset(self, *, seed=None, options=None):  # noqa: D102
        super().reset(seed=seed)
        self.number, self.turns = int(self.np_random.integers(1, 21)), 0
        messages = [
            {"role": "system", "content": "Guess my number, from 1 to 20, in at most seven guesses."},
            {"role": "user", "content": "Your first guess?"},
        ]
        return "Your first guess?", {"messages": messages, "tools": TOOLS, "metrics": {"success": 0.0, "guesses": 0.0}}

    def step(self, action):  # noqa: D102
        self.turns += 1
        found = re.search(r"number\W*?(-?\d+)", action) or re.search(r"(-?\d+)", action)  # a call's, or in prose
        guess = int(found[1]) if found else None
        right = guess == self.number
        text = "right" if right else "higher" if guess is not None and guess < self.number else "lower"
        text = text if guess is not None else 'Call guess, for example {"name": "guess", "arguments": {"number": 7}}'
        info = {
            "messages": [{"role": "tool", "content": text}],
            "metrics": {"success": float(right), "guesses": float(self.turns)},
            "error": "" if guess is not None else "no_tool_call",
        }
        return text, (1.1 - 0.1 * self.turns if right else 0.0), right, not right and self.turns == 7, info


gymnasium.register("GuessNumber-v0", entry_point=f"{__name__}:GuessNumber")
