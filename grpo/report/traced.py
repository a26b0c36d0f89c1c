"""Episodes as viewers of other programs take them: the files of a folder, and what happened in an episode, and when.

Calls stand apart from the text of their turn, as OpenAI has them, whichever way the model wrote them. A tool call lasts
from the model call before it to the next one; where none was timed, of a script for example, it has no length.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from grpo.episodes.record import read_episodes
from grpo.episodes.store import FILE_NAME
from grpo.errors import ReportError
from grpo.report.run import readable
from grpo.report.transcripts import content_of, turn_of
from grpo.runs.evaluations import baseline_of, files
from grpo.types import Episode, Message, ModelCall
from judges.common.files import read_json
from judges.common.tool_calls import Call


class Source(NamedTuple):
    """A file of episodes, an evaluation or a step of a run: what it is called, where it is, who played, by settings."""

    label: str
    path: Path
    agent: str
    config: dict[str, Any]

    @property
    def model(self) -> tuple[str, str]:
        """Its provider, as far as that is known, and its name."""
        model = str(self.config.get("model") or self.agent)
        kind, _, name = model.partition("@http")[0].partition(":")
        providers = {"openai": "openai", "litellm": name.partition("/")[0]}
        return (providers[kind], name) if kind in providers else ("grpo", model)

    def episodes(self) -> Iterator[Episode]:
        """One after the other; where a record does not say when its episode began, it ended when the file was written.

        Raises:
            ReportError: The file cannot be read, or a line before the last is damaged.
        """
        with readable(self.path):
            for episode in read_episodes(self.path):
                yield replace(episode, began=episode.began or self.path.stat().st_mtime - episode.seconds)


def sources(folder: Path) -> list[Source]:
    """Every file of episodes in a run or an evaluation.

    Raises:
        ReportError: There is none, or the settings cannot be read.
    """
    found = {folder.resolve().name: folder / FILE_NAME}
    if not (folder / FILE_NAME).exists():
        steps = {path.stem: path for path in sorted(folder.glob("trajectories/step-*.jsonl"))}
        found = files(folder, ".jsonl") | steps
    if not found:
        raise ReportError(f"{folder} holds no episodes; name a run directory, or a folder that grpo-eval wrote")
    with readable(folder / "config.json"):
        config = read_json(folder / "config.json")
    agent = str(config.get("agent") or "policy")
    return [Source(label, path, baseline_of(label) or agent, config) for label, path in found.items()]


def apart(messages: Iterable[Message]) -> list[Message]:
    """Messages with the ``calls`` of a turn beside its text, and each result with the call that it is ``of``."""
    forms: list[Message] = []
    waiting: list[Call] = []
    for place, message in enumerate(messages):
        form: Message = {"role": message["role"], "content": content_of(message)}
        if form["role"] == "assistant":
            form["content"], turn = turn_of(message)
            form["calls"] = [replace(c, call_id=c.call_id or f"call_{place}_{n}") for n, c in enumerate(turn.calls)]
            waiting = list(form["calls"])
        elif form["role"] == "tool" and waiting:
            form["of"] = next((c for c in waiting if c.call_id == message.get("tool_call_id")), waiting[0])
            waiting.remove(form["of"])
        forms.append(form)
    return forms


def model_calls(episode: Episode) -> Iterator[tuple[ModelCall, list[Message], Message | None]]:
    """Each call of a model, all that it was asked, and its reply if there was one: as `apart` has them."""
    turns = [place for place, message in enumerate(episode.messages) if message["role"] == "assistant"]
    asked: list[Message] = []
    for call in episode.calls:
        reply = call.reply if isinstance(call.reply, dict) else None
        asked = [*asked[: call.shared], *call.messages]
        if not call.is_of_agent and call.turn is not None:
            asked, reply = episode.messages[: turns[call.turn]], episode.messages[turns[call.turn]]
        whole = apart([*asked, {"role": "assistant", **reply}] if reply else asked)
        yield (call, whole[:-1], whole[-1]) if reply else (call, whole, None)


def tool_calls(episode: Episode) -> Iterator[tuple[Call, str | None, str, float, float]]:
    """Each tool call: its result, None where the episode ended instead; the env's error code; its times as a call's."""
    messages = apart(episode.messages)
    results = {id(message["of"]): message["content"] for message in messages if "of" in message}
    for turn, calls in enumerate(message["calls"] for message in messages if "calls" in message):
        ended = [c.began + c.seconds for c in episode.calls if c.seconds and c.turn is not None and c.turn <= turn]
        began = max(ended, default=0.0)
        until = min((c.began for c in episode.calls if c.began >= began), default=episode.seconds) if ended else began
        error = episode.turn_errors[turn] if len(calls) == 1 and turn < len(episode.turn_errors) else ""
        yield from ((call, results.get(id(call)), error, began, max(0.0, until - began)) for call in calls)
