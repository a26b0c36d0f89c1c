"""What a warm start imitates: demonstrations of an env's own policy, the best episodes of a run or of an evaluation, or
chats in a JSONL file.

All become token ids as a rollout would have them: prompts and observations by the chat format, assistant turns apart.
Episodes that the same model sampled keep their ids. What an agent of the user's asked its model is imitated in the
agent's own prompts. Assistant turns alone are imitated; a turn that the env answered
with an error, or that a file gives ``"weight": 0``, is context.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from grpo.agents.captured import leave_out
from grpo.chat import Chat
from grpo.chat.tree import CallTree, rendered
from grpo.config import TrainConfig
from grpo.envs.message_env import MessageEnv
from grpo.episodes.record import read_episodes, with_transcript
from grpo.errors import DataError, ModelError
from grpo.learner.segments import Segment, TurnWeights, segments_of
from grpo.seeds import derive_seed
from grpo.training.imitation import demonstrate, is_kept
from grpo.types import Episode, Message, Task

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Rows to imitate. Demonstrations with one ``key`` solve the same task and are held out together."""

    key: str
    rows: tuple[Segment, ...]


@dataclass(slots=True)
class Demonstrations:
    """Demonstrations without duplicates and what was left out, by reason."""

    max_tokens: int
    kept: list[Demonstration] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    _seen: set[tuple[tuple[int, ...], ...]] = field(default_factory=set)

    def add(self, key: str, episode: Episode) -> bool:
        """Keep an episode, unless it is too long, known already, or has nothing to imitate; says whether it is kept."""
        weights = TurnWeights(invalid_calls=0.0)
        rows = [row for row in segments_of(episode, 1.0, weights) if row.advantage > 0]
        ids = tuple(tuple(row.ids) for row in rows)
        if not rows:
            self.left_out["nothing to imitate"] += 1
        elif max(len(row.ids) for row in rows) > self.max_tokens:
            self.left_out[f"over {self.max_tokens} tokens"] += 1
        elif ids in self._seen:
            self.left_out["duplicate"] += 1
        else:
            self._seen.add(ids)
            self.kept.append(Demonstration(key, tuple(rows)))
            return True
        return False

    def split(self, share: float, seed: int) -> tuple[list[Segment], list[Segment]]:
        """Rows to train on, and rows of about ``share`` of the tasks to validate on.

        Raises:
            DataError: There is nothing to train on.
        """
        keys = sorted({demonstration.key for demonstration in self.kept})
        random.Random(derive_seed(seed, "validation")).shuffle(keys)
        held_out = set(keys[: round(share * len(keys))])
        train = [row for d in self.kept if d.key not in held_out for row in d.rows]
        if not train:
            why = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items()) or "none was found"
            raise DataError(f"there is no demonstration to train on ({len(self.kept)} kept; left out: {why})")
        return train, [row for d in self.kept if d.key in held_out for row in d.rows]


def from_policy(
    found: Demonstrations,
    env: MessageEnv,
    tasks: Iterable[Task],
    chat: Chat,
    policy_name: str,
    config: TrainConfig,
    on_done: Callable[[], None] = lambda: None,
) -> None:
    """Have the env's own policy play ``tasks``; its successes are demonstrations, or all that it does."""
    for task in tasks:
        episode = demonstrate(env, task, chat, policy_name, derive_seed(task.seed, "demonstration"))
        if is_kept(episode, config):
            found.add(task.key, episode)
        else:
            found.left_out["no success"] += 1
        on_done()


def from_episodes(
    found: Demonstrations,
    files: Sequence[Path],
    chat: Chat,
    *,
    same_model: bool,
    learn_auxiliary: bool = False,
    min_reward: float | None = None,
    best_per_scenario: int | None = None,
) -> None:
    """The best episodes that were played (rejection sampling; compare RAFT, arXiv 2304.06767, algorithm 1).

    Each file is read twice: for the rewards, of which a long run has room, and then for the episodes that are taken.

    Args:
        found: Gets the demonstrations.
        files: Of a run, its ``trajectories/*.jsonl``; of an evaluation, its ``results.jsonl``.
        chat: Of the model that will imitate.
        same_model: Whether that is the model that sampled them; its token ids are kept then.
        learn_auxiliary: See `grpo.agents.captured.leave_out`.
        min_reward: Episodes below it are left out.
        best_per_scenario: Of each scenario, only so many of the highest reward, of those that can be imitated.

    Raises:
        DataError: There is no episode, or one cannot be read.
    """
    by_scenario: dict[str, list[Episode]] = defaultdict(list)
    try:
        for path in files:
            for episode in read_episodes(path, transcripts=False):
                if not episode.ending.compared:
                    found.left_out[f"ended: {episode.ending}"] += 1
                elif min_reward is not None and episode.reward < min_reward:
                    found.left_out[f"reward below {min_reward:g}"] += 1
                else:
                    by_scenario[episode.task.key].append(episode)
        for key, saved in by_scenario.items():
            kept = 0
            for light in sorted(saved, key=attrgetter("reward"), reverse=True):
                if kept == best_per_scenario:
                    found.left_out[f"not among the best {best_per_scenario} of the scenario"] += 1
                    continue
                episode = with_transcript(light)
                if not same_model and any(call.is_of_agent for call in episode.calls):
                    episode = _asked_again(episode, chat, learn_auxiliary=learn_auxiliary)
                elif not same_model:
                    episode = _in_own_form(episode, chat)
                kept += found.add(key, episode)
    except ValueError as error:
        raise DataError(str(error)) from error


def from_jsonl(found: Demonstrations, path: Path, chat: Chat) -> None:
    """Chats of a file, one JSON object a line: ``{"messages": [...], "tools": [...]}`` as OpenAI has them.

    Raises:
        DataError: A line that is no such object; with its number.
    """
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = _chat_record(line)
            episode = _encoded(record["messages"], record["tools"], (), chat)
        except ModelError as error:
            found.left_out[f"refused by the model's chat template: {error.__cause__ or error}"] += 1
            continue
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} line {number}: {error}") from error
        for message, said in zip(record["messages"], episode.messages, strict=True):
            if message.get("tool_calls") and (message.get("content") or "") not in said["content"]:
                found.left_out["text beside a tool call, where the model's template has none"] += 1
        prompt = [m for m in episode.messages if m["role"] in ("system", "user")]
        found.add(json.dumps(prompt, sort_keys=True), episode)


def _in_own_form(episode: Episode, chat: Chat) -> Episode:
    """An episode of another agent in the words of this model: its calls have this model's form."""
    messages = [
        {**m, "content": chat.own_form(m["content"], episode.tools)} if m["role"] == "assistant" else m
        for m in (_as_text(message, episode.tools, chat) for message in episode.messages)
    ]
    return _encoded(messages, episode.tools, episode.turn_errors, chat)


def _asked_again(episode: Episode, chat: Chat, *, learn_auxiliary: bool) -> Episode:
    """An episode of an agent whose calls were recorded, as if this model had answered them.

    A call that failed, or that this model's form cannot say, is not imitated.
    """
    again = replace(episode, calls=[])
    tree, history = CallTree(chat, again), list[Message]()
    for call in episode.calls:
        history = [*history[: call.shared], *call.messages]
        is_text = all(
            isinstance(message, dict) and isinstance(message.get("content"), str | None) for message in history
        )
        if not is_text or not isinstance(call.reply, dict):
            continue
        try:
            prompt = tree.following(history, call.tools)
            (turn,) = rendered(chat, [call.reply], call.tools)
        except ModelError:
            continue
        ids = chat.turn_ids(turn["content"])
        again.calls.append(replace(call))
        tree.said(prompt, ids, [0.0] * len(ids), call=again.calls[-1], sent=call.reply)
    leave_out(again.calls, learn_auxiliary=learn_auxiliary)
    return again


def _encoded(chats: Sequence[Message], tools: list[dict[str, Any]], turn_errors: Sequence[str], chat: Chat) -> Episode:
    """An episode as the chat format of this model writes it."""
    errors = iter(turn_errors)
    episode = Episode("", Task(0), tools=tools)
    tree = CallTree(chat, episode)
    for message in (_as_text(message, tools, chat) | {"weight": message.get("weight", 1)} for message in chats):
        weighs = message.pop("weight") != 0
        if message["role"] == "assistant":
            prompt = tree.following(episode.messages, tools)
            ids = chat.turn_ids(message["content"])
            if weighs:
                tree.said(prompt, ids, [0.0] * len(ids), sent=message)
            else:
                tree.shown(prompt, ids, message)
            episode.turn_errors.append(next(errors, ""))
        episode.messages.append(message)
    return episode


def _as_text(message: Message, tools: list[dict[str, Any]], chat: Chat) -> Message:
    """A message whose text is all of it, as a rollout has them: calls are in the text of their turn."""
    if message["role"] != "assistant":
        return {**message, "content": message.get("content") or ""}
    return {"role": "assistant", "content": chat.turn_text(message, tools)}


def _chat_record(line: bytes) -> dict[str, Any]:
    record = json.loads(line)
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        raise ValueError('expected an object with a list "messages", for example {"messages": [{"role": "user", ...}]}')
    roles: list[str] = []
    for place, message in enumerate(record["messages"], start=1):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            role = message.get("role") if isinstance(message, dict) else message
            raise ValueError(f"message {place} has the role {role!r}; it must be one of {', '.join(ROLES)}")
        if not isinstance(message.get("content"), str) and not message.get("tool_calls"):
            raise ValueError(f'message {place} ({message["role"]}) has no text in "content"')
        if message["role"] == "assistant" and roles[-1:] == ["assistant"]:
            raise ValueError(f"messages {place - 1} and {place} are both of the assistant; join them")
        roles.append(message["role"])
    if "assistant" not in roles or roles[0] == "assistant":
        raise ValueError("the messages must begin with a system or user message and hold an assistant's turn")
    tools = record.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ValueError('"tools" must be a list of function schemas')
    return {"messages": record["messages"], "tools": tools}
