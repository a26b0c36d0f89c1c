"""GRPO on one page: the loop of the paper (DeepSeekMath, arXiv 2402.03300, algorithm 1) made of the parts of grpo.

python -m examples.grpo_loop

A model with 135M parameters learns to guess at a number (`examples/guess_number.py`), on two CPU cores in some minutes.
`grpo-train` is this loop with a warm start, judges, refills, held-out evaluations, checkpoints and a report around it.
"""

import asyncio
import tempfile
from pathlib import Path

from grpo.agents.policy import PolicyAgent
from grpo.chat import Chat, chat_for, load_tokenizer
from grpo.envs.pool import EnvPool
from grpo.episodes.player import Player
from grpo.episodes.tasks import TaskStream
from grpo.learner.advantages import group_advantages
from grpo.learner.engine import Engine, LossSpec
from grpo.learner.local_engine import LocalEngine, LoraSpec
from grpo.learner.segments import Segment, segments_of
from grpo.machine.models import resolve_model
from grpo.serving.fleet import Fleet
from grpo.serving.policy import Policy, SamplingParams
from grpo.serving.sampler import VllmSampler
from grpo.serving.vllm import VllmServer
from grpo.serving.vllm_options import ServerOptions
from grpo.types import Episode, Group, Task

ENV = "examples.guess_number:GuessNumber-v0"
STEPS = 10
GROUPS, GROUP_SIZE = 4, 8  # questions of a step, and G, the outputs that are sampled for each
TURNS = 3  # of an episode
SAMPLING = SamplingParams(temperature=1.0, max_turn_tokens=12)
MAX_TOKENS = 512  # of an episode: what the policy sees and what it says
LEARNING_RATE = 3e-4
CLIP = 0.2  # epsilon


def main() -> None:
    """Train, and print each step's mean reward."""
    model = resolve_model("smollm2-135m").path
    options = ServerOptions(max_model_len=MAX_TOKENS, max_num_seqs=GROUPS * GROUP_SIZE)
    with (
        tempfile.TemporaryDirectory() as folder,
        Fleet([VllmServer(model, Path(folder) / "server.log", options)]) as servers,
    ):
        train(model, servers, Path(folder), STEPS)


def train(model: Path, servers: Fleet, folder: Path, steps: int) -> list[list[Group]]:
    """GRPO with the model in ``model``, which ``servers`` sample; returns the groups of every step."""
    # The policy is the model with an adapter of low rank. The learner trains the adapter alone; vLLM samples from it.
    engine = LocalEngine(model, LoraSpec(rank=16, alpha=32), seed=0)
    chat = chat_for(load_tokenizer(model))
    sampler = VllmSampler(servers, folder / "adapters", chat.stop_token_ids, concurrency=GROUPS * GROUP_SIZE)
    tasks = TaskStream(scenario_ids=None, seed=0)  # endless; for this env a task is a seed, and so a number
    done: list[list[Group]] = []
    with EnvPool(ENV, {"max_episode_steps": TURNS}) as pool:
        for step in range(steps):
            sampler.publish(engine.save_adapter, version=step)  # pi_old: what is sampled is what was trained last
            groups = asyncio.run(sample(sampler, step, tasks.take(GROUPS), pool, chat))
            norm = update(engine, groups)
            rewards = [reward for group in groups for reward in group.rewards]
            print(f"step {step}: mean reward {sum(rewards) / len(rewards):.3f}, gradient norm {norm:.3f}", flush=True)
            done.append(groups)
    return done


async def sample(sampler: VllmSampler, version: int, tasks: list[Task], pool: EnvPool, chat: Chat) -> list[Group]:
    """A group of episodes for each task; all episodes of all groups are under way at once."""
    async with sampler.policy(version) as policy:
        return await asyncio.gather(*(sample_group(policy, version, task, pool, chat) for task in tasks))


async def sample_group(policy: Policy, step: int, task: Task, pool: EnvPool, chat: Chat) -> Group:
    """G episodes of one task. An episode goes turn by turn: prompt ids -> sampled ids -> text -> env -> more ids.

    An episode keeps its model calls: every id that the policy saw or sampled, and the log-probability of each that it
    sampled.
    """
    agent = PolicyAgent(policy, chat, SAMPLING, MAX_TOKENS)
    group = await Player(agent, pool).group(task, GROUP_SIZE, "grpo_loop", step)
    for episode in group.episodes:
        episode.reward += share_of_guesses(episode)
    return group


def share_of_guesses(episode: Episode) -> float:
    """A reward of one's own beside the env's, which is for a right guess: a turn with a number is better than without.

    Any function of an episode serves; `grpo-train --reward` has an LLM judge too, which compares the whole group.
    """
    return episode.turn_errors.count("") / max(1, episode.num_turns)  # an episode that failed may have none


def update(engine: Engine, groups: list[Group]) -> float:
    """One step down the gradient of the loss of all groups; returns the norm of the gradient."""
    rows: list[Segment] = []
    for group in groups:
        group = group.compared()  # without what a fault of the server or a full context ended
        # The advantage of an output is its reward in units of its group (section 4.1.2): no value model is needed.
        group.advantages = group_advantages(group.rewards, scale_by_std=True)
        for episode, advantage in zip(group.episodes, group.advantages, strict=True):
            # A row for the learner: ids, which of them were sampled, their logprobs, and one advantage for all of them.
            rows += segments_of(episode, advantage)
    # Equation 3, the mean over rows of  - 1/|o| sum_t min(r_t A, clip(r_t, 1 - epsilon, 1 + epsilon) A).  The ratio r_t
    # of pi_theta and pi_old is 1 here, as each step has one update; its gradient is that of log pi_theta. A weight sets
    # right that vLLM rounds otherwise than the learner (`grpo.learner.loss`). The KL term would be `kl_coef`.
    loss = LossSpec("grpo", normalizer=len(rows), clip_low=CLIP, clip_high=CLIP)
    engine.forward_backward(rows, loss)
    return engine.optim_step(LEARNING_RATE, max_grad_norm=1.0)


if __name__ == "__main__":
    main()
