"""The policy in training as the model behind an agent of any kind: what it sees and says is kept token for token.

Somebody else may answer in its place, whom it will imitate: another model, or a script of the env (`Voice`).

The agent asks an endpoint as it would ask any model (`grpo.agents.endpoint`), in any of its forms. The request is
rendered by the chat format of training, behind the ids of the call that it carries on (`CallTree`), and the policy is
sampled by ids. What was sampled goes back as a message: text, and calls of the tools that were offered. Text that tries
to be a call and is none stays text, because clients raise on it.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

from grpo.agents.policy import most_tokens
from grpo.agents.upstream import Upstream, UpstreamFailed
from grpo.agents.wire import Asked, Said, SaidCall
from grpo.chat import Chat
from grpo.chat.tree import CallTree, Prompt, rendered
from grpo.envs.message_env import MessageEnv
from grpo.episodes.play import Play
from grpo.episodes.player import Agent
from grpo.errors import ContextFullError, ModelError, ServerDiedError, ServerError
from grpo.seeds import derive_seed
from grpo.serving.policy import Policy, SamplingParams
from grpo.types import Episode, ModelCall, SampledTurn, Task, stands_in
from judges.common.tool_calls import parse_turn, split_thought

MODEL = "policy"
"""What agents are told that the model is called; some clients choose a form by a name that they know."""


class Voice(Protocol):
    """Who answers in one episode, in the tokens of a chat format."""

    version: int | None
    chat: Chat
    died: ServerDiedError | None
    """Set where there is no server left to ask."""

    async def turn(self, prompt: Prompt, asked: Asked, play: Play, call: ModelCall) -> tuple[SampledTurn, Said]:
        """The turn after a prompt, as ids and as a message.

        Raises:
            UpstreamFailed: There is none.
        """
        ...


@dataclass(slots=True)
class PolicyVoice(Voice):
    """A policy, asked in the event loop in which this was made."""

    policy: Policy
    sampling: SamplingParams
    max_tokens: int
    chat: Chat
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    died: ServerDiedError | None = None

    def __post_init__(self) -> None:
        """As the policy's."""
        self.version = self.policy.version

    async def turn(self, prompt: Prompt, asked: Asked, play: Play, call: ModelCall) -> tuple[SampledTurn, Said]:
        """See `Voice`."""
        seed = derive_seed(play.episode.seed, play.episode.number_of(call))
        try:
            most = most_tokens(prompt, self.sampling, self.max_tokens)
            most = min(most, asked.max_tokens or most)
            sampling = self.policy.sample(prompt.ids, self.sampling, max_tokens=most, seed=seed)
            turn = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(sampling, self.loop))
        except asyncio.CancelledError as error:
            if (asking := asyncio.current_task()) and asking.cancelling():
                raise
            raise UpstreamFailed("the run is stopped") from error  # and so the policy's loop ends first
        except ContextFullError as error:
            play.has_no_room = True
            said = {"message": str(error), "type": "invalid_request_error", "code": "context_length_exceeded"}
            raise UpstreamFailed(str(error), 400, {"error": said}) from error
        except ServerError as error:
            self.died = error if isinstance(error, ServerDiedError) else None
            raise UpstreamFailed(str(error)) from error
        call.sampled = self.chat.sampled_text(turn.ids, turn.logprobs)
        return turn, said_of(self.chat.decode(turn.ids), asked.tool_names, f"{seed:x}")


@dataclass(slots=True)
class TeacherVoice(Voice):
    """Somebody who can: what another model says, in the tokens of the policy that will imitate it."""

    teacher: Upstream
    chat: Chat
    version: int | None = None
    died: ServerDiedError | None = None

    async def turn(self, prompt: Prompt, asked: Asked, play: Play, call: ModelCall) -> tuple[SampledTurn, Said]:
        """See `Voice`."""
        said = await self.teacher.said(asked, play, call)
        (turn,) = rendered(self.chat, [said.message], asked.tools)
        ids = self.chat.turn_ids(turn["content"])
        return SampledTurn(ids, [0.0] * len(ids), said.finish_reason), said


class ScriptTeacher(Upstream):
    """A policy that the env brings along, as a model: it reads the newest message, and says what it would do.

    Args:
        name: Of the script.
    """

    def __init__(self, name: str):
        super().__init__(name)
        self._scripts: WeakKeyDictionary[Play, Any] = WeakKeyDictionary()

    async def said(self, asked: Asked, play: Play, call: ModelCall) -> Said:
        """See `Upstream`."""
        return await play.seat.run(self._act, asked, play, call)

    def _act(self, asked: Asked, play: Play, call: ModelCall) -> Said:
        env, text = play.seat.env, asked.messages[-1]["content"]
        assert isinstance(env, MessageEnv), "a script is made from the env itself"
        assert play.newest is not None, "begin() comes first"
        if play not in self._scripts:
            self._scripts[play], text = env.scripted_policy(self.model, play.episode.seed), play.opening.text
        action = self._scripts[play].act(text, play.newest.info)
        return said_of(action, asked.tool_names, f"{play.episode.number_of(call):x}")


class CapturedUpstream(Upstream):
    """Whoever answers in the episode that asks; all forms are read and written here, and all is kept.

    Attributes:
        teachers: Other models that answer, closed with this.
    """

    spoken: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__(MODEL)
        self.teachers: list[Upstream] = []
        self._open: dict[Play, tuple[Voice, CallTree]] = {}

    @contextmanager
    def answers(self, play: Play, voice: Voice) -> Iterator[None]:
        """Have ``voice`` answer what is asked in an episode."""
        self._open[play] = voice, CallTree(voice.chat, play.episode)
        try:
            yield
        finally:
            del self._open[play]

    async def said(self, asked: Asked, play: Play, call: ModelCall) -> Said:
        """See `Upstream`; the turn is kept in the episode's ``call``."""
        if play not in self._open:
            raise UpstreamFailed("the episode has ended", 404)
        voice, tree = self._open[play]
        try:
            prompt = tree.following(asked.messages, asked.tools)
            turn, said = await voice.turn(prompt, asked, play, call)
        except ModelError as error:  # the chat template refuses what was sent
            raise UpstreamFailed(str(error), 400) from error
        if play not in self._open:  # its time was up meanwhile, and nothing of it changes any more
            raise UpstreamFailed("the episode has ended", 404)
        counts = {"prompt_tokens": len(prompt.ids), "completion_tokens": len(turn.ids)}
        said = replace(said, finish_reason=turn.finish_reason, **counts)
        tree.said(prompt, turn.ids, turn.logprobs, voice.version, call=call, sent=said.message)
        return said

    async def close(self) -> None:
        """See `Upstream`; the teachers' connections are of the same event loop."""
        for teacher in self.teachers:
            await teacher.close()

    def count(self, asked: Asked, play: Play) -> int:
        """See `Upstream`."""
        voice, _ = self._open[play]
        return len(CallTree(voice.chat, Episode("", Task(0))).following(asked.messages, asked.tools).ids)


@dataclass(slots=True)
class CapturedAgent(Agent):
    """An agent whose model is a policy, or somebody whom a policy will imitate.

    Attributes:
        agent: Asks ``upstream`` through its endpoint; opened by whoever uses this.
        upstream: What it asks.
        voice: Who answers, made for each episode.
        learn_auxiliary: See `leave_out`.
    """

    agent: Agent
    upstream: CapturedUpstream
    voice: Callable[[Play], AbstractContextManager[Voice]]
    learn_auxiliary: bool = False

    def __post_init__(self) -> None:
        """Its envs are called where the agent's are."""
        self.env_thread = self.agent.env_thread

    async def run(self, play: Play) -> None:
        """Let the agent play.

        Raises:
            ServerDiedError: There was no server left to ask, and the episode has not ended.
        """
        with self.voice(play) as voice, self.upstream.answers(play, voice):
            try:
                await self.agent.run(play)
            except Exception:  # whatever the agent makes of it that its model is gone
                if voice.died is None:
                    raise
            finally:
                leave_out(play.episode.calls, learn_auxiliary=self.learn_auxiliary)
        if voice.died is not None and not play.is_over:
            raise voice.died


def leave_out(calls: Sequence[ModelCall], *, learn_auxiliary: bool = False) -> None:
    """Say of each call whether it is learned from.

    A call that was asked again and led nowhere, while its twin led on, is ``retried``. A call is ``auxiliary`` that has
    no tools while others of the episode have, and nothing of which comes again in a later call: a guard, a planner.
    Such calls are left out, too, but for ``learn_auxiliary``.
    """
    followed = {call.follows for call in calls}
    led_on = {(call.follows, tuple(call.prompt_ids)) for number, call in enumerate(calls) if number in followed}
    with_tools = any(call.tools for call in calls) and not learn_auxiliary
    for number, call in enumerate(calls):
        if not call.sampled_ids or number in followed:
            continue
        if (call.follows, tuple(call.prompt_ids)) in led_on:
            call.left_out = "retried"
        elif with_tools and not call.tools and not _comes_again(call, calls[number + 1 :]):
            call.left_out = "auxiliary"


def _comes_again(call: ModelCall, later: Sequence[ModelCall]) -> bool:
    return stands_in((call.reply or {}).get("content") or "", later)


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
