"""A first look at a model before anything starts, and at servers: do they sample the policy?

A run looks at servers that somebody else started, and the doctor at its own. Each is asked for a few tokens, of which
the learner says how probable they are. A server of another model answers, too, and may take the adapter: vLLM does not
compare all of its sizes.
"""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

from grpo.chat import Chat, chat_for, load_tokenizer
from grpo.config import TrainConfig
from grpo.devices.families import check_family
from grpo.devices.shape import ModelShape
from grpo.errors import ServerError
from grpo.learner.engine import Engine
from grpo.learner.segments import Segment
from grpo.runs.trained_policy import init_adapter
from grpo.serving.fleet import Fleet, GroupServer
from grpo.serving.policy import CompletionsPolicy, SamplingParams
from grpo.serving.sampler import Sampler
from grpo.serving.server import Servers
from grpo.types import Message, SampledTurn
from judges.common.files import read_json

PROMPT: list[Message] = [{"role": "user", "content": "Name three colours of the rainbow."}]
TOKENS = 48


def check_before_start(config: TrainConfig, folder: Path) -> Chat:
    """The chat format of a model, whose files and template, and the adapter's, are tried; no weights are read.

    Raises:
        ConfigError: The adapter is broken.
        ModelError: The model cannot be trained or prompted, or the adapter is of another.
    """
    from grpo.learner.lora_model import load_adapter, load_base

    check_family(read_json(folder / "config.json"), config.untested_model)
    base = load_base(folder, config.rollout.max_tokens, device_map="meta")
    if adapter := init_adapter(config):
        load_adapter(base, adapter)
    return chat_for(load_tokenizer(folder), config.rollout.history, config.rollout.chat_template_kwargs)


def look_at_servers(
    sampler: Sampler,
    servers: Servers,
    engine: Engine,
    chat: Chat,
    model_path: Path,
    *,
    version: int,
    max_gap: float,
    between: Callable[[], None] = lambda: None,
) -> float:
    """Sample a turn of the published ``version`` from every server, and compare it with the learner.

    ``between`` is called when the servers have sampled and before the learner computes.

    Returns:
        The largest difference, in nats a token.

    Raises:
        ServerError: A server samples something else (above ``max_gap``), or does not answer.
    """
    prompt = chat.prompt_ids(PROMPT, [])
    vocabulary, gaps = ModelShape.read(model_path).vocab, list[float]()
    turns = asyncio.run(_turns(sampler, servers, prompt, version))
    between()
    for url, model, turn in turns:
        gap = _gap(prompt, turn, engine) if max(turn.ids) < vocabulary else math.inf
        if not gap <= max_gap:
            raise ServerError(
                f"the server at {url} does not sample the model that is trained: log-probabilities differ by {gap:.3f} "
                f"nats a token, above loss.max_gap = {max_gap}. It serves {model!r}; start it with the run's model and "
                "with the options of docs/beyond-one-machine.md"
            )
        gaps.append(gap)
    return max(gaps)


async def _turns(
    sampler: Sampler, servers: Servers, prompt: list[int], version: int
) -> list[tuple[str, str, SampledTurn]]:
    """Of each server its URL, its model's name, and a turn."""
    found: list[tuple[str, str, SampledTurn]] = []
    async with sampler.policy(version) as policy:
        assert isinstance(policy, CompletionsPolicy), "vLLM's"
        assert isinstance(servers, Fleet), "vLLM's"
        for member in servers.members:
            at = CompletionsPolicy(policy.connection, policy.model, policy.stop_token_ids, server=GroupServer(member))
            turn = await at.sample(prompt, SamplingParams(1.0), max_tokens=TOKENS, seed=1)
            found.append((member.server.url, member.server.model, turn))
    return found


def _gap(prompt: list[int], turn: SampledTurn, engine: Engine) -> float:
    """Mean absolute difference of the log-probabilities of sampler and learner, in nats a token."""
    mask = [False] * len(prompt) + [True] * len(turn.ids)
    (trained,) = engine.logprobs([Segment([*prompt, *turn.ids], mask, [0.0] * len(mask), 1.0)])
    return math.fsum(abs(ours - theirs) for ours, theirs in zip(trained, turn.logprobs, strict=True)) / len(trained)
