"""The values that flow through a training step: sampled turns, trajectories and groups.

Plain dataclasses without behaviour beyond their invariants; they know neither torch nor the server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

Message = dict[str, Any]
"""One OpenAI-style chat message: ``{"role": ..., "content": ...}``."""


class StopReason(StrEnum):
    """Why an episode ended."""

    TERMINATED = "terminated"
    """The env ended the episode itself (for example a final answer)."""
    TRUNCATED = "truncated"
    """The env's own turn limit."""
    CONTEXT_FULL = "context_full"
    """No room for another turn within ``max_tokens``: we cut it, so its return is not known and not learned from."""
    FAILED = "failed"
    """A harness fault (server, env exception); the trajectory carries the error and is never trained on."""


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """What a policy returns for one assistant turn.

    ``ids`` and ``logprobs`` (natural log, temperature applied) have equal length; ``finish_reason`` is the server's:
    ``stop`` (an end-of-turn token, included in ``ids``) or ``length``.
    """

    ids: list[int]
    logprobs: list[float]
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Task:
    """What all members of a group begin from: a scenario (where the env names them) and a seed."""

    seed: int
    scenario_id: str | None = None

    @property
    def key(self) -> str:
        """A stable name for logs and for pairing evaluations."""
        return self.scenario_id if self.scenario_id is not None else f"seed-{self.seed}"

    @classmethod
    def of_key(cls, key: str, seed: int) -> Task:
        """The task with this ``key`` and ``seed``."""
        unnamed = cls(seed)
        return unnamed if key == unnamed.key else cls(seed, key)


class Outcome(NamedTuple):
    """What a whole episode comes to: its reward, and its metrics."""

    reward: float
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """What marking an episode's answer takes, and no agent may see: the question and its right answers.

    ``answer`` is what was answered, None where nothing was. ``outcomes`` is what the env says the episode comes to, had
    a judge marked the answer as right (True) or wrong (False); None where the env does not say.
    """

    question: str
    references: tuple[str, ...]
    answer: str | None = None
    outcomes: dict[bool, Outcome] | None = None


@dataclass(slots=True)
class Trajectory:
    """One episode, token for token.

    ``token_ids``, ``action_mask`` and ``logprobs`` are append-only lists of equal length: the prompt, every sampled id
    and every observation id in the order the policy saw them. ``action_mask`` is True for sampled ids alone;
    ``logprobs`` holds the sampler's log-probability there and 0.0 elsewhere. ``turn_errors`` has the env's error code
    of every assistant turn, "" where there was none. ``cut_turns`` counts the turns that ended for their length.
    ``sample_index`` counts the episodes of one task, from 0.

    ``answer_key`` is there where an env gives one and the episode has an answer; it is in no record. ``verdict`` is
    what was decided on that answer besides the env's own rule, ``audit`` what a judge says of one that a rule took for
    right (`grpo.episodes.marking`), ``unmarked`` why a judge that was asked gave no verdict.

    Where a chat template rewrites what was said, the lists go on with a new segment: a whole prompt, in which earlier
    turns are context. ``segment_starts`` says where segments begin; the policy sees the last one, ``context_ids``.
    """

    env: str
    task: Task
    sample_index: int
    policy_version: int
    token_ids: list[int] = field(default_factory=list)
    action_mask: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    segment_starts: list[int] = field(default_factory=lambda: [0])
    messages: list[Message] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    turn_errors: list[str] = field(default_factory=list)
    cut_turns: int = 0
    reward: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    stop_reason: StopReason = StopReason.FAILED
    error: str = ""
    explanation: str | None = None
    answer_key: AnswerKey | None = None
    verdict: dict[str, Any] | None = None
    audit: dict[str, Any] | None = None
    unmarked: str = ""
    seconds: float = 0.0

    def append(self, ids: list[int], logprobs: list[float] | None = None) -> None:
        """Append ids the policy was given, or, with their ``logprobs``, ids it sampled."""
        sampled = logprobs is not None
        values = logprobs if logprobs is not None else [0.0] * len(ids)
        assert len(values) == len(ids), "ids and logprobs must have equal length"
        self.token_ids.extend(ids)
        self.logprobs.extend(values)
        self.action_mask.extend([sampled] * len(ids))

    def fork(self, prompt_ids: list[int]) -> None:
        """Begin a new segment with a whole prompt; what was sampled before stays to be learned where it stands."""
        self.segment_starts.append(len(self.token_ids))
        self.append(prompt_ids)

    @property
    def context_ids(self) -> list[int]:
        """What the policy sees: the ids of the last segment."""
        return self.token_ids[self.segment_starts[-1] :]

    @property
    def segment_spans(self) -> list[tuple[int, int]]:
        """Begin and end of every segment within the lists."""
        return list(zip(self.segment_starts, [*self.segment_starts[1:], len(self.token_ids)], strict=True))

    @property
    def is_played_out(self) -> bool:
        """Whether the env ended the episode itself; only then its reward is that of a whole episode."""
        return self.stop_reason in (StopReason.TERMINATED, StopReason.TRUNCATED)

    @property
    def num_forks(self) -> int:
        """How often the chat template rewrote what was said."""
        return len(self.segment_starts) - 1

    @property
    def num_sampled_tokens(self) -> int:
        """How many of the tokens the policy sampled."""
        return sum(self.action_mask)

    @property
    def num_turns(self) -> int:
        """How many assistant turns the episode has."""
        return sum(1 for message in self.messages if message["role"] == "assistant")

    def to_record(self, *, logprobs: bool = False) -> dict[str, Any]:
        """The JSON form of an episode, the same in every file that holds one; `from_record` reads it.

        It has each field under its name, but ``sample`` for the ``sample_index``, ``scenario_id`` (the task's key) and
        ``seed`` for the task, and an ``action_mask`` of 0 and 1. ``num_sampled_tokens``, ``num_tokens`` and
        ``num_forks`` are for readers that leave the tokens out.

        Args:
            logprobs: Keep the sampler's logprobs, too. They are most of the bytes, and only training needs them.
        """
        record = {name: getattr(self, name) for name in _SAVED}
        record |= {
            "scenario_id": self.task.key,
            "seed": self.task.seed,
            "sample": self.sample_index,
            "action_mask": [int(sampled) for sampled in self.action_mask],
            "num_sampled_tokens": self.num_sampled_tokens,
            "num_tokens": len(self.token_ids),
            "num_forks": self.num_forks,
        }
        return record | {"logprobs": self.logprobs} if logprobs else record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Trajectory:
        """The episode that `to_record` wrote, token for token; logprobs that were not kept are 0.0.

        Raises:
            ValueError: It is no such record.
        """
        try:
            values = {name: record[name] for name in _SAVED if name in record or name not in _LATER}
            values |= {
                "task": Task.of_key(record["scenario_id"], int(record["seed"])),
                "sample_index": record["sample"],
                "action_mask": [bool(sampled) for sampled in record["action_mask"]],
                "logprobs": record.get("logprobs", [0.0] * len(record["token_ids"])),
                "stop_reason": StopReason(record["stop_reason"]),
                # JSON has no word for a number that is not finite
                "metrics": {name: math.nan if v is None else v for name, v in record["metrics"].items()},
            }
            lengths = {len(values[name]) for name in ("token_ids", "action_mask", "logprobs")}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"this is no saved episode ({type(error).__name__}: {error})") from error
        if len(lengths) > 1:
            raise ValueError(f"this is no saved episode: its tokens, mask and logprobs have the lengths {lengths}")
        return cls(**values)


_NOT_AS_IT_IS = ("task", "sample_index", "action_mask", "logprobs", "answer_key")
_SAVED = [field.name for field in fields(Trajectory) if field.name not in _NOT_AS_IT_IS]
"""The fields that a record has as they are."""
_LATER = ("verdict", "audit", "unmarked", "cut_turns")
"""Those that records of older runs lack."""


@dataclass(slots=True)
class Group:
    """Trajectories that began from the same task; rewards are compared within it."""

    task: Task
    trajectories: list[Trajectory]
    advantages: list[float] = field(default_factory=list)

    @property
    def rewards(self) -> list[float]:
        """The members' rewards, in order."""
        return [trajectory.reward for trajectory in self.trajectories]

    def played_out(self) -> Group:
        """The group without what failed or was cut: those members whose rewards can be compared."""
        return Group(self.task, [trajectory for trajectory in self.trajectories if trajectory.is_played_out])

    @property
    def failed(self) -> int:
        """How many members ended in a harness fault."""
        return sum(1 for t in self.trajectories if t.stop_reason is StopReason.FAILED)
