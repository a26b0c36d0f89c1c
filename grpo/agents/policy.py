"""A policy as an agent: token in, token out, in training and in evaluation alike."""

import time
from dataclasses import dataclass

from grpo.chat import Chat
from grpo.chat.tree import CallTree, Prompt
from grpo.envs.message_env import Observation
from grpo.episodes.play import Play, Turn
from grpo.episodes.player import Agent
from grpo.errors import ContextFullError
from grpo.seeds import derive_seed
from grpo.serving.policy import Policy, SamplingParams


@dataclass(frozen=True, slots=True)
class PolicyAgent(Agent):
    """Samples turn after turn, until the env ends the episode or the policy's context has no room.

    Every prompt goes on where the last turn ended (`CallTree`), so the learner sees exactly what the sampler saw.

    Attributes:
        policy: Who is asked.
        chat: Messages to ids and back.
        sampling: How to sample.
        max_tokens: What the policy sees at once, the turn it samples included.
    """

    policy: Policy
    chat: Chat
    sampling: SamplingParams
    max_tokens: int

    may_crash = False

    async def run(self, play: Play) -> None:
        """Play an episode to its end.

        Raises:
            ContextFullError: There is no room for another turn.
            ServerError: The policy was not sampled.
        """
        episode, tree = play.episode, CallTree(self.chat, play.episode)
        with self.policy.session(episode.task) as policy:

            async def speak(_: Observation) -> Turn:
                prompt = tree.following(episode.messages, episode.tools)
                most = most_tokens(prompt, self.sampling, self.max_tokens)
                seed = derive_seed(episode.seed, episode.num_turns)
                began = time.perf_counter()
                turn = await policy.sample(prompt.ids, self.sampling, max_tokens=most, seed=seed)
                call = tree.said(prompt, turn.ids, turn.logprobs, policy.version)
                call.finish_reason, call.began = turn.finish_reason, round(began - play.began, 6)
                call.seconds = round(time.perf_counter() - began, 6)
                call.sampled = self.chat.sampled_text(turn.ids, turn.logprobs)
                return Turn(self.chat.decode(turn.ids))

            await play.converse(speak)


def most_tokens(prompt: Prompt, sampling: SamplingParams, max_tokens: int) -> int:
    """How many tokens the turn after a prompt may have: an episode goes on while there is room for half a turn.

    Raises:
        ContextFullError: There is none.
    """
    room = max_tokens - max(1, sampling.max_turn_tokens // 2)
    if len(prompt.ids) > room:
        which = "next" if any(message["role"] == "assistant" for message in prompt.messages) else "first"
        raise ContextFullError(
            f"the {which} prompt has {len(prompt.ids)} tokens; rollout.max_tokens {max_tokens} with "
            f"rollout.max_turn_tokens {sampling.max_turn_tokens} leaves room for one of {room}. Raise "
            "rollout.max_tokens or give the env less to say"
        )
    return min(sampling.max_turn_tokens, max_tokens - len(prompt.ids))
