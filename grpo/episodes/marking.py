"""Is an answer right? The one marking of training and evaluation: the rule first, a judge where it cannot say.

1. An answer that the env takes for right is right, and "I don't know", where the env knows it, stays as it is.
2. The rule of `judges.answers` decides on another wording of a value.
3. What the rule leaves undecided goes to the answer judge, an LLM. Without one it stays undecided.

A judge that fails makes its episode a failure of the infrastructure, never a wrong answer; in training its whole group
has no rewards then. Verdicts are cached in the run's folder, so none is paid for twice.

An env whose answers can be judged has a method ``answer_key()``: the question and the right answers of its present
episode, for the harness alone. No agent sees it, and no record holds it. ``judgements.jsonl``, from which verdicts can
be replayed, does.

Policies learn to use what a rule lets through. So a share of the answers that a rule took for right is shown to the
judge, too. Its verdict changes no reward: it is counted, and where it differs too often the run warns. A stable hash
of the episode chooses them, so a continued run chooses the same.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from grpo.ending import Ending
from grpo.envs.message_env import MessageEnv
from grpo.episodes.judges import judge_session
from grpo.errors import ConfigError, JudgeFailure
from grpo.seeds import derive_seed
from grpo.settings import AnswerJudgeSettings
from grpo.types import AnswerKey, Episode, Outcome
from grpo.watch import Part, Waiting
from judges.answers.answer import AnswerVerdict, DecidedBy, answer
from judges.answers.matching import Verdict, decide
from judges.common.files import Record
from judges.errors import JudgeError, SpendLimitReached
from judges.llm.session import Session, Usage

RIGHT_ANSWER_REWARD = 1.0
"""What a right answer adds to the reward of an env that does not say what it is worth (no method ``judged``)."""

MAX_DISAGREEMENT = 0.1
"""Share of audited answers that the judge refuses above which there is a warning."""

AUDITED_STEPS = 10
"""How many of the newest steps' audits a warning is about: one step audits few answers."""

FIRST_FAILURES = 3
"""Where the first verdicts all fail, so many of them, the judge is set up wrong."""

METRICS: tuple[str, ...] = ("answer_by_rule", "answer_by_judge", "answer_undecided", "answer_audit_disagreement")
"""What marking adds to an episode's metrics: 1.0 where the answer was decided so. The first three add up to 1; the
last is there where the answer was audited."""


class Marker:
    """Marks answers; with a judge, where the settings name one.

    Args:
        settings: The judge, its limits, and the share of answers to audit.
        folder: Of the run or the evaluation; gets ``judge-cache.db`` and ``judgements.jsonl`` where there is a judge.

    Raises:
        ConfigError: The cache in the folder cannot be used.

    Attributes:
        is_spent: Whether the judge was not asked because its money is spent.
    """

    def __init__(self, settings: AnswerJudgeSettings | None = None, folder: Path | None = None):
        self.settings = settings or AnswerJudgeSettings()
        self.is_spent = False
        self._verdicts = self._failures = 0
        self._last_error = ""
        self._session: Session | None = None
        if self.settings.model is not None and folder is not None:
            self._session = judge_session(self.settings, folder)

    @property
    def usage(self) -> Usage | None:
        """What the judge was asked by this process; None where there is no judge."""
        return None if self._session is None else self._session.usage

    @property
    def cost_usd(self) -> float | None:
        """What that has cost; None where there is no judge, or the price is not known."""
        return None if self.usage is None else self.usage.to_dict()["cost_dollars"]

    async def marked(self, episode: Episode) -> Episode:
        """The episode with its answer marked: reward, metrics, verdict and audit.

        Where the judge fails, it is ``unmarked`` and counts nowhere. An episode without a key or an answer stays as it
        is.
        """
        e, key = episode, episode.answer_key
        if key is None:
            return e
        try:
            decided_by, verdict = await self._decide(key, e.metrics)
        except JudgeError as error:
            self._failures += 1
            self._last_error = str(error)
            e.unmarked = e.error = f"the answer judge: {error}"
            e.ending = Ending.INFRASTRUCTURE
            return e
        if verdict is not None:
            e.verdict = asdict(verdict)
            e.reward, e.metrics = _outcome(key, verdict.accept, e)
        right = e.metrics.get("success", 0.0) >= 0.5 if verdict is None else verdict.accept
        audit = await self._audit(key, e) if right and decided_by is DecidedBy.MATCH else None
        self._verdicts += decided_by is DecidedBy.JUDGE or audit is not None  # what a rule decides says nothing of it
        shares = zip(METRICS, (DecidedBy.MATCH, DecidedBy.JUDGE, None), strict=False)
        e.metrics = e.metrics | {name: float(decided_by is who) for name, who in shares}
        if audit is not None:
            e.audit = asdict(audit) | {"question": key.question, "answer": key.answer}
            e.metrics[METRICS[3]] = float(not audit.accept)
        return e

    def check_usable(self) -> None:
        """Refuse to go on where the judge will mark nothing more.

        Raises:
            JudgeFailure: Its money is spent, or it has failed from the start.
        """
        if self.is_spent:
            raise JudgeFailure(f"the answer judge: {self._last_error}")
        if self._failures >= FIRST_FAILURES and not self._verdicts:
            raise JudgeFailure(f"the first {self._failures} answers could not be judged: {self._last_error}")

    async def _decide(self, key: AnswerKey, metrics: dict[str, float]) -> tuple[DecidedBy | None, AnswerVerdict | None]:
        """Who decides on an answer, None where nobody can; and the verdict, where the env's own word does not stand.

        Raises:
            JudgeError: The judge was needed and gave no verdict.
        """
        if metrics.get("success", 0.0) >= 0.5 or metrics.get("dont_know", 0.0) > 0:
            return DecidedBy.MATCH, None
        if self._session is None:
            decision = decide(key.answer or "", key.references, key.question)
            return None if decision.verdict is Verdict.UNDECIDED else DecidedBy.MATCH, None
        verdict = await self._ask(key, by_rule=True)
        return verdict.decided_by, verdict

    async def _ask(self, key: AnswerKey, *, by_rule: bool) -> AnswerVerdict:
        model, given, call = self.settings.model, key.answer, self.settings.call
        assert model is not None, "there is a judge"
        assert given is not None, "an episode without an answer is not marked"
        try:
            with Waiting(Part.JUDGE, f"{model}, asked about an answer"):
                return await answer(
                    key.question, key.references, given, model, by_rule=by_rule, session=self._session, **call
                )
        except JudgeError as error:
            self.is_spent = self.is_spent or isinstance(error, SpendLimitReached)
            raise

    async def _audit(self, key: AnswerKey, episode: Episode) -> AnswerVerdict | None:
        """The judge's verdict on an answer that a rule took for right; None where it is not chosen, or the judge fails.

        Nothing hangs on it, so a failure leaves the episode as the rule marked it.
        """
        e = episode
        named = e.task.key, e.task.seed, e.sample_index, e.policy_version or 0
        if self._session is None or not is_audited(self.settings.audit_share, *named):
            return None
        try:
            return await self._ask(key, by_rule=False)
        except JudgeError:
            return None


def _outcome(key: AnswerKey, right: bool, episode: Episode) -> Outcome:
    """What an episode comes to whose answer was judged."""
    if key.outcomes is not None:
        return key.outcomes[right]
    gained = RIGHT_ANSWER_REWARD if right else 0.0
    return Outcome(episode.reward + gained, episode.metrics | {"success": float(right)})


def is_audited(share: float, *episode: int | str) -> bool:
    """Whether an episode is among the ``share`` that is audited: always the same ones, on every machine."""
    return derive_seed("audit", *episode) < share * 2**31


def audit_warning(refused: int, audited: int) -> str:
    """What to say of audits of which the judge refused more than ``MAX_DISAGREEMENT``; "" where it did not."""
    if refused <= MAX_DISAGREEMENT * audited:
        return ""
    return (
        f"the answer judge refuses {refused} of {audited} audited answers that the rule took for right, above the "
        f"bound of {MAX_DISAGREEMENT:.0%}: the policy may be exploiting the rule"
    )


def newest_audits_warning(steps: Sequence[Record]) -> str:
    """``audit_warning`` of the newest of a run's steps, given their metrics."""
    audited = [step for step in steps[-AUDITED_STEPS:] if "answer/audited" in step]
    refused = sum(round(step["answer/audited"] * step["answer/audit_disagreement"]) for step in audited)
    return audit_warning(refused, sum(int(step["answer/audited"]) for step in audited))


def check_markable(env: MessageEnv, option: str) -> None:
    """Refuse a judge for an env whose answers cannot be marked; ``option`` is what named the judge.

    Raises:
        ConfigError: It has no ``answer_key()``, or no metric ``success``.
    """
    if not env.has_answer_key():
        raise ConfigError(
            f"{env.env_id} has no answer_key(), so a judge would not know what is right; leave {option} out, "
            "or give the env that method (docs/your-env.md, Env contract)"
        )
    if "success" not in env.reset(env.first_task()).metrics:
        raise ConfigError(
            f"{env.env_id} has answer_key() but no metric 'success', so nothing says which answers it takes for right; "
            f"leave {option} out, or give the env that metric (docs/your-env.md, Env contract)"
        )
