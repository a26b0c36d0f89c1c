"""What a warm start imitates: demonstrations of an env's own policy, the best episodes of a run or of an evaluation, or
logs of agents in production.

All become token ids as a rollout would have them: prompts and observations by the chat format, assistant turns apart.
Episodes that the same model sampled keep their ids. What an agent of the user's asked its model is imitated in the
agent's own prompts. Assistant turns alone are imitated; a turn that the env answered with an error, or that a file
gives ``"weight": 0``, is context.
"""

import asyncio
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from grpo.agents.captured import leave_out
from grpo.chat import Chat
from grpo.chat.tree import CallTree, rendered
from grpo.episodes.record import read_episodes, with_transcript
from grpo.errors import DataError, ModelError
from grpo.learner.segments import Segment, TurnWeights, segments_of
from grpo.seeds import derive_seed
from grpo.training.logs import read_log
from grpo.training.rewards import GroupReward
from grpo.types import Episode, Group, Message, Task


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


@dataclass(frozen=True, slots=True)
class Choice:
    """Which episodes are imitated: all of them, where it asks for nothing.

    Attributes:
        min_reward: None of less reward.
        best_share: Of all, this share of the highest reward, and what has as much as the last of them.
        best_per_scenario: Of each scenario, only so many of the highest reward, of those that can be imitated.
        reward: Rewards them anew.
    """

    min_reward: float | None = None
    best_share: float | None = None
    best_per_scenario: int | None = None
    reward: GroupReward | None = None


def from_episodes(
    found: Demonstrations,
    files: Sequence[Path],
    chat: Chat,
    *,
    same_model: bool,
    learn_auxiliary: bool = False,
    choice: Choice = Choice(),
) -> None:
    """The best episodes that were played (rejection sampling; compare RAFT, arXiv 2304.06767, algorithm 1).

    Each file is read twice: for the rewards, of which a long run has room, and then for the episodes that are taken.

    Args:
        found: Gets the demonstrations.
        files: Of a run, its ``trajectories/*.jsonl``; of an evaluation, its ``results.jsonl``.
        chat: Of the model that will imitate.
        same_model: Whether that is the model that sampled them; its token ids are kept then.
        learn_auxiliary: See `grpo.agents.captured.leave_out`.
        choice: Which are taken.

    Raises:
        DataError: There is no episode, or one cannot be read.
    """
    try:
        light = (episode for path in files for episode in read_episodes(path, transcripts=False))
        take = partial(_in_form_of, chat, same_model=same_model, learn_auxiliary=learn_auxiliary)
        _choose(found, light, choice, take)
    except ValueError as error:
        raise DataError(str(error)) from error


def from_log(found: Demonstrations, path: Path, chat: Chat, choice: Choice = Choice()) -> None:
    """What agents said in production (`grpo.training.logs`).

    Raises:
        DataError: A line that is nothing of the kind; with its number.
    """

    def take(episode: Episode) -> Episode | None:
        if episode.env:
            return _in_form_of(chat, episode, same_model=False, learn_auxiliary=False)
        try:
            encoded = _encoded(episode.messages, episode.tools, (), chat)
        except ModelError as error:
            found.left_out[f"refused by the model's chat template: {error.__cause__ or error}"] += 1
            return None
        for message, said in zip(episode.messages, encoded.messages, strict=True):
            if message.get("tool_calls") and (message.get("content") or "") not in said["content"]:
                found.left_out["text beside a tool call, where the model's template has none"] += 1
        return encoded

    _choose(found, read_log(path, found.left_out), choice, take)


def _choose(
    found: Demonstrations, episodes: Iterable[Episode], choice: Choice, take: Callable[[Episode], Episode | None]
) -> None:
    groups: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        if episode.ending.compared:
            groups[episode.task.key].append(episode)
        else:
            found.left_out[f"ended: {episode.ending}"] += 1
    if choice.reward is not None:
        groups = asyncio.run(_rewarded(found, groups, choice.reward))
    ranked = sorted(-e.reward for group in groups.values() for e in group if not math.isnan(e.reward))
    least = -ranked[math.ceil(choice.best_share * len(ranked)) - 1] if choice.best_share and ranked else -math.inf
    for key, group in groups.items():
        kept = 0
        for episode in sorted(group, key=lambda e: -math.inf if math.isnan(e.reward) else e.reward, reverse=True):
            if math.isnan(episode.reward) and choice != Choice():
                found.left_out["without a reward"] += 1
            elif choice.min_reward is not None and episode.reward < choice.min_reward:
                found.left_out[f"reward below {choice.min_reward:g}"] += 1
            elif episode.reward < least:
                found.left_out[f"not among the best {choice.best_share:.0%}"] += 1
            elif kept == choice.best_per_scenario:
                found.left_out[f"not among the best {kept} of the scenario"] += 1
            elif (taken := take(with_transcript(episode))) is not None:
                kept += found.add(key, taken)


async def _rewarded(
    found: Demonstrations, groups: dict[str, list[Episode]], reward: GroupReward
) -> dict[str, list[Episode]]:
    whole = (Group(group[0].task, list(map(with_transcript, group))) for group in groups.values())
    judged = dict(zip(groups, await asyncio.gather(*map(reward.reward, whole)), strict=True))
    found.left_out.update("no verdict of the judge" for key, one in judged.items() if one is None for _ in groups[key])
    return {key: one.episodes for key, one in judged.items() if one is not None}


def _in_form_of(chat: Chat, episode: Episode, *, same_model: bool, learn_auxiliary: bool) -> Episode:
    if same_model:
        return episode
    if any(call.is_of_agent for call in episode.calls):
        return _asked_again(episode, chat, learn_auxiliary=learn_auxiliary)
    return _in_own_form(episode, chat)


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
