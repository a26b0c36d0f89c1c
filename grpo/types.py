"""The values that flow through a run and an evaluation: tasks, model calls, episodes and groups.

Plain dataclasses without behaviour beyond what can be read off them; they know neither torch nor the server.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from grpo.ending import Ending

Message = dict[str, Any]
"""One OpenAI-style chat message: ``{"role": ..., "content": ...}``."""

_SERVER_FAULTS = (0, 401, 403, 404, 408, 429)


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
    def of_key(cls, key: str, seed: int) -> Self:
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


@dataclass(frozen=True, slots=True)
class Answer:
    """A final answer.

    Attributes:
        text: The answer.
        sources: What it rests on, for example ids of mails.
    """

    text: str
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Explain what is of another type where it was written, in the agent."""
        if not isinstance(self.text, str):
            raise TypeError(f"Answer takes a text, not {self.text!r}")
        listed = isinstance(self.sources, tuple | list)
        if not listed or not all(isinstance(source, str) for source in self.sources):
            raise TypeError(f"sources of an Answer are a tuple of texts, not {self.sources!r}")


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What an agent is asked.

    Attributes:
        instructions: The system message: who the agent is and its limits.
        question: The user's message.
    """

    instructions: str
    question: str

    def __str__(self) -> str:
        """Both as one prompt."""
        return f"{self.instructions}\n\n{self.question}".strip()


@dataclass(frozen=True, slots=True)
class Model:
    """The model an agent may use, behind an OpenAI-compatible endpoint of this episode's own.

    Attributes:
        name: What to ask for as ``model``.
        base_url: Ends in ``/v1``; has ``/chat/completions``, ``/responses`` and ``/messages``, streaming too.
        api_key: To be sent, as clients insist on one. It opens nothing: the real key stays with the harness.
    """

    name: str
    base_url: str
    api_key: str = "unused"


@dataclass(slots=True)
class ModelCall:
    """One request to a model and its reply: as token ids where they are known, as messages where an agent sent them.

    Attributes:
        model: Name that was asked for.
        version: Of the policy in training that replied.
        turn: Which of the episode's turns the reply became; of several the first, None where it became none.
        left_out: Why it is not learned from, "" where it is: ``retried`` or ``auxiliary`` (`grpo.agents.captured`).
        follows: The call, by its place among the episode's, whose prompt and reply stand before ``prompt_ids``; None
            where the prompt begins with these.
        differs: Why it follows none, though it has turns of the assistant in its history.
        prompt_ids: What the model saw beyond the call it follows: append-only, in the order it was seen.
        sampled_ids: The reply.
        logprobs: Of each sampled id, by the sampler (natural log, temperature applied).
        sampled: The tokens of the reply as text with their logprobs, for people; see `Chat.sampled_text`.
        finish_reason: The server's: ``stop`` or ``length``.
        asked: What else the request asked for, by its name.
        tools: Schemas of the functions that the request offered.
        shared: How many messages at the front are those of the call before; only the rest is kept.
        messages: The new messages.
        reply: The model's message.
        other_replies: Further ones, where a request asked for several.
        prompt_tokens: As the server counted.
        completion_tokens: As the server counted.
        status: HTTP status, 0 where no answer came.
        error: What went wrong, "" where nothing did.
        is_context_full: Whether that is a prompt longer than the model takes.
        began: Seconds from the beginning of the episode to the request.
        seconds: From request to the end of the reply.
        first_token_seconds: To the first piece of a streamed reply.
        cost: In US dollars, where known.
    """

    model: str = ""
    version: int | None = None
    turn: int | None = None
    left_out: str = ""
    follows: int | None = None
    differs: str = ""
    prompt_ids: list[int] = field(default_factory=list)
    sampled_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    sampled: list[str | float] = field(default_factory=list)
    finish_reason: str = ""
    asked: dict[str, Any] = field(default_factory=dict)
    tools: list[dict[str, Any]] = field(default_factory=list)
    shared: int = 0
    messages: list[Any] = field(default_factory=list)
    reply: Any = None
    other_replies: list[Any] = field(default_factory=list)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    status: int = 0
    error: str = ""
    is_context_full: bool = False
    began: float = 0.0
    seconds: float = 0.0
    first_token_seconds: float | None = None
    cost: float | None = None

    @property
    def is_of_agent(self) -> bool:
        """Whether an agent asked it by messages, and not the policy by ids."""
        return bool(self.messages or self.shared)

    @property
    def is_pending(self) -> bool:
        """Whether neither a reply nor an error came yet."""
        return self.status == 0 and not self.error

    @property
    def is_server_fault(self) -> bool:
        """Whether it failed for a reason that lies with the server, not with what was asked."""
        return bool(self.error) and (self.status in _SERVER_FAULTS or self.status >= 500)


def stands_in(text: str, calls: Iterable[ModelCall]) -> bool:
    """Whether a text stands in what models were asked."""
    said = json.dumps(text, ensure_ascii=False)[1:-1].strip()
    return bool(said) and any(said in json.dumps(call.messages, ensure_ascii=False) for call in calls)


class TokenRow(NamedTuple):
    """Calls that follow each other, as one append-only list of ids; three lists of equal length.

    ``calls`` says of each sampled id which of the episode's calls it belongs to, and is None of ids that the model was
    given. ``logprobs`` are the sampler's, 0.0 where nothing was sampled.
    """

    ids: list[int]
    calls: list[int | None]
    logprobs: list[float]


@dataclass(slots=True)
class Episode:
    """A task, and what became of it: of any agent, in training and in evaluation. `grpo.episodes.record` keeps it.

    Attributes:
        env: Id of the env.
        task: What it began from.
        sample_index: Counts the episodes of one task, from 0.
        seed: For whatever the agent leaves to chance.
        messages: The transcript, opening messages first.
        tools: OpenAI function schemas.
        calls: What was asked of models.
        late_calls: How many more were asked after the end, and answered with what ends an agent.
        turn_errors: The env's error code of every turn that it was handed, "" where there was none.
        reward: Sum of the env's rewards; what a judge or a reward function says, once one was asked.
        metrics: The env's after the last step, and what judges add.
        ending: Why it ended.
        error: What went wrong, for people.
        answer: The final answer, where it is known.
        implicit: Whether it came as prose, without the answer tool.
        answer_key: There where an env gives one and a judge wants it; in no record.
        verdict: What was decided on the answer besides the env's own rule.
        audit: What a judge says of an answer that a rule took for right (`grpo.episodes.marking`).
        unmarked: Why a judge that was asked gave no verdict.
        explanation: What RULER says of the reward.
        began: When, in seconds since 1970; 0.0 where that was not recorded.
        seconds: From the reset to the end.
        place: Where its record stands, if it was read without its transcript: file and byte.
    """

    env: str
    task: Task
    sample_index: int = 0
    seed: int = 0
    messages: list[Message] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    late_calls: int = 0
    turn_errors: list[str] = field(default_factory=list)
    reward: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    ending: Ending = Ending.INFRASTRUCTURE
    error: str = ""
    answer: Answer | None = None
    implicit: bool = False
    answer_key: AnswerKey | None = None
    verdict: dict[str, Any] | None = None
    audit: dict[str, Any] | None = None
    unmarked: str = ""
    explanation: str | None = None
    began: float = 0.0
    seconds: float = 0.0
    place: tuple[str, int] | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Scenario and sample: what pairs it with an episode of another policy."""
        return self.task.key, self.sample_index

    @property
    def correct(self) -> bool | None:
        """Whether it was answered right; None where the env has no metric ``success``, or it counts nowhere."""
        success = self.metrics.get("success")
        if success is None or not self.ending.counted:
            return None
        return self.ending is Ending.ANSWERED and success >= 0.5

    @property
    def policy_version(self) -> int | None:
        """Of the policy that played it, which is one to its end; None where no policy in training did."""
        return next((call.version for call in self.calls if call.version is not None), None)

    @property
    def num_turns(self) -> int:
        """How many turns the env was handed."""
        return len(self.turn_errors)

    @property
    def num_sampled_tokens(self) -> int:
        """How many tokens models have sampled."""
        return sum(call.completion_tokens for call in self.calls)

    @property
    def num_prompt_tokens(self) -> int:
        """How many tokens models were shown, those that were shown again counted again."""
        return sum(call.prompt_tokens for call in self.calls)

    @property
    def num_tokens(self) -> int:
        """How many token ids it has, each counted once in the row that it stands in; 0 where they are not known."""
        return sum(len(call.prompt_ids) + len(call.sampled_ids) for call in self.calls)

    @property
    def num_forks(self) -> int:
        """How often what is learned from began anew: a template rewrote what was said, or an agent its history."""
        learned = (call for call in self.calls if call.sampled_ids and not call.left_out)
        return max(0, sum(call.follows is None for call in learned) - 1)

    @property
    def cut_turns(self) -> int:
        """How many turns ended for their length."""
        return sum(call.finish_reason == "length" for call in self.calls)

    @property
    def cost(self) -> float | None:
        """Of its model calls, in US dollars; None where it is not known of any."""
        known = [call.cost for call in self.calls if call.cost is not None]
        return sum(known) if known else None

    def rows(self) -> Iterator[TokenRow]:
        """What can be learned from: its calls, those that follow each other as one row of ids.

        A sampled id is an action in one row alone. Where two calls follow the same one, the second begins a row in
        which everything before is context.
        """
        rows: dict[int, TokenRow] = {}  # by the call that ends each
        for number, call in enumerate(self.calls):
            if not call.sampled_ids or call.left_out:
                continue
            row = TokenRow([], [], [])
            if call.follows is not None:
                row = rows.pop(call.follows, None) or self._context(call.follows)
            row.ids.extend(call.prompt_ids + call.sampled_ids)
            row.calls.extend([None] * len(call.prompt_ids) + [number] * len(call.sampled_ids))
            row.logprobs.extend([0.0] * len(call.prompt_ids) + call.logprobs)
            rows[number] = row
        yield from rows.values()

    def number_of(self, call: ModelCall) -> int:
        """The place of a call among the episode's."""
        return next(number for number, kept in enumerate(self.calls) if kept is call)

    def ids_through(self, number: int | None) -> list[int]:
        """All ids up to the end of a call, those of the calls that it follows included; none without a call."""
        parts: list[list[int]] = []
        while number is not None:
            call = self.calls[number]
            parts += [call.sampled_ids, call.prompt_ids]
            number = call.follows
        return [token for part in reversed(parts) for token in part]

    def _context(self, number: int) -> TokenRow:
        ids = self.ids_through(number)
        return TokenRow(ids, [None] * len(ids), [0.0] * len(ids))


@dataclass(slots=True)
class Group:
    """Episodes that began from the same task; rewards are compared within it."""

    task: Task
    episodes: list[Episode]
    advantages: list[float] = field(default_factory=list)

    @property
    def rewards(self) -> list[float]:
        """The members' rewards, in order."""
        return [episode.reward for episode in self.episodes]

    def compared(self) -> Self:
        """The group without what failed or was cut: those members whose rewards can be compared."""
        return type(self)(self.task, [episode for episode in self.episodes if episode.ending.compared])

    @property
    def failed(self) -> int:
        """How many members ended in a fault that was not the agent's."""
        return sum(not episode.ending.counted for episode in self.episodes)


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids two lists begin with in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))
