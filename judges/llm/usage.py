"""What judging has cost so far: calls, tokens, dollars."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(slots=True)
class Usage:
    """A running sum over calls. A cached answer counts as ``cached`` and costs nothing."""

    calls: int = 0
    """Calls that a judge answered, repair turns included. Failed attempts are not known to cost and are not counted."""
    cached: int = 0
    """Answers that came from the cache instead, or from an equal question at the same time."""
    prompt_tokens: int = 0
    """As the provider reported them."""
    completion_tokens: int = 0
    """As the provider reported them, reasoning included."""
    cost_dollars: float = 0.0
    """The sum of the known prices."""
    unpriced_calls: int = 0
    """Calls whose cost is not known: litellm has no price, or the server reported no usage. It is not in the sum."""

    def add(self, prompt_tokens: int, completion_tokens: int, cost_dollars: float | None) -> None:
        """Count one answered call; a cost of None is an unknown one."""
        self.calls += 1
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        if cost_dollars is None:
            self.unpriced_calls += 1
        else:
            self.cost_dollars += cost_dollars

    def since(self, earlier: Usage) -> Usage:
        """What was added after ``earlier``, a copy of this sum at that time."""
        now, before = asdict(self), asdict(earlier)
        return Usage(**{name: now[name] - before[name] for name in now})

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name; ``cost_dollars`` is None where no call had a known price."""
        known = self.calls > self.unpriced_calls or not self.calls
        return {**asdict(self), "cost_dollars": self.cost_dollars if known else None}

    def __str__(self) -> str:
        cost = f"${self.cost_dollars:.4f}" if self.to_dict()["cost_dollars"] is not None else "cost unknown"
        unpriced = f" ({self.unpriced_calls} calls of unknown price)" if 0 < self.unpriced_calls < self.calls else ""
        return (
            f"{self.calls} calls, {self.cached} from the cache, "
            f"{self.prompt_tokens} + {self.completion_tokens} tokens, {cost}{unpriced}"
        )
