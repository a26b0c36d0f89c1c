"""judges: relative scores for a group of agent trajectories, given by an LLM judge. No labels needed.

    import judges

    scores = judges.score(message_lists, "openai/o4-mini", api_base="http://127.0.0.1:8000/v1")
    scores = await judges.ruler(message_lists, "openai/o4-mini")          # the same, inside an event loop
    group = await judges.ruler_score_group(group, "openai/o4-mini")       # a copy whose rewards are the scores

Plain OpenAI-style message dicts go in, one `TrajectoryScore` per trajectory comes out, in the order of the input.
Importing the package opens no connection and does not import litellm; the first judgement does.
"""

from judges.errors import JudgeCallError, JudgeError, JudgeInputError, JudgeTimeoutError, MalformedVerdict
from judges.ruler import ruler, ruler_score_group, score, score_group
from judges.types import Message, TrajectoryScore

__all__ = [
    "JudgeCallError",
    "JudgeError",
    "JudgeInputError",
    "JudgeTimeoutError",
    "MalformedVerdict",
    "Message",
    "TrajectoryScore",
    "ruler",
    "ruler_score_group",
    "score",
    "score_group",
]
