"""judges: relative scores for a group of agent trajectories, given by an LLM judge. No labels needed.

    import judges

    scores = judges.score(message_lists, "openai/o4-mini", api_base="http://127.0.0.1:8000/v1")
    scores = await judges.ruler(message_lists, "openai/o4-mini")          # the same, inside an event loop
    group = await judges.ruler_score_group(group, "openai/o4-mini")       # a copy with the scores as rewards; ART's too
    GRPOTrainer(..., reward_funcs=judges.trl_reward("openai/o4-mini"))    # TRL; judges.verifiers_reward for verifiers

    session = judges.Session(max_cost_dollars=5, cache="judge-cache.db", record="run/judgements.jsonl")
    scores = judges.score(message_lists, permutations=4, session=session)  # four orders averaged; session.usage

Plain OpenAI-style message dicts go in, one `TrajectoryScore` per trajectory comes out, in the order of the input.
Importing the package opens no connection and does not import litellm; the first judgement does.
"""

from judges.answers.answer import AnswerVerdict, answer, check_answer
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
from judges.llm.client import JudgeClient
from judges.llm.session import Session, Usage
from judges.reliability.calibration import Calibration, calibrate
from judges.reliability.groups import LabelledGroup
from judges.scoring.groups import ruler_score_group, score_group
from judges.scoring.ruler import ruler, score
from judges.scoring.trainers import trl_reward, verifiers_reward
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
    "trl_reward",
    "verifiers_reward",
]
