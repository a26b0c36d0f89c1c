"""The policy in training as the model behind an agent of any kind: what it sees and says is kept token for token.

The agent asks an endpoint as it would ask any model (`grpo.agents.endpoint`), in any of its forms. The request is
rendered by the chat format of training, behind the ids of the call that it carries on (`CallTree`), and the policy is
sampled by ids. What was sampled goes back as a message: text, and calls of the tools that were offered. Text that tries
to be a call and is none stays text, because clients raise on it.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from grpo.agents.upstream import Upstream, UpstreamFailed
from grpo.agents.wire import Asked, Said, SaidCall
from grpo.chat import Chat
from grpo.chat.tree import CallTree
from grpo.episodes.play import Play
from grpo.episodes.player import Agent
from grpo.errors import ModelError, ServerError
from grpo.seeds import derive_seed
from grpo.serving.policy import Policy, SamplingParams
from grpo.types import Episode, ModelCall, Task
from judges.common.tool_calls import parse_turn, split_thought

MODEL = "policy"
"""What agents are told that the model is called; some clients choose a form by a name that they know."""


@dataclass(slots=True)
class Speaker:
    """The policy of one episode."""

    policy: Policy
    tree: CallTree
    sampling: SamplingParams
    max_tokens: int
    loop: asyncio.AbstractEventLoop
    """Where the policy may be asked."""

    async def say(self, asked: Asked, play: Play, call: ModelCall) -> Said:
        """Sample a turn, and keep it in the episode's ``call``.

        Raises:
            UpstreamFailed: The chat template refuses the messages, they leave no room, or the policy was not sampled.
        """
        episode = play.episode
        number = next(place for place, kept in enumerate(episode.calls) if kept is call)
        try:
            prompt = self.tree.following(asked.messages, asked.tools)
        except ModelError as error:
            raise UpstreamFailed(str(error), 400) from error
        room = self.max_tokens - max(1, self.sampling.max_turn_tokens // 2)
        if len(prompt.ids) > room:
            error = {
                "message": f"a prompt of {len(prompt.ids)} tokens is longer than {room}, for which rollout.max_tokens "
                f"{self.max_tokens} leaves room",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
            play.has_no_room = True
            raise UpstreamFailed(error["message"], 400, {"error": error})
        most = min(self.sampling.max_turn_tokens, self.max_tokens - len(prompt.ids), asked.max_tokens or room)
        sampling = self.policy.sample(
            prompt.ids, self.sampling, max_tokens=most, seed=derive_seed(episode.seed, number)
        )
        try:
            turn = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(sampling, self.loop))
        except ServerError as error:
            raise UpstreamFailed(str(error)) from error
        said = said_of(self.tree.chat.decode(turn.ids), asked.tool_names, f"{derive_seed(episode.seed, number):x}")
        said = replace(
            said, finish_reason=turn.finish_reason, prompt_tokens=len(prompt.ids), completion_tokens=len(turn.ids)
        )
        self.tree.said(prompt, turn.ids, turn.logprobs, self.policy.version, call=call, sent=said.message)
        call.finish_reason = turn.finish_reason
        call.sampled = self.tree.chat.sampled_text(turn.ids, turn.logprobs)
        return said


class PolicyUpstream(Upstream):
    """Whatever policy plays the episode that asks; all forms are read and written here.

    Args:
        chat: The chat format.
        max_tokens: What the policy sees at once, the turn it samples included.
    """

    spoken: ClassVar[tuple[str, ...]] = ()

    def __init__(self, chat: Chat, max_tokens: int):
        super().__init__(MODEL)
        self.chat = chat
        self.max_tokens = max_tokens
        self._speakers: dict[Play, Speaker] = {}

    @contextmanager
    def speaks(self, play: Play, policy: Policy, sampling: SamplingParams) -> Iterator[None]:
        """Have a policy answer what is asked in an episode, from the running event loop."""
        tree = CallTree(self.chat, play.episode)
        self._speakers[play] = Speaker(policy, tree, sampling, self.max_tokens, asyncio.get_running_loop())
        try:
            yield
        finally:
            del self._speakers[play]

    async def said(self, asked: Asked, play: Play, call: ModelCall) -> Said:
        """See `Upstream`."""
        speaker = self._speakers.get(play)
        if speaker is None:
            raise UpstreamFailed("the episode has ended", 404)
        return await speaker.say(asked, play, call)

    def count(self, asked: Asked) -> int:
        """See `Upstream`."""
        return len(CallTree(self.chat, Episode("", Task(0))).following(asked.messages, asked.tools).ids)


@dataclass(slots=True)
class CapturedAgent(Agent):
    """An agent whose model is a policy.

    Attributes:
        agent: Asks ``upstream`` through its endpoint; opened by whoever uses this.
        upstream: What it asks.
        policy: Who answers.
        sampling: How a turn is sampled.
    """

    agent: Agent
    upstream: PolicyUpstream
    policy: Policy
    sampling: SamplingParams

    def __post_init__(self) -> None:
        """Its envs are called where the agent's are."""
        self.env_thread = self.agent.env_thread

    async def run(self, play: Play) -> None:
        """Let the agent play."""
        with self.policy.session(play.episode.task) as policy, self.upstream.speaks(play, policy, self.sampling):
            await self.agent.run(play)


def said_of(text: str, tool_names: list[str], name: str) -> Said:
    """A sampled turn as a message: its thought, its text, and its calls where all of them are of tools that there are.

    Args:
        text: As it was sampled.
        tool_names: Of the tools that were offered.
        name: Makes the ids of the reply and of its calls.
    """
    thought, rest = split_thought(text)
    calls = parse_turn(rest).calls if tool_names else ()
    if not calls or not all(call.name in tool_names for call in calls):
        return Said(name, rest, thought)
    beside = rest.partition("<tool_call>")[0] if "<tool_call>" in rest else ""
    own = [
        SaidCall(f"call_{name}_{place}", call.name, json.dumps(call.arguments, ensure_ascii=False))
        for place, call in enumerate(calls)
    ]
    return Said(name, beside.strip(), thought, tuple(own))
