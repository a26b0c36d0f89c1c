"""A reward of one's own: the env's, less a little for every sampled token.

grpo-train --env EmailSearch-v0 --recipe email-cpu --reward examples.brevity:brevity
"""

from grpo.types import Group

COST_PER_TOKEN = 0.001


def brevity(group: Group) -> list[float]:
    """One reward per episode, in order. An episode has messages, tools, metrics, task, and the env's reward."""
    return [t.reward - COST_PER_TOKEN * t.num_sampled_tokens for t in group.episodes]
