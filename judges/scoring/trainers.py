"""RULER as a reward of other trainers, one line each: TRL's ``GRPOTrainer``, verifiers' environments, Inspect's logs.

    trainer = GRPOTrainer(..., reward_funcs=judges.trl_reward("openai/o4-mini"))

    class Compared(BestOfNEnv):                                     # verifiers.v1
        finalize = judges.verifiers_reward("openai/o4-mini")

    judges.score_inspect_log("logs/run.eval", "openai/o4-mini")     # after ``inspect eval --epochs 4``

TRL and verifiers are not imported. Written for TRL 1.16, verifiers 0.4 and Inspect 0.3.285.
"""

import asyncio
import logging
import operator
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, Unpack

from judges.errors import JudgeCallError, JudgeError, JudgeInputError, MalformedVerdict, PromptTooLong
from judges.llm.client import DEFAULT_JUDGE
from judges.llm.loop import run_sync
from judges.scoring.ruler import ruler, settle
from judges.scoring.types import SharedOptions, TrajectoryScore, VerdictCount

logger = logging.getLogger(__name__)

Finalize = Callable[[Any, Any, Any], Coroutine[Any, Any, None]]


def trl_reward(
    judge_model: str = DEFAULT_JUDGE,
    *,
    num_generations: int | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    **options: Unpack[SharedOptions],
) -> "TrlReward":
    """A reward function for TRL's ``GRPOTrainer``: the scores of a judge that compares the completions of a prompt.

    A process of TRL hands over its own slice of a batch. The slice must hold whole groups: make
    ``per_device_train_batch_size`` (times ``steps_per_generation``) a multiple of ``num_generations``.

    A group on which the judge failed has the reward None, which TRL leaves out. Where the first eight groups all fail,
    or every call will fail (a wrong key, name or address), the error is raised.

    Args:
        judge_model: A litellm model name.
        num_generations: As in ``GRPOConfig``; a slice with parts of groups, or with groups of several prompts
            (another ``num_generations_eval``), is refused then. None: completions of equal prompts that stand together
            are a group.
        tools: As in `ruler`.
        **options: As in `ruler`.

    Raises:
        JudgeInputError: A setting cannot be used.
    """
    if num_generations is not None and (not isinstance(num_generations, int) or num_generations < 2):
        raise JudgeInputError(f"num_generations must be 2 or more, got {num_generations!r:.80}")
    settled = settle(judge_model, options)
    return TrlReward(settled, tools, num_generations)


@dataclass(slots=True)
class TrlReward:
    """What `trl_reward` returns; TRL calls it with whole columns of a batch."""

    options: SharedOptions
    tools: Sequence[Mapping[str, Any]] | None
    num_generations: int | None
    groups: VerdictCount = field(default_factory=VerdictCount)

    @property
    def __name__(self) -> str:
        """Under which TRL logs it."""
        return "ruler"

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """One score per completion, in order; None where the judge failed. ``log_extra`` gets the explanations.

        Raises:
            JudgeInputError: The batch does not hold whole groups, or something in it cannot be judged.
            SpendLimitReached: The session's money is spent.
            JudgeError: The judge failed on every group so far, and on eight or for good.
        """
        trajectories = [
            [*_messages(prompt, "user"), *_messages(completion, "assistant")]
            for prompt, completion in zip(prompts, completions, strict=True)
        ]
        sizes = self._group_sizes(prompts)
        rest = iter(trajectories)
        scores = run_sync(self._judge([list(islice(rest, size)) for size in sizes]))
        if log_extra is not None:
            log_extra("ruler_explanation", [score.explanation if score else "" for score in scores])
        return [score.score if score else None for score in scores]

    def _group_sizes(self, prompts: Sequence[Any]) -> list[int]:
        if self.num_generations is None:
            sizes = [len(list(run)) for _, run in groupby(prompts)]
            is_whole = len(set(sizes)) <= 1 and 1 not in sizes
        else:
            sizes = [self.num_generations] * (len(prompts) // self.num_generations)
            firsts = (prompts[place - place % self.num_generations] for place in range(len(prompts)))
            is_whole = sum(sizes) == len(prompts) and all(map(operator.eq, prompts, firsts))
        if not is_whole:
            raise JudgeInputError(
                f"a batch of {len(prompts)} completions does not hold whole groups of one prompt each (num_generations="
                f"{self.num_generations}; groups of {min(sizes, default=0)} to {max(sizes, default=0)}); give "
                "num_generations, make per_device_train_batch_size a multiple of it, and set no other "
                "num_generations_eval"
            )
        return sizes

    async def _judge(self, groups: Sequence[Sequence[Any]]) -> list[TrajectoryScore | None]:
        """The scores of all groups, one after the other."""
        judged = await asyncio.gather(
            *(ruler(group, tools=self.tools, **self.options) for group in groups), return_exceptions=True
        )
        scores: list[TrajectoryScore | None] = []
        failures: list[JudgeError] = []
        for group, result in zip(groups, judged, strict=True):
            if not isinstance(result, BaseException):
                self.groups.usable += 1
                scores += result
                continue
            if not isinstance(result, (JudgeCallError, MalformedVerdict, PromptTooLong)):
                raise result  # it would fail every group
            failures.append(result)
            scores += [None] * len(group)
        self.groups.failed += len(failures)
        is_hopeless = any(isinstance(failure, JudgeCallError) and failure.is_hopeless for failure in failures)
        if failures and not self.groups.usable and (is_hopeless or self.groups.is_hopeless):
            raise failures[-1]
        for failure in failures:
            logger.warning("a group is left without rewards: %s", failure)
        return scores


def verifiers_reward(
    judge_model: str = DEFAULT_JUDGE, *, name: str = "ruler", weight: float = 1.0, **options: Unpack[SharedOptions]
) -> Finalize:
    """A method ``finalize`` for an ``Env`` of verifiers: it compares the attempts of an episode with each other.

    Each trace of a trainable agent that ended well gets the score as a reward, and the explanation in ``info``. Agents
    of different names are compared apart. A failed judgement is raised: verifiers then tries the episode again.

    Args:
        judge_model: A litellm model name.
        name: Of the reward.
        weight: Of the reward.
        **options: As in `ruler`; the tools are the traces' own.

    Raises:
        JudgeInputError: A setting cannot be used.
    """
    settled = settle(judge_model, options)

    async def finalize(env: Any, task: Any, episode: Any) -> None:
        """Compare the attempts of a finished episode.

        Raises:
            JudgeInputError: Only one attempt ended well.
            JudgeError: As in `ruler`.
        """
        attempts: dict[str, list[Any]] = {}
        for trace in episode.traces:
            if trace.ok and trace.agent.trainable:
                attempts.setdefault(trace.agent.name, []).append(trace)
        for agent, traces in attempts.items():
            if len(traces) < 2:
                made = sum(trace.agent.name == agent for trace in episode.traces)
                raise JudgeInputError(
                    f"of {made} attempts of agent {agent!r} one ended well, and nothing is there to compare it with"
                    + ("; use BestOfNEnv" if made == 1 else f": {made - 1} failed")
                )
            tools = {tool.name: tool for trace in traces for tool in trace.tools}
            scores = await ruler(map(_shown, traces), tools=list(tools.values()), **settled)
            for trace, score in zip(traces, scores, strict=True):
                trace.record_reward(name, score.score, weight)
                trace.info[name] = score.explanation

    return finalize


def score_inspect_log(path: str, judge_model: str = DEFAULT_JUDGE, **options: Unpack[SharedOptions]) -> None:
    """Add the score ``ruler`` to a log of Inspect: the epochs of a sample that ended well are compared with each other.

    A scorer of Inspect sees one epoch of one sample, so this comes after the run. ``options`` are as in `ruler`.

    Raises:
        JudgeInputError: A sample has one such epoch.
        JudgeError: As in `ruler`; the log is as it was.
    """
    from inspect_ai import log as logs  # pyright: ignore[reportMissingImports]
    from inspect_ai.scorer import ScoreEdit  # pyright: ignore[reportMissingImports]

    log, settled, groups = logs.read_eval_log(path), settle(judge_model, options), dict[Any, list[Any]]()
    for sample in log.samples or ():
        if sample.error is None:
            groups.setdefault(sample.id, []).append(sample)
    if alone := [name for name, group in groups.items() if len(group) < 2]:
        raise JudgeInputError(f"{path} has one epoch of {alone[0]!r} to compare; evaluate with --epochs 4")

    async def judged() -> list[list[TrajectoryScore]]:
        return await asyncio.gather(*(ruler(map(_shown, group), **settled) for group in groups.values()))

    for group, scores in zip(groups.values(), run_sync(judged()), strict=True):
        for sample, score in zip(group, scores, strict=True):
            by = logs.ProvenanceData(author=f"judges {judge_model}")
            edit = ScoreEdit(value=score.score, explanation=score.explanation, provenance=by)
            logs.edit_score(log, sample.id, "ruler", edit, recompute_metrics=False, epoch=sample.epoch)
    logs.recompute_metrics(log)
    logs.write_eval_log(log, path)


def _shown(trace: Any) -> list[dict[str, Any]]:
    """The messages of a trace, without the state that a provider keeps in them for itself."""
    return [m.model_dump(mode="json", exclude_none=True, exclude={"provider_state"}) for m in trace.messages]


def _messages(text_or_messages: Any, role: str) -> Iterable[Any]:
    if isinstance(text_or_messages, str):
        return [{"role": role, "content": text_or_messages}]
    if not isinstance(text_or_messages, Sequence):
        raise JudgeInputError(f"a prompt or completion is a text or a list of messages, got {text_or_messages!r:.80}")
    return text_or_messages
