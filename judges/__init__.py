"""judges: relative scores for a group of agent trajectories, given by an LLM judge. No labels needed.

    import judges

    scores = judges.score(message_lists, "openai/o4-mini", api_base="http://127.0.0.1:8000/v1")
    scores = await judges.ruler(message_lists, "openai/o4-mini")          # the same, inside an event loop
    group = await judges.ruler_score_group(group, "openai/o4-mini")       # a copy with the scores as rewards; ART's too
    GRPOTrainer(..., reward_funcs=judges.trl_reward("openai/o4-mini"))    # TRL; judges.verifiers_reward for verifiers

    session = judges.Session(max_cost_dollars=5, cache="judge-cache.db", record="run/judgements.jsonl")
    scores = judges.score(message_lists, permutations=4, session=session)  # four orders averaged; session.usage

Plain OpenAI-style message dicts go in, one `TrajectoryScore` per trajectory comes out, in the order of the input.
What is named here is loaded at its first use, so that `judges.common` and `judges.answers` can be imported without all
else. Importing opens no connection and does not import litellm; the first judgement does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from judges.errors import (
    ContextOverflow,
    JudgeCallError,
    JudgeError,
    JudgeInputError,
    JudgeTimeoutError,
    MalformedVerdict,
    PromptTooLong,
    SpendLimitReached,
)

if TYPE_CHECKING:
    from judges.answers.answer import AnswerVerdict, answer, check_answer
    from judges.llm.client import JudgeClient
    from judges.llm.session import Session, Usage
    from judges.reliability.calibration import Calibration, calibrate
    from judges.reliability.groups import LabelledGroup
    from judges.scoring.groups import ruler_score_group, score_group
    from judges.scoring.ruler import ruler, score
    from judges.scoring.trainers import score_inspect_log, trl_reward, verifiers_reward
    from judges.scoring.types import Message, TrajectoryScore

__all__ = [
    "AnswerVerdict",
    "Calibration",
    "ContextOverflow",
    "JudgeCallError",
    "JudgeClient",
    "JudgeError",
    "JudgeInputError",
    "JudgeTimeoutError",
    "LabelledGroup",
    "MalformedVerdict",
    "Message",
    "PromptTooLong",
    "Session",
    "SpendLimitReached",
    "TrajectoryScore",
    "Usage",
    "answer",
    "calibrate",
    "check_answer",
    "ruler",
    "ruler_score_group",
    "score",
    "score_group",
    "score_inspect_log",
    "trl_reward",
    "verifiers_reward",
]

_NAMES_OF = {
    "judges.answers.answer": ("AnswerVerdict", "answer", "check_answer"),
    "judges.llm.client": ("JudgeClient",),
    "judges.llm.session": ("Session", "Usage"),
    "judges.reliability.calibration": ("Calibration", "calibrate"),
    "judges.reliability.groups": ("LabelledGroup",),
    "judges.scoring.groups": ("ruler_score_group", "score_group"),
    "judges.scoring.ruler": ("ruler", "score"),
    "judges.scoring.trainers": ("score_inspect_log", "trl_reward", "verifiers_reward"),
    "judges.scoring.types": ("Message", "TrajectoryScore"),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES_OF.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
