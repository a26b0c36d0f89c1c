"""The judges that a run names: their sessions in its folder, and one real verdict of each before anything is started.

A key that is missing, a URL that nobody listens at or a model that cannot judge would otherwise show when the first
group has been sampled, after the model was loaded and the warm start was made.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from grpo.config import RULER_REWARDS, TrainConfig
from grpo.errors import ConfigError, JudgeFailure
from grpo.settings import AnswerJudgeSettings, JudgeSettings
from judges import JudgeError, Session, answer, ruler
from judges.llm.record import FILE_NAME

QUESTION, REFERENCE, GIVEN = "How many days does a week have?", "7", "A week has seven days."
"""What a judge is tried with; the rule is not asked."""


def judge_session(settings: JudgeSettings | AnswerJudgeSettings, folder: Path) -> Session:
    """The limits of a run's judge; verdicts and what was paid for stay in the run's folder.

    Raises:
        ConfigError: The cache that is there cannot be used.
    """
    try:
        return Session(
            max_concurrency=settings.concurrency,
            max_cost_dollars=settings.max_cost,
            cache=folder / "judge-cache.db",
            record=folder / FILE_NAME,
        )
    except JudgeError as error:
        raise ConfigError(str(error)) from error


def check_judges(config: TrainConfig) -> list[str]:
    """Ask every judge of a run for a verdict; returns what was found, a line each. No cache can answer for them.

    Raises:
        ConfigError: The rubric cannot be read.
        JudgeFailure: A judge gave none; it says which, why, and where to mend it.
    """
    config.rubric()
    found: list[str] = []
    if config.reward in RULER_REWARDS:
        found.append(_explained("judge", _rulers_verdict(config.judge)))
    if config.answer_judge.model is not None:
        found.append(_explained("answer_judge", _answer_verdict(config.answer_judge)))
    return found


def _explained(group: str, verdict: Coroutine[Any, Any, str]) -> str:
    try:
        return asyncio.run(verdict)
    except JudgeError as error:
        raise JudgeFailure(
            f"{error}. So the run cannot be judged, and nothing was started. Check the judge's key in the environment, "
            f"its URL ({group}.api_base) and its name ({group}.model)"
        ) from error


async def _rulers_verdict(settings: JudgeSettings) -> str:
    session = Session(max_cost_dollars=settings.max_cost)
    task = {"role": "user", "content": QUESTION}
    answers = [[task, {"role": "assistant", "content": said}] for said in (GIVEN, "I do not know.")]
    await ruler(answers, settings.model, session=session, **{**settings.call, "max_retries": 1})
    session.check_spend(settings.model)
    return f"RULER's judge {settings.model} gives verdicts ({session.usage})"


async def _answer_verdict(settings: AnswerJudgeSettings) -> str:
    assert settings.model is not None, "the run names one"
    session = Session(max_cost_dollars=settings.max_cost)
    asked = (QUESTION, REFERENCE, GIVEN, settings.model)
    await answer(*asked, by_rule=False, session=session, **{**settings.call, "max_retries": 1})
    session.check_spend(settings.model)
    return f"the answer judge {settings.model} gives verdicts ({session.usage})"
