"""An episode under way: its seat at an env, and the one place where an agent's turns reach it.

Agents that are asked for turns go through `converse`; agents that act by themselves call tools (`Play.call`). It knows
nothing of time limits, marking or files. What touches the env (all methods but `converse`) is called where the env
lives, by ``play.seat.run``.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from grpo.chat.turns import ANSWER_TOOL, final_answer
from grpo.envs.message_env import Observation
from grpo.envs.pool import Seat
from grpo.envs.step_cost import Place
from grpo.errors import EnvError
from grpo.types import AgentTask, Answer, Episode, Message
from grpo.watch import Part, Waiting
from judges.common.tool_calls import call_action, in_json, without_thought

Argument = TypeVar("Argument")
Result = TypeVar("Result")

MAX_TURNS = 1000
"""Most turns of an episode where the user asks for no other number: an env may have no limit of its own."""

YIELD_SECONDS = 0.01
"""How long agents that wait for nothing may keep the event loop."""

CANNOT_BE_LEFT = "all episodes wait for it; with env_workers = threads, or a number of processes, the others go on"
"""For envs that are called in the thread that plays."""

OVER = "The episode has ended; this call was not run."


class Turn(NamedTuple):
    """What an agent says.

    Attributes:
        action: The turn as the env reads it.
        spoken: How the transcript keeps it; by default as an assistant message with the text.
    """

    action: str
    spoken: Message | None = None


Speaker = Callable[[Observation], Awaitable[Turn | Answer]]
"""Gives the turn after an observation, or the answer that ends the episode."""


class EpisodeClosed(RuntimeError):
    """Raised to an agent that still calls tools after its time was up; it ends stray threads."""


class Play:
    """Takes an episode from its reset to its end.

    Attributes:
        episode: What becomes of it.
        seat: Where its env is called.
        max_turns: Turns after which it is cut.
        last_request: The messages of the last model call.
        began: When, by the clock of ``time.perf_counter``.
        newest: The env's last observation.
        waiting: For the newest call of the env.
        fault: What broke in the env, "" where nothing did.
        is_cut: Whether it was ended by ``max_turns``, not by the env.
        has_no_room: Whether the agent's model takes no longer prompts; what the agent says then is no answer.
    """

    def __init__(self, episode: Episode, seat: Seat, max_turns: int = MAX_TURNS):
        """Prepare; ``begin`` resets the env."""
        self.episode = episode
        self.seat = seat
        self.max_turns = max_turns
        self.last_request: list[Any] = []
        self.began = time.perf_counter()
        self.waiting: Waiting | None = None
        self.fault = ""
        self.terminated = self.truncated = self.is_cut = self.has_no_room = False
        self._closed = False
        self._opening: Observation | None = None
        self.newest: Observation | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.terminated or self.truncated or self.is_cut

    def takes_no_calls(self) -> bool:
        """Whether the agent is to end, and its model is not to be asked again; it may ask as often as it may act."""
        self.is_cut = self.is_cut or (not self.is_over and len(self.episode.calls) >= self.max_turns)
        return self.is_over or self.has_no_room

    def beat(self) -> object:
        """What changes while its agent goes on, or waits for its model or the env."""
        waits = self.waiting is not None and self.waiting.is_open
        if waits or any(call.is_pending for call in list(self.episode.calls)):
            return time.monotonic()
        return len(self.episode.calls), self.episode.num_turns

    @property
    def agent_task(self) -> AgentTask:
        """The opening messages as instructions and question."""
        parts = {"system": "", "user": ""}
        for message in self.opening.messages:
            if message["role"] in parts:
                parts[message["role"]] += ("\n\n" if parts[message["role"]] else "") + str(message["content"])
        return AgentTask(parts["system"], parts["user"])

    @property
    def opening(self) -> Observation:
        """The env's first observation."""
        assert self._opening is not None, "begin() comes first"
        return self._opening

    def begin(self) -> Observation:
        """Reset the env.

        Raises:
            EnvError: The env failed, or could not be made; that is not this episode's ``fault``.
        """
        env = self.seat.env
        observation = self._guarded(env.reset, self.episode.task)
        self._opening = self.newest = observation
        self.episode.messages, self.episode.tools = list(observation.messages), observation.tools
        self.episode.metrics = observation.metrics
        return observation

    async def converse(self, speak: Speaker) -> None:
        """Hand observations to an agent and its turns to the env, until the episode is over."""
        observation, pause_at = self.opening, time.perf_counter() + YIELD_SECONDS
        while not self.is_over:
            said = await speak(observation)
            observation = await self.seat.run(self.take, said)
            if time.perf_counter() >= pause_at:  # here a time limit or Ctrl-C can end it
                await asyncio.sleep(0)
                pause_at = time.perf_counter() + YIELD_SECONDS

    def take(self, said: Turn | Answer) -> Observation:
        """Hand the env one assistant turn, or the agent's last words.

        Raises:
            EnvError: The env failed.
            EpisodeClosed: The episode's time is up.
        """
        if self._closed:
            raise EpisodeClosed(OVER)
        if isinstance(said, Answer):
            return self._answer(said, implicit=True)
        episode, (action, spoken) = self.episode, said
        newest = next((call for call in reversed(episode.calls) if call.status == 200), None)
        if newest is not None and newest.turn is None:
            newest.turn = episode.num_turns
        episode.messages.append(spoken or {"role": "assistant", "content": action})
        action = in_json(action, episode.tools)
        observation = self.newest = self._guarded(self.seat.env.step, action)
        episode.messages.extend(observation.messages)
        episode.turn_errors.append(str(observation.info.get("error", "")))
        episode.reward += observation.reward
        episode.metrics = observation.metrics
        self.terminated, self.truncated = observation.terminated, observation.truncated
        self.is_cut = episode.num_turns >= self.max_turns and not (self.terminated or self.truncated)
        if (
            self.terminated
            and episode.answer is None
            and not self.seat.env.is_plain()
            and (found := final_answer(action))
        ):
            text, sources, episode.implicit = found
            episode.answer = Answer(text, tuple(sources))
        return observation

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call one tool and return what the model would see. A wrong argument is a text, never an exception."""
        if self._closed:
            raise EpisodeClosed(OVER)
        if self.is_over:
            return OVER
        said = self.take(Turn(call_action(name, arguments)))
        return "\n\n".join(str(message["content"]) for message in said.messages)

    def finish(self, answer: Answer | None, *, implicit: bool = True) -> None:
        """Hand the env the agent's last words as its answer, unless it has answered already or has no turn left."""
        if answer is not None and not self._closed and not self.is_over and not self.has_no_room:
            self._answer(answer, implicit=implicit)

    def _answer(self, answer: Answer, *, implicit: bool) -> Observation:
        """Prose goes to the env as prose; with sources, or where it could be taken for a call, by the answer tool."""
        tool_names = [tool["function"]["name"] for tool in self.episode.tools]
        reads_like_a_call = any(part in answer.text for part in ("{", "}", "<", "tool_call", *tool_names))
        self.episode.answer, self.episode.implicit = answer, implicit
        action = answer.text
        if ANSWER_TOOL in tool_names and (answer.sources or not implicit or reads_like_a_call):
            arguments = {"answer": answer.text[:2000], "sources": list(answer.sources)}
            action = call_action(ANSWER_TOOL, arguments)
        observation = self.take(Turn(action))
        if not self.is_over:  # the env did not take it, for example because it is empty
            self.episode.answer, self.episode.implicit = None, False
        return observation

    def conclude(self, answer: Answer | None) -> None:
        """`finish` with what an agent returned or printed at its end, less a thought before it.

        A plain env would act on it, and is not told.
        """
        if answer is not None and not self.seat.env.is_plain():
            self.finish(replace(answer, text=without_thought(answer.text)))

    def end(self, *, wants_key: bool) -> None:
        """Refuse everything from now on; what an answer judge has to know is asked of the env where it is wanted."""
        self._closed = True
        if wants_key and self.terminated and not self.fault:
            given = self.episode.answer.text if self.episode.answer is not None else None
            try:
                self.episode.answer_key = self._guarded(self.seat.env.answered, given)
            except EnvError:
                pass  # it is the episode's fault

    def _guarded(self, act: Callable[[Argument], Result], argument: Argument) -> Result:
        where = self.seat.place
        doing = f"{self.episode.env}, {act.__name__} of {self.episode.task.key}"
        try:
            in_loop = where is Place.LOOP
            with Waiting(Part.ENV, doing, CANNOT_BE_LEFT if in_loop else "", holds_all=in_loop) as self.waiting:
                return act(argument)
        except EnvError as error:
            self.fault = str(error)
            raise
