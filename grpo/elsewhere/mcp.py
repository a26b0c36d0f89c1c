"""``mcp:COMMAND``: tasks of a file (``--tasks``) with the tools of a program that speaks MCP.

Prose is the answer, marked as `grpo.envs.tasks` does; without right answers in the file a reward function or RULER says
what an episode is worth. A program may keep a state, so an episode has one of its own; the next one starts meanwhile.
"""

from typing import Any

from grpo.agents.wire.form import function_tool
from grpo.elsewhere.mcp_process import McpProcess, Refused
from grpo.elsewhere.tool_env import FAULT_REWARD, MAX_TURNS, Outcome, ToolEnv, faulty, replies
from grpo.envs.tasks import TasksEnv
from grpo.errors import DataError
from grpo.types import Message
from judges.common.tool_calls import ErrorCode, ParsedTurn


class McpEnv(ToolEnv):
    """See the module.

    Args:
        address: The command.
        file: The tasks.
        split: Which of them; None: all.
        max_turns: As of `ToolEnv`.

    Raises:
        DataError: There are no tasks.
    """

    def __init__(self, address: str, file: str | None = None, split: str | None = None, max_turns: int = MAX_TURNS):
        super().__init__(max_turns)
        if file is None:
            raise DataError("tools need questions; give a file of them with --tasks")
        tasks = self._tasks = TasksEnv(file, split)
        self.scenario_ids, self.unanswered, self.answer_key = tasks.scenario_ids, tasks.unanswered, tasks.answer_key
        self._command = address
        self._process: McpProcess | None = None
        self._spare: McpProcess | None = None
        self._marks: dict[str, float] = {}

    def judged(self, right: bool) -> tuple[float, dict[str, float]]:
        """Reward and metrics, had a judge marked the answer so."""
        reward, marks = self._tasks.judged(right)
        return reward + FAULT_REWARD * self._counts["faults"], {**self._metrics(), **marks}

    def close(self) -> None:
        """End the programs."""
        for process in filter(None, (self._process, self._spare)):
            process.end()
        self._process = self._spare = None

    def _begin(self, seed: int | None, options: dict[str, Any]) -> tuple[list[Message], list[dict[str, Any]]]:
        _, info = self._tasks.reset(seed=seed, options=options)
        self._marks = info["metrics"]
        self._process, self._spare = self._spare or McpProcess(self._command), None
        page = self._process.request("tools/list", {})
        listed = page["tools"]
        while cursor := page.get("nextCursor"):
            page = self._process.request("tools/list", {"cursor": cursor})
            listed += page["tools"]
        return info["messages"], [function_tool(t["name"], t.get("description"), t["inputSchema"]) for t in listed]

    def _take(self, turn: ParsedTurn) -> Outcome:
        if not turn.items:
            _, reward, _, _, info = self._tasks.step(turn.text)
            self._marks = info["metrics"]
            return Outcome([], reward, terminated=True)
        assert self._process is not None, "an episode is under way"
        texts: list[str] = []
        for call in turn.calls:
            try:
                result = self._process.request("tools/call", {"name": call.name, "arguments": call.arguments})
            except Refused as refused:
                return faulty(turn, ErrorCode.BAD_ARGS, str(refused), texts)
            texts.append(_text(result))
        return Outcome(replies(turn, texts))

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process, self._spare = None, McpProcess(self._command)

    def _metrics(self) -> dict[str, float]:
        return {**super()._metrics(), **self._marks}


def _text(result: dict[str, Any]) -> str:
    """What a model reads of a result: its texts; what it has else is named."""
    parts = [part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in result["content"]]
    return ("Error: " if result.get("isError") else "") + "\n".join(parts)
