"""Who plays with a policy: the policy alone, by the env's tools, or an agent of the user's whose model it is."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext

from grpo.agents.captured import CapturedAgent, CapturedUpstream, PolicyVoice, TeacherVoice, Voice
from grpo.agents.own import own_agent
from grpo.agents.policy import PolicyAgent
from grpo.agents.upstream import Upstream
from grpo.chat import Chat
from grpo.episodes.env_thread import EnvThread
from grpo.episodes.play import Play
from grpo.episodes.player import Agent
from grpo.serving.policy import Policy, SamplingParams
from grpo.settings import RolloutSettings


class PolicyAgents:
    """Makes the agent of every policy that a run samples, in training and in evaluation alike.

    Args:
        rollout: The run's limits.
        spec: The user's agent, ``PKG.MOD:FUNCTION`` or ``cmd:...``; None for the policy alone.
        python: The interpreter that calls the function; None for this one.

    Raises:
        EvaluationError: There is no such agent.
    """

    def __init__(self, rollout: RolloutSettings, spec: str | None = None, python: str | None = None):
        self.rollout = rollout
        self._opened = AsyncExitStack()
        self._upstream = CapturedUpstream()
        self._own = None if spec is None else own_agent(spec, self._upstream, python)

    @property
    def env_thread(self) -> EnvThread | None:
        """Where envs live that are cheap to call (`EnvPool`)."""
        return None if self._own is None else self._own.env_thread

    def agent(self, policy: Policy, chat: Chat, temperature: float) -> Agent:
        """The agent that plays with ``policy``, whose chat format is ``chat``."""
        most = self.rollout.max_tokens
        sampling = SamplingParams(temperature, self.rollout.max_turn_tokens)
        if self._own is None:
            return PolicyAgent(policy, chat, sampling, most)

        @contextmanager
        def voice(play: Play) -> Iterator[Voice]:
            with policy.session(play.episode.task) as served:
                yield PolicyVoice(served, sampling, most, chat)

        return CapturedAgent(self._own, self._upstream, voice, self.rollout.learn_auxiliary)

    def taught(self, teacher: Upstream, chat: Chat) -> Agent:
        """The user's agent with ``teacher`` as its model, in the tokens of who will imitate it."""
        assert self._own is not None, "there is an agent of the user's"
        self._upstream.teachers.append(teacher)
        voice = TeacherVoice(teacher, chat)
        return CapturedAgent(self._own, self._upstream, lambda _: nullcontext(voice), self.rollout.learn_auxiliary)

    async def open(self) -> None:
        """Get ready; from any event loop."""
        if self._own is not None:
            await self._opened.enter_async_context(self._own)

    async def close(self) -> None:
        """End what was opened."""
        await self._opened.aclose()
