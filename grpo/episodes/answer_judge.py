"""The answer judge of an evaluation: it marks results as training marks episodes (`grpo.episodes.marking`).

The judge may only raise what the env says: an answer that the env takes for right stays right. Two evaluations of the
same episodes, one with a judge and one without, therefore differ only in answers that the env's rules could not read,
and the results name each of them. A judge that fails makes the episode an infrastructure failure, never a wrong answer.

An env whose answers can be judged has a method ``answer_key()``: the question and the right answers of its present
episode, for the harness alone. No agent sees it, and no line of the results holds it. ``judgements.jsonl``, from which
verdicts can be replayed, does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.episodes.ending import Ending
from grpo.episodes.marking import Marker, as_record
from grpo.errors import EvaluationError
from grpo.files import Closeable
from grpo.types import AnswerKey
from judges import JudgeError, SpendLimitReached

if TYPE_CHECKING:
    from grpo.episodes.record import Row

FIRST_FAILURES = 3
"""Where the first verdicts all fail, so many of them, the judge is set up wrong: the evaluation ends."""


class AnswerJudge(Closeable):
    """Marks the results of one evaluation; what the judge said stays in the evaluation's folder."""

    def __init__(self, marker: Marker):
        """Take over a marker, which is closed with this."""
        self.marker = marker
        self._verdicts = self._failures = 0

    async def judge(self, row: Row, key: AnswerKey | None) -> None:
        """Put ``verdict`` and ``audit`` into a result, and what they say into ``correct`` and ``reward``.

        Where the judge fails, the result becomes an infrastructure failure, which ``--resume`` plays again.

        Raises:
            EvaluationError: The money is spent, or the judge has failed from the start.
        """
        if key is None or row["ending"] != Ending.ANSWERED or row["correct"] is None:
            return
        try:
            marking = await self.marker.mark(key, row["metrics"], row["scenario_id"], row["sample"], row["seed"])
        except SpendLimitReached as error:
            raise EvaluationError(f"the answer judge: {error}") from error
        except JudgeError as error:
            self._failures += 1
            if self._failures >= FIRST_FAILURES and not self._verdicts:
                raise EvaluationError(f"the first {self._failures} answers could not be judged: {error}") from error
            row |= {"ending": Ending.INFRASTRUCTURE.value, "error": f"the answer judge: {error}"}
            row |= {"correct": None, "reward": None}
            return
        self._verdicts += marking.by_judge or marking.audit is not None  # what a rule decides says nothing of it
        row |= {"verdict": as_record(marking.verdict), "audit": as_record(marking.audit, key)}
        row |= {"correct": marking.right, "reward": marking.outcome(key, row["reward"], row["metrics"]).reward}

    def close(self) -> None:
        """Close the cache."""
        self.marker.close()
