"""A first look at servers that somebody else started, before the warm start: do they sample the model that is trained?

Each is asked for a few tokens, of which the learner says how probable they are. A server of another model answers, too,
and may take the adapter: vLLM does not compare all of its sizes.
"""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

from grpo.devices.shape import ModelShape
from grpo.errors import ModelError, ServerError
from grpo.learner.engine import Engine
from grpo.learner.segments import Segment
from grpo.serving.fleet import Fleet, Place
from grpo.serving.policy import CompletionsPolicy, SamplingParams
from grpo.training.trainer import Trainer
from grpo.types import Message, SampledTurn

PROMPT: list[Message] = [{"role": "user", "content": "Name three colours of the rainbow."}]
TOKENS = 16


def look_at_servers(training: Trainer) -> None:
    """Sample a turn from every server of a run that is about to begin, and compare it with the learner.

    Raises:
        ServerError: A server samples something else (above ``loss.max_gap``), takes no adapter, or does not answer.
    """
    training.sampler.publish(training.engine.save_adapter, training.step)
    asyncio.run(_look(training))


async def _look(training: Trainer) -> None:
    prompt = training.chat.prompt_ids(PROMPT, [])
    async with training.sampler.policy(training.step) as policy:
        assert isinstance(policy, CompletionsPolicy), "vLLM's"
        assert isinstance(training.servers, Fleet), "vLLM's"
        for member in training.servers.members:
            at = CompletionsPolicy(policy.connection, policy.model, policy.stop_token_ids, place=Place(member))
            turn = await at.sample(prompt, SamplingParams(1.0), max_tokens=TOKENS, seed=1)
            gap = _gap(prompt, turn, training.engine) if max(turn.ids) < _vocabulary(training.model.path) else math.inf
            if not gap <= (bound := training.config.loss.max_gap):
                raise ServerError(
                    f"the server at {member.server.url} does not sample the model that is trained: log-probabilities "
                    f"differ by {gap:.3f} nats a token, above loss.max_gap = {bound}. It serves "
                    f"{member.server.model!r}; start it with the run's model and with the options of docs/scale.md"
                )


def _vocabulary(model_path: Path) -> float:
    """Number of tokens that the learner's model knows; infinite where its ``config.json`` does not say it."""
    try:
        return ModelShape.read(model_path).vocab
    except ModelError:
        return math.inf


def _gap(prompt: list[int], turn: SampledTurn, engine: Engine) -> float:
    """Mean absolute difference of the log-probabilities of sampler and learner, in nats a token."""
    mask = [False] * len(prompt) + [True] * len(turn.ids)
    (trained,) = engine.logprobs([Segment([*prompt, *turn.ids], mask, [0.0] * len(mask), 1.0)])
    return math.fsum(abs(ours - theirs) for ours, theirs in zip(trained, turn.logprobs, strict=True)) / len(trained)
