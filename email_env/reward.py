"""What an episode is worth: ART-E's published tiers, every constant in `RewardConfig`.

    format error < wrong answer < "I don't know" or no answer < right answer

At its end an episode gets the base of its tier and some credit within the tier. Every invalid call costs a little when
it happens. With the default constants neither credits nor penalties move an episode into another tier. No model judges
anything here.

Two things differ from ART-E (https://openpipe.ai/blog/art-e-mail-agent). An invalid call does not end the episode; the
lowest tiers are for episodes without a single valid call. And sources count by precision and recall.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from email_env.errors import ConfigurationError, check_choice
from email_env.scenarios.scenario import Scenario
from email_env.tools.toolbox import Answer, ToolResult
from judges.common.tool_calls import ErrorCode


@dataclass(frozen=True, slots=True)
class RewardConfig:
    """The constants. `reward_config` checks a dict of them.

    Attributes:
        format_error: base of an episode without a valid call whose best try could not be read as a call.
        unknown_tool: the same, where the best try named a tool that does not exist.
        bad_args: the same, where the best try had arguments that cannot be used.
        wrong_answer: base of a wrong answer.
        no_answer: base of "I don't know" where the mailbox holds the answer, and of running out of turns.
        right_answer: base of a right answer.
        partial_found: without a right answer, times the share of the evidence that searches showed.
        partial_read: without a right answer, times the share of the evidence that was read, there or quoted as a whole.
        partial_no_unknown_id: without a right answer, if every id that was read is one that the inbox shows.
        partial_sources: without a right answer, times the recall of the answer's sources.
        right_sources: with a right answer, times the recall of its sources.
        exact_sources: with a right answer, times the precision of its sources.
        speed: with a right answer, times the share of turns that are left.
        invalid_call_penalty: subtracted for each invalid call when it happens.
        max_penalized_calls: invalid calls beyond this number cost nothing.
    """

    format_error: float = -2.0
    unknown_tool: float = -1.9
    bad_args: float = -1.8
    wrong_answer: float = -1.0
    no_answer: float = 0.0
    right_answer: float = 1.0
    partial_found: float = 0.1
    partial_read: float = 0.1
    partial_no_unknown_id: float = 0.1
    partial_sources: float = 0.1
    right_sources: float = 0.3
    exact_sources: float = 0.1
    speed: float = 0.1
    invalid_call_penalty: float = 0.1
    max_penalized_calls: int = 5

    # pydantic reads this when it checks a dict. The defaults need no check, and importing pydantic is slow.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}


_NAMES = tuple(item.name for item in fields(RewardConfig))


def reward_config(value: RewardConfig | Mapping[str, Any] | None) -> RewardConfig:
    """The constants from what a user passed: None for the defaults, or a mapping of the constants that differ.

    Raises:
        ConfigurationError: a name is unknown (the nearest is named) or a value is no finite number.
    """
    if value is None:
        return RewardConfig()
    if isinstance(value, RewardConfig):
        value = asdict(value)
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"reward must be a mapping of constants, got {value!r}. Its keys: {', '.join(_NAMES)}."
        )
    for name in value:
        check_choice("a constant of the reward", name, _NAMES)
    from pydantic import TypeAdapter, ValidationError

    try:
        config = TypeAdapter(RewardConfig).validate_python(dict(value))
    except ValidationError as error:
        faults = error.errors()
        reasons = "; ".join(f"{'.'.join(map(str, f['loc']))}={f['input']!r}: {f['msg']}" for f in faults)
        raise ConfigurationError(f"A constant of the reward cannot be used: {reasons}.") from error
    if config.max_penalized_calls < 0 or config.invalid_call_penalty < 0:
        raise ConfigurationError(
            "invalid_call_penalty and max_penalized_calls must not be negative: a penalty is taken off."
        )
    return config


@dataclass(slots=True)
class Score:
    """The running account of one episode: what happened, what it earned, and both as metrics.

    Args:
        config: the constants.
        scenario: the question.
        max_turns: the limit on turns.
    """

    config: RewardConfig
    scenario: Scenario
    max_turns: int
    turns: int = 0
    tool_calls: int = 0
    invalid_calls: int = 0
    unknown_ids: int = 0
    searches: int = 0
    found: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    errors: set[str] = field(default_factory=set)
    answer: Answer | None = None
    dont_know: bool = False
    success: bool = False
    undecided: bool = False
    reward: float = 0.0
    parts: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("tier", "partial", "sources", "speed", "penalty"), 0.0)
    )

    def note(self, result: ToolResult) -> None:
        """Counts what came of a call."""
        self.tool_calls += 1
        if result.error:
            self.invalid_calls += 1
            self.errors.add(result.error)
            if self.invalid_calls <= self.config.max_penalized_calls:
                self.parts["penalty"] -= self.config.invalid_call_penalty
        evidence = set(self.scenario.message_ids)
        self.searches += result.searched
        self.found |= evidence.intersection(result.found)
        self.read |= evidence.intersection(result.read)
        self.unknown_ids += result.unknown_id
        if result.answer is not None:
            self.settle(result.answer)

    def settle(self, answer: Answer) -> None:
        """Judges the final answer."""
        from judges.answers.giving_up import gives_up  # the patterns take a moment to compile
        from judges.answers.matching import Verdict, decide
        from judges.answers.tokens import tokens

        scenario = self.scenario
        self.answer = answer
        verdict = decide(answer.text, (scenario.answer, *scenario.accepted), scenario.question).verdict
        right = verdict is Verdict.RIGHT
        gives_up_on_it = gives_up(tokens(answer.text), tokens(scenario.question))
        self.dont_know = gives_up_on_it and not (right and scenario.answerable)
        self.success = right if scenario.answerable else self.dont_know
        self.undecided = verdict is Verdict.UNDECIDED and scenario.answerable

    def finish(self) -> None:
        """Adds the reward of the whole episode, which has ended."""
        config, parts = self.config, self.parts
        if self.success:
            parts["tier"] = config.right_answer
            parts["sources"] = config.right_sources * self.source_recall + config.exact_sources * self.source_precision
            parts["speed"] = config.speed * (1 - self.turns / self.max_turns)
            return
        parts["tier"] = self._tier()
        parts["partial"] = (
            config.partial_found * self._share(self.found)
            + config.partial_read * self._share(self.read)
            + config.partial_no_unknown_id * (self.unknown_ids == 0)
            + config.partial_sources * self.source_recall
        )

    def judged(self, right: bool) -> Self:
        """The account of the finished episode as it would be, had a judge marked its answer so."""
        parts = dict.fromkeys(self.parts, 0.0) | {"penalty": self.parts["penalty"]}
        other = replace(self, success=right, dont_know=self.dont_know and not right, undecided=False, parts=parts)
        other.finish()
        other.claim()
        return other

    def claim(self) -> float:
        """What was added since the last claim: the reward of a step."""
        total = sum(self.parts.values())
        gain, self.reward = total - self.reward, total
        return gain

    def _tier(self) -> float:
        config = self.config
        if self.answer is not None:
            return config.no_answer if self.dont_know else config.wrong_answer
        if self.tool_calls > self.invalid_calls or not self.errors:
            return config.no_answer
        if ErrorCode.BAD_ARGS in self.errors:
            return config.bad_args
        return config.unknown_tool if ErrorCode.UNKNOWN_TOOL in self.errors else config.format_error

    def _share(self, seen: set[str]) -> float:
        return len(seen) / len(set(self.scenario.message_ids)) if self.scenario.message_ids else 0.0

    @property
    def source_recall(self) -> float:
        """Share of the evidence that the answer names. Without evidence: 1 if a search was made and no source named."""
        return self._named_share(self.scenario.message_ids)

    @property
    def source_precision(self) -> float:
        """Share of the named sources that are evidence. Without evidence it equals `source_recall`."""
        return self._named_share(self.answer.sources if self.answer else ())

    def _named_share(self, whole: Sequence[str]) -> float:
        if self.answer is None:
            return 0.0
        if not self.scenario.answerable:
            return float(self.success and self.searches > 0 and not self.answer.sources)
        named = set(self.answer.sources).intersection(self.scenario.message_ids)
        return len(named) / len(set(whole)) if whole else 0.0

    def metrics(self) -> dict[str, float]:
        """The account as floats, with the same names at every step. The values `reward_*` add up to `reward`."""
        difficulty = self.scenario.difficulty
        answer = self.answer
        return {
            "success": float(self.success),
            "answered": float(answer is not None),
            "dont_know": float(self.dont_know),
            "undecided": float(self.undecided),
            "implicit_answer": float(answer is not None and answer.implicit),
            "found": self._share(self.found),
            "read": self._share(self.read),
            "turns": float(self.turns),
            "tool_calls": float(self.tool_calls),
            "invalid_calls": float(self.invalid_calls),
            "valid_call_rate": (self.tool_calls - self.invalid_calls) / self.tool_calls if self.tool_calls else 0.0,
            "unknown_ids": float(self.unknown_ids),
            "source_precision": self.source_precision,
            "source_recall": self.source_recall,
            "reward": self.reward,
            **{f"reward_{name}": value for name, value in self.parts.items()},
            **{f"difficulty_{name}": float(difficulty == name) for name in ("easy", "medium", "hard")},
            "answerable": float(self.scenario.answerable),
        }
