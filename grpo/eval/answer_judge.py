"""The answer judge of an evaluation: it decides on answers that the env does not take for right.

An env's own rules are strict and know one wording; what a sentence means is for a judge. `judges.answers` asks a rule
first, then an LLM. The judge may only raise what the env says: an answer that the env takes for right stays right. Two
evaluations of the same episodes, one with a judge and one without, therefore differ only in answers that the env's
rules could not read, and the results name each of them. A judge that fails makes the episode an infrastructure
failure, never a wrong answer.

An env whose answers can be judged has a method ``answer_key()``: the question and the right answers of its present
episode, for the harness alone. No agent sees it, and no line of the results holds it. ``judgements.jsonl``, from which
verdicts can be replayed, does.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from grpo.envs.message_env import AnswerKey
from grpo.errors import EvaluationError
from grpo.eval.ending import Ending
from grpo.files import Closeable
from judges import JudgeError, Session, SpendLimitReached
from judges.answers.answer import answer
from judges.llm.record import FILE_NAME

if TYPE_CHECKING:
    from grpo.eval.rows import Row

FIRST_FAILURES = 3
"""Where the first verdicts all fail, so many of them, the judge is set up wrong: the evaluation ends."""


class AnswerJudge(Closeable):
    """Judges answers with one model, and keeps what it said in the evaluation's folder.

    Args:
        model: litellm name of the judge.
        api_base: URL of a judge of one's own.
        folder: Of the evaluation; gets ``judge-cache.db`` and ``judgements.jsonl``.
        max_cost: Dollars; once this process has spent them, it stops.
        concurrency: Calls at the same time.

    Raises:
        EvaluationError: The cache in the folder cannot be used.
    """

    def __init__(self, model: str, api_base: str | None, folder: Path, max_cost: float | None, concurrency: int):
        self.model = model
        self.api_base = api_base
        try:
            self.session = Session(
                max_concurrency=concurrency,
                max_cost_dollars=max_cost,
                cache=folder / "judge-cache.db",
                record=folder / FILE_NAME,
            )
        except JudgeError as error:
            raise EvaluationError(str(error)) from error
        self._verdicts = self._failures = 0

    async def judge(self, row: Row, key: AnswerKey | None) -> None:
        """Put a ``verdict`` into a result, and what it says into ``correct``; an answer that is right stays as it is.

        Where the judge fails, the result becomes an infrastructure failure, which ``--resume`` plays again.

        Raises:
            EvaluationError: The money is spent, or the judge has failed from the start.
        """
        if key is None or not needs_verdict(row):
            return
        try:
            verdict = await answer(
                key.question, key.references, row["answer"], self.model, api_base=self.api_base, session=self.session
            )
        except SpendLimitReached as error:
            raise EvaluationError(f"the answer judge: {error}") from error
        except JudgeError as error:
            self._failures += 1
            if self._failures >= FIRST_FAILURES and not self._verdicts:
                raise EvaluationError(f"the first {self._failures} answers could not be judged: {error}") from error
            row |= {"ending": Ending.INFRASTRUCTURE.value, "error": f"the answer judge: {error}"}
            row |= {"correct": None, "reward": None}
            return
        self._verdicts += 1
        row |= {"verdict": asdict(verdict), "correct": verdict.accept}

    def close(self) -> None:
        """Close the cache."""
        self.session.close()


def needs_verdict(row: Row) -> bool:
    """Whether a result is an answer, not "I don't know", that the env does not take for right."""
    given_up = row["metrics"].get("dont_know", 0.0) > 0
    return row["ending"] == Ending.ANSWERED and row["correct"] is False and bool(row["answer"]) and not given_up
