"""Policies without a model: experts who know the answer, plain searches, and chance.

    policy = SCRIPTED_POLICIES["oracle"](env.unwrapped, seed=0)
    observation, info = env.reset(seed=0)
    while not done:
        observation, _, terminated, truncated, info = env.step(policy.act(observation, info))

They serve tests, warm starts and comparisons. An `info` with "tools" in it, as `reset` gives it, begins a new episode.
Only the experts look at the scenario's answer; the others see what a model sees.
"""

from email_env.policies.baselines import Bm25Policy, KeywordPolicy, RandomPolicy, VerbatimPolicy
from email_env.policies.experts import OraclePolicy, TutorPolicy
from email_env.policies.policy import ScriptedPolicy

__all__ = ["SCRIPTED_POLICIES", "ScriptedPolicy"]

SCRIPTED_POLICIES: dict[str, type[ScriptedPolicy]] = {
    "oracle": OraclePolicy,
    "tutor": TutorPolicy,
    "keyword": KeywordPolicy,
    "verbatim": VerbatimPolicy,
    "bm25": Bm25Policy,
    "random": RandomPolicy,
}
