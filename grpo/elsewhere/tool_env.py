"""What envs of other ecosystems have in common: a turn of the model becomes calls of their tools.

A turn with a wrong call runs nothing, and costs `FAULT_REWARD`. Of arguments only the names are looked at here.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
from gymnasium import spaces

from grpo.types import Message
from judges.common.text import shown
from judges.common.tool_calls import Call, ErrorCode, Fault, ParsedTurn, parse_turn

FAULT_REWARD = -0.1
MAX_TURNS = 30


class Outcome(NamedTuple):
    """What came of a turn."""

    messages: list[Message]
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    error: str = ""


class ToolEnv(gymnasium.Env[str, str]):
    """An env whose actions are calls of tools; an episode is cut after ``max_turns``.

    A subclass begins an episode (`_begin`: its messages and tools), takes a turn of sound calls or of prose (`_take`),
    and frees what an episode holds, whether or not it has begun (`_end`).
    """

    observation_space = action_space = spaces.Text(1_000_000)

    def __init__(self, max_turns: int):
        self.metadata = {"render_modes": [], "waits": True}
        self._max_turns = max_turns
        self._counts: dict[str, float] = {}
        self._tools: dict[str, dict[str, Any]] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; info has ``messages``, ``tools`` and ``metrics``."""
        super().reset(seed=seed)
        self._end()
        self._counts = {"turns": 0.0, "calls": 0.0, "faults": 0.0}
        messages, tools = self._begin(seed, options or {})
        self._tools = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}
        return messages[-1]["content"], {"messages": messages, "tools": tools, "metrics": self._metrics()}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Run the calls of an assistant's turn."""
        turn = parse_turn(action)
        said = self._refused(turn) or self._take(turn)
        added = {"turns": 1, "calls": 0 if said.error else len(turn.items), "faults": bool(said.error)}
        self._counts = {name: self._counts[name] + count for name, count in added.items()}
        cut = not said.terminated and (said.truncated or self._counts["turns"] >= self._max_turns)
        if said.terminated or cut:
            self._end()
        reason = "answer" if said.terminated else "max_turns" if cut else ""
        info = {"messages": said.messages, "metrics": self._metrics(), "error": said.error, "stop_reason": reason}
        return "\n\n".join(m["content"] for m in said.messages), said.reward, said.terminated, cut, info

    def close(self) -> None:
        """End what is under way."""
        self._end()

    def _begin(self, seed: int | None, options: dict[str, Any]) -> tuple[list[Message], list[dict[str, Any]]]:
        raise NotImplementedError

    def _take(self, turn: ParsedTurn) -> Outcome:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def _metrics(self) -> dict[str, float]:
        return self._counts

    def _refused(self, turn: ParsedTurn) -> Outcome | None:
        if not turn.items and not turn.text.strip():
            return faulty(turn, ErrorCode.NO_TOOL_CALL, "the turn is empty")
        for place, item in enumerate(turn.items):
            if wrong := item if isinstance(item, Fault) else self._wrong(item):
                return faulty(turn, wrong.code, wrong.message, [NOT_RUN] * place)
        return None

    def _wrong(self, call: Call) -> Fault | None:
        if (schema := self._tools.get(call.name)) is None:
            offered = ", ".join(self._tools) or "none"
            return Fault(ErrorCode.UNKNOWN_TOOL, f"there is no tool {shown(call.name)}; there are: {offered}")
        known = schema.get("properties", {})
        open_to_more = schema.get("additionalProperties", not known)
        unknown = [
            f"has no argument {shown(name)}" for name in call.arguments if name not in known and not open_to_more
        ]
        missing = [f"needs the argument {name!r}" for name in schema.get("required", ()) if name not in call.arguments]
        return Fault(ErrorCode.BAD_ARGS, f"{call.name} {(unknown + missing)[0]}") if unknown + missing else None


NOT_RUN = "Not run."


def replies(turn: ParsedTurn, texts: Sequence[str]) -> list[Message]:
    """A message for each call, under its id where it has one; one for a turn of prose."""
    ids = [item.call_id for item in turn.items] or [""]
    padded = [*texts, *[NOT_RUN] * len(ids)]
    named = [{"tool_call_id": call_id} if call_id else {} for call_id in ids]
    return [{"role": "tool", "content": text, **own} for text, own in zip(padded, named, strict=False)]


def faulty(turn: ParsedTurn, code: ErrorCode, why: str, before: Sequence[str] = ()) -> Outcome:
    """A turn with a fault, and what its calls before said."""
    return Outcome(replies(turn, [*before, f"Error: {why}."]), FAULT_REWARD, error=str(code))
