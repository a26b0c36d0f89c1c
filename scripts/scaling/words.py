"""A small env whose reward rises within minutes of training on a CPU: write words that begin with a letter."""

from __future__ import annotations

import re
import string
from typing import Any

import gymnasium
from gymnasium import spaces

LETTERS = "abcdefghilmnoprstw"
WANTED = 3


class Words(gymnasium.Env[str, str]):
    """One turn. The reward is the share of right words, all different, among those written, at least three."""

    observation_space = spaces.Text(200, min_length=0, charset=string.printable)
    action_space = spaces.Text(2000, min_length=0, charset=string.printable)

    def scenario_ids(self) -> list[str]:
        """A letter each."""
        return list(LETTERS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Ask for words with a letter."""
        super().reset(seed=seed)
        self.letter = (options or {}).get("scenario_id") or LETTERS[int(self.np_random.integers(len(LETTERS)))]
        text = f"Write {WANTED} words that begin with the letter {self.letter}. Write only the words."
        info = {"messages": [{"role": "user", "content": text}], "tools": [], "scenario_id": self.letter}
        return text, info | {"metrics": {"words": 0.0}}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Count them."""
        words = re.findall(r"[a-z]+", action.lower())
        right = {word for word in words if word.startswith(self.letter) and len(word) > 1}
        info = {"messages": [], "metrics": {"words": float(len(words))}}
        return "", len(right) / max(WANTED, len(words)), True, False, info


gymnasium.register("Words-v0", entry_point=f"{__name__}:Words")
