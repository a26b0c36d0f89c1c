"""``Tasks-v0``: tasks from a file, for an agent that needs no env. Each is a prompt, and the first answer ends it.

A line of the file is one JSON object:

    {"id": "q1", "prompt": "What is 4 + 4?", "answer": "8", "split": "train"}

``prompt`` is a text, or ``messages`` is a list of OpenAI's. ``answer`` (a text, or a list of texts of which each is
right) is what the env's reward and an answer judge go by; without it the reward is a function's or RULER's. ``id`` is
the line's number by default. Of the lines without ``split`` one in five, by a hash of its id, is of the split test, the
others of train.
"""

import json
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium import spaces

from grpo.chat.turns import final_answer
from grpo.errors import DataError
from grpo.seeds import derive_seed
from grpo.types import Message
from judges.common.files import json_object

MAX_CHARS = 1_000_000
"""Of a prompt or an answer."""

HELD_OUT = 5
"""One of so many tasks without a split is held out."""


class TasksEnv(gymnasium.Env[str, str]):
    """See the module.

    Args:
        file: The tasks.
        split: Which of them; None: all.

    Raises:
        DataError: The file cannot be read, a line is no task, or there is none of the split.
    """

    observation_space = action_space = spaces.Text(MAX_CHARS)

    def __init__(self, file: str, split: str | None = None):
        tasks = read_tasks(Path(file))
        self._tasks = {name: task for name, task in tasks.items() if split is None or task["split"] == split}
        if not self._tasks:
            splits = sorted({task["split"] for task in tasks.values()})
            raise DataError(
                f"{file} has no task of the split {split!r}; it has {', '.join(splits) or 'no task at all'}"
            )
        self._task: dict[str, Any] = {}

    def unanswered(self) -> list[str]:
        """Ids of the tasks without an answer, which the env cannot reward."""
        return [name for name, task in self._tasks.items() if not task["answers"]]

    def scenario_ids(self) -> list[str]:
        """Ids of the tasks, in the file's order."""
        return list(self._tasks)

    def answer_key(self) -> dict[str, Any] | None:
        """Question and right answers of the current task."""
        answers = self._task["answers"]
        return {"question": self._task["messages"][-1]["content"], "references": answers} if answers else None

    def judged(self, right: bool) -> tuple[float, dict[str, float]]:
        """Reward and metrics, had a judge marked the answer so."""
        return float(right), self._metrics(answered=True, right=right)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin a task: the one of ``options["scenario_id"]``, else one by the seed."""
        super().reset(seed=seed)
        name = (options or {}).get("scenario_id") or self.scenario_ids()[int(self.np_random.integers(len(self._tasks)))]
        self._task = self._tasks[name]
        messages: list[Message] = self._task["messages"]
        info = {"messages": messages, "tools": [], "metrics": self._metrics(answered=False, right=False)}
        return messages[-1]["content"], info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the answer; right is what says the same as one of the task's answers, but for case and blanks."""
        found = final_answer(action)
        given = action if found is None else found[0]
        right = _plain(given) in map(_plain, self._task["answers"])
        metrics = self._metrics(answered=bool(given.strip()), right=right)
        return "", float(right), True, False, {"messages": [], "metrics": metrics, "error": "", "stop_reason": "answer"}

    def _metrics(self, *, answered: bool, right: bool) -> dict[str, float]:
        return {"answered": float(answered), **({"success": float(right)} if self._task["answers"] else {})}


def read_tasks(path: Path) -> dict[str, dict[str, Any]]:
    """The tasks of a file by id: ``messages``, ``answers`` and ``split``.

    Raises:
        DataError: The file cannot be read, or a line is no task; with its number.
    """
    tasks: dict[str, dict[str, Any]] = {}
    try:
        lines = path.expanduser().read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"the tasks {path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            task = json_object(line)
            name = str(task.get("id", number))
            if name in tasks:
                raise ValueError(f"has the id {name!r} of another line")
            split = str(task.get("split") or split_of(name))
            tasks[name] = {"messages": _messages(task), "answers": _answers(task.get("answer")), "split": split}
        except ValueError as error:
            raise DataError(f"{path} line {number} {error}: {line.decode(errors='replace').strip()[:120]}") from error
    return tasks


def split_of(name: str) -> str:
    """The split of a task that says none, by a hash of its id."""
    return "test" if derive_seed("held out", name) % HELD_OUT == 0 else "train"


def _messages(task: dict[str, Any]) -> list[Message]:
    messages = task.get("messages", [{"role": "user", "content": task.get("prompt")}])
    are_texts = isinstance(messages, list) and all(
        isinstance(message, dict) and isinstance(message.get("content"), str) for message in messages
    )
    if not are_texts or not messages or messages[-1].get("role") != "user":
        raise ValueError('needs "prompt" as text, or "messages" with texts, the last of them a user\'s')
    return messages


def _answers(given: Any) -> list[str]:
    answers = given if isinstance(given, list) else [] if given is None else [given]
    if not all(isinstance(answer, str | int | float) for answer in answers):
        raise ValueError(f'needs "answer" as a text or a list of texts, not {json.dumps(given)[:100]}')
    return [str(answer) for answer in answers]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


gymnasium.register("Tasks-v0", entry_point="grpo.envs.tasks:TasksEnv")
