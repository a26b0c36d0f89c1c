"""What an env has to give, as docs/your-env.md says it: a breach is an `EnvError` that names it and the value seen.

What is given passes through, in plain Python types. Nothing is mended silently: an env that says ``terminated="no"``
would end every episode at its first step, and nobody would look for the reason there.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from grpo.errors import EnvError
from grpo.types import AnswerKey, Message, Outcome
from judges.common.text import as_utf8, shown

ROLES = {"reset": ("system", "user", "assistant", "tool"), "step": ("tool", "user")}
"""Of messages; those of the first prompt may show an example of a conversation."""

ERROR_CODES = ("", "bad_json", "unknown_tool", "bad_args", "no_tool_call")


class Contract:
    """Checks what one env gives; it remembers what must stay the same.

    Args:
        env_id: Whose name stands in the errors.
    """

    def __init__(self, env_id: str):
        self.env_id = env_id
        self._metric_names: frozenset[str] | None = None
        self._tools: list[dict[str, Any]] | None = None

    def breach(self, when: str, given: str, wanted: str) -> EnvError:
        """The error for what was given instead of what is wanted."""
        return EnvError(f"{self.env_id} gives {given} at {when}; {wanted}")

    def began(self, returned: Any) -> Sequence[Any]:
        """What ``reset`` returns."""
        return self._parts("reset", returned, 2, "(observation, info)")

    def stepped(self, returned: Any) -> Sequence[Any]:
        """What ``step`` returns."""
        wanted = "(observation, reward, terminated, truncated, info); in the old Gym's form it has four parts"
        return self._parts("step", returned, 5, wanted)

    def info(self, when: str, given: Any) -> dict[str, Any]:
        """The dict that an env gives beside its observation."""
        if not isinstance(given, dict):
            raise self.breach(when, f"the info {shown(given)}", "info is a dict")
        return given

    def observed(self, observation: Any) -> Any:
        """An observation that says something."""
        if observation is None:
            raise EnvError(f"{self.env_id} gives the observation None; an observation is what the policy is shown")
        return observation

    def reward(self, when: str, given: Any) -> float:
        """A finite number."""
        if not math.isfinite(value := _number(given)):
            raise self.breach(when, f"the reward {shown(given)}", "a reward must be a finite number")
        return value

    def flag(self, name: str, given: Any) -> bool:
        """``terminated`` or ``truncated``."""
        if given is True or given is False:
            return given
        if isinstance(given, np.bool_) or (isinstance(given, int | np.integer) and given in (0, 1)):
            return bool(given)
        raise self.breach("step", f"{name} = {shown(given)}", f"{name} is True or False")

    def messages(self, when: str, info: dict[str, Any]) -> list[Message]:
        """What is to be appended."""
        if "messages" not in info:
            raise self.breach(
                when,
                f"no info['messages'] (but {sorted(map(str, info)) or 'nothing'})",
                "an env that speaks in messages gives them at every reset and step",
            )
        messages = info["messages"]
        if not isinstance(messages, list | tuple):
            raise self.breach(when, f"info['messages'] = {shown(messages)}", "messages are a list of dicts")
        for message in messages:
            if not isinstance(message, dict) or not isinstance(message.get("content"), str) or "role" not in message:
                wanted = "a message is a dict with 'role' and 'content', both text"
                raise self.breach(when, f"the message {shown(message)}", wanted)
            if message["role"] not in ROLES[when]:
                wanted = f"its role is one of {', '.join(ROLES[when])}"
                raise self.breach(when, f"the message {shown(message)}", wanted)
        if when == "reset" and not messages:
            raise self.breach(when, "an empty info['messages']", "there is nothing to answer")
        return [message if message["content"].isascii() else _encodable(message) for message in messages]

    def tools(self, info: dict[str, Any]) -> list[dict[str, Any]]:
        """OpenAI function schemas; they may be none, but that has to be said."""
        given = info.get("tools")
        if not isinstance(given, list | tuple):
            found = f"info['tools'] = {shown(given)}" if "tools" in info else "no info['tools']"
            raise self.breach("reset", found, "tools are a list of OpenAI function schemas, [] where there are none")
        tools = list(given)
        if tools != self._tools:
            names = [self._tool_name(tool) for tool in tools]
            if twice := next((name for name in names if names.count(name) > 1), ""):
                raise self.breach("reset", f"two tools of the name {twice!r}", "each has a name of its own")
            self._tools = tools
        return tools

    def error(self, info: dict[str, Any]) -> None:
        """What was wrong with the action."""
        code = info.get("error", "")
        if code not in ERROR_CODES:
            known = ", ".join(map(repr, ERROR_CODES))
            raise self.breach("step", f"info['error'] = {shown(code)}", f"an error code is one of {known}")

    def metrics(self, when: str, info: dict[str, Any]) -> dict[str, float]:
        """Numbers, with the same names at every reset and step."""
        given = info.get("metrics", {})
        if not isinstance(given, dict):
            raise self.breach(when, f"info['metrics'] = {shown(given)}", "metrics are a dict of numbers")
        metrics = {str(name): value if type(value) is float else _number(value) for name, value in given.items()}
        if not all(map(math.isfinite, metrics.values())):
            name, value = next((name, value) for name, value in given.items() if not math.isfinite(_number(value)))
            raise self.breach(when, f"info['metrics'][{name!r}] = {shown(value)}", "a metric is a finite number")
        if self._metric_names is None:
            self._metric_names = frozenset(metrics)
        if metrics.keys() != self._metric_names:
            different = ", ".join(sorted(metrics.keys() ^ self._metric_names))
            raise EnvError(
                f"{self.env_id} gives other info['metrics'] at {when} than at its first reset "
                f"(different: {different}); the names must be the same throughout"
            )
        return metrics

    def answer_key(self, given: Any) -> AnswerKey | None:
        """Question, right answers and what was answered; None where no answer is right."""
        if given is None:
            return None
        try:
            question, references, answer = given["question"], given["references"], given.get("answer")
            texts = (question, *references, *([] if answer is None else [answer]))
            sound = isinstance(references, list | tuple) and all(isinstance(text, str) for text in texts)
        except (TypeError, KeyError, AttributeError):
            sound, question, references, answer = False, "", (), None
        if not sound:
            wanted = "want None or {'question', 'references'}, with the 'answer' where there is one"
            raise EnvError(f"{self.env_id}.answer_key() gave {shown(given)}; {wanted}")
        references = tuple(text for text in references if text.strip())
        return AnswerKey(question, references, answer) if references else None

    def outcome(self, given: Any) -> Outcome:
        """Reward and metrics of a whole episode."""
        reward, metrics = self._parts("judged", given, 2, "(reward, metrics)")
        return Outcome(self.reward("judged", reward), self.metrics("judged", {"metrics": metrics}))

    def scenario_ids(self, given: Any) -> list[str]:
        """Names, each once."""
        if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
            raise EnvError(f"{self.env_id}.scenario_ids() gives {shown(given)}; scenario ids are a list of texts")
        if not given:
            raise EnvError(f"{self.env_id} names no scenario; choose another split or other data")
        if len(set(given)) < len(given):
            twice = next(name for name, count in Counter(given).items() if count > 1)
            raise EnvError(f"{self.env_id}.scenario_ids() gives {twice!r} twice; a scenario has an id of its own")
        return list(given)

    def policies(self, given: Any) -> dict[str, Any]:
        """Scripted policies by their names."""
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            found = f"{self.env_id}.scripted_policies is {shown(given)}"
            raise EnvError(f"{found}; it is a dict of names and classes, for example {{'oracle': Oracle}}")
        return dict(given)

    def _parts(self, method: str, returned: Any, count: int, wanted: str) -> Sequence[Any]:
        if not isinstance(returned, tuple | list) or len(returned) != count:
            raise EnvError(f"{self.env_id}.{method}() returns {shown(returned)}; want {wanted}")
        return returned

    def _tool_name(self, tool: Any) -> str:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            wanted = (
                "a tool is {'type': 'function', 'function': {'name': ..., 'description': ..., 'parameters': {...}}}"
            )
            raise self.breach("reset", f"the tool {shown(tool)}", wanted)
        name, parameters = function.get("name"), function.get("parameters")
        if not isinstance(name, str) or not name:
            raise self.breach("reset", f"the tool {shown(tool)}", "a tool's function has a 'name', a text")
        if not isinstance(parameters, dict) or not isinstance(parameters.get("properties", {}), dict):
            wanted = "parameters are a JSON schema; a tool that takes nothing has {'type': 'object', 'properties': {}}"
            raise self.breach("reset", f"the tool {name!r} with the parameters {shown(parameters)}", wanted)
        try:
            json.dumps(tool)
        except (TypeError, ValueError) as error:
            raise self.breach("reset", f"the tool {name!r}", f"JSON cannot hold it: {error}") from None
        return name


def _encodable(message: Message) -> Message:
    """Without halves of characters, which a model can write in an escape, an env repeat, and no tokenizer read."""
    return {**message, "content": as_utf8(message["content"])}


def _number(given: Any) -> float:
    """A value as a number, NaN where it is none."""
    try:
        return math.nan if isinstance(given, str) else float(given)
    except (TypeError, ValueError, OverflowError):
        return math.nan
