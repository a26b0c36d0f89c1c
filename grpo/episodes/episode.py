"""One episode of an evaluation, which every kind of agent plays in the same way.

It hands the env one turn at a time, and keeps the transcript, the model calls and the final answer. It knows nothing
of agents, threads, time limits or files. What touches its env (`begin`, `step`, `call`, `finish`, `conclude`,
`answer_key`) is called where the env lives, by ``episode.seat.run``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from grpo.chat.tool_calls import ANSWER_TOOL, final_answer, without_thought
from grpo.envs.message_env import Observation
from grpo.envs.pool import Seat
from grpo.episodes.answer import Answer, Task
from grpo.errors import EnvError
from grpo.types import AnswerKey, Message
from grpo.types import Task as EnvTask

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_SERVER_FAULTS = (0, 401, 403, 404, 408, 429)

MAX_TURNS = 1000
"""Most turns of an episode where the user asks for no other number: an env may have no limit of its own."""

OVER = "The episode has ended; this call was not run."


class EpisodeKey(NamedTuple):
    """Which episode: the scenario and which of its samples."""

    scenario_id: str
    sample: int

    def __str__(self) -> str:
        return f"{self.scenario_id}#{self.sample}"


@dataclass(slots=True)
class ModelCall:
    """One request to a model, as the recording endpoint or a tool loop saw it.

    Attributes:
        model: Name that was asked for.
        status: HTTP status, 0 where no answer came.
        seconds: From request to the end of the reply.
        first_token_seconds: To the first piece of a streamed reply.
        prompt_tokens: As the server counted.
        completion_tokens: As the server counted.
        cost: In US dollars, where known.
        shared: How many messages at the front are those of the call before; only the rest is kept.
        messages: The new messages.
        reply: The model's message.
        sampled: The tokens of the reply with their logprobs, where those are known; see ``sampled_tokens``.
        error: What went wrong, "" where nothing did.
    """

    model: str
    status: int = 0
    seconds: float = 0.0
    first_token_seconds: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    shared: int = 0
    messages: list[Any] = field(default_factory=list)
    reply: Any = None
    sampled: list[str | float] = field(default_factory=list)
    error: str = ""

    @property
    def is_pending(self) -> bool:
        """Whether neither a reply nor an error came yet."""
        return self.status == 0 and not self.error

    @property
    def is_server_fault(self) -> bool:
        """Whether it failed for a reason that lies with the server, not with what was asked."""
        return bool(self.error) and (self.status in _SERVER_FAULTS or self.status >= 500)


class EpisodeClosed(RuntimeError):
    """Raised to an agent that still calls tools after its time was up; it ends stray threads."""


class Episode:
    """A task, its tools, and what became of it.

    Attributes:
        key: Scenario and sample.
        max_turns: Steps after which it is cut.
        seed: For whatever the agent leaves to chance.
        env_seed: What the env is reset with.
        seat: Where its env is called.
        messages: The transcript, opening messages first.
        tools: OpenAI function schemas.
        reward: Sum of the env's rewards so far.
        metrics: The env's metrics after the last step.
        steps: Steps taken.
        error_codes: How often the env gave each error code.
        answer: The final answer, where it is known.
        implicit: Whether it came as prose, without the answer tool.
        model_calls: What was asked of a model.
        last_request: The messages of the last model call.
        fault: What broke in the env, "" where nothing did.
        is_cut: Whether it was ended by ``max_turns``, not by the env.
    """

    def __init__(self, key: EpisodeKey, env_task: EnvTask, seed: int, seat: Seat, max_turns: int = MAX_TURNS):
        """Prepare; ``begin`` resets the env."""
        self.key = key
        self.max_turns = max_turns
        self.seed = seed
        self.env_seed = env_task.seed
        self.seat = seat
        self.messages: list[Message] = []
        self.tools: list[dict[str, Any]] = []
        self.reward = 0.0
        self.metrics: dict[str, float] = {}
        self.steps = 0
        self.error_codes: Counter[str] = Counter()
        self.answer: Answer | None = None
        self.implicit = False
        self.model_calls: list[ModelCall] = []
        self.last_request: list[Any] = []
        self.fault = ""
        self.terminated = False
        self.truncated = False
        self.is_cut = False
        self._env_task = env_task
        self._closed = False
        self._opening: Observation | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.terminated or self.truncated or self.is_cut

    @property
    def task(self) -> Task:
        """The opening messages as instructions and question."""
        parts = {"system": "", "user": ""}
        for message in self.opening.messages:
            if message["role"] in parts:
                parts[message["role"]] += ("\n\n" if parts[message["role"]] else "") + str(message["content"])
        return Task(parts["system"], parts["user"])

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
        observation = self._guarded(env.reset, self._env_task)
        self._opening = observation
        self.messages, self.tools = list(observation.messages), observation.tools
        self.metrics = observation.metrics
        return observation

    def step(self, action: str, spoken: Message | None = None) -> Observation:
        """Hand the env one assistant turn.

        Args:
            action: The turn as text.
            spoken: How the transcript keeps it; by default as an assistant message with the text.

        Raises:
            EnvError: The env failed.
            EpisodeClosed: The episode's time is up.
        """
        if self._closed:
            raise EpisodeClosed(OVER)
        observation = self._guarded(self.seat.step_here, action)
        self.steps += 1
        self.messages.append(spoken or {"role": "assistant", "content": action})
        self.messages.extend(observation.messages)
        self.reward += observation.reward
        self.metrics = observation.metrics
        if code := str(observation.info.get("error", "")):
            self.error_codes[code] += 1
        self.terminated, self.truncated = observation.terminated, observation.truncated
        self.is_cut = self.steps >= self.max_turns and not (self.terminated or self.truncated)
        if self.terminated and self.answer is None and (found := final_answer(action)):
            text, sources, self.implicit = found
            self.answer = Answer(text, tuple(sources))
        return observation

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call one tool and return what the model would see. A wrong argument is a text, never an exception."""
        if self._closed:
            raise EpisodeClosed(OVER)
        if self.is_over:
            return OVER
        observation = self.step(json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False, default=str))
        return "\n\n".join(str(message["content"]) for message in observation.messages)

    def finish(self, answer: Answer | None, *, implicit: bool = True) -> None:
        """Hand the env the agent's last words as its answer, unless it has answered already or has no turn left.

        Prose goes to the env as prose. With sources, or where the text could be taken for a call, it goes through the
        answer tool.
        """
        if answer is None or self._closed or self.is_over:
            return
        tool_names = [tool["function"]["name"] for tool in self.tools]
        reads_like_a_call = any(part in answer.text for part in ("{", "}", "<", "tool_call", *tool_names))
        self.answer, self.implicit = answer, implicit
        if ANSWER_TOOL in tool_names and (answer.sources or not implicit or reads_like_a_call):
            arguments = {"answer": answer.text[:2000], "sources": list(answer.sources)}
            self.step(json.dumps({"name": ANSWER_TOOL, "arguments": arguments}, ensure_ascii=False))
        else:
            self.step(answer.text)
        if not self.is_over:  # the env did not take it, for example because it is empty
            self.answer, self.implicit = None, False

    def conclude(self, answer: Answer | None) -> None:
        """`finish` with what an agent returned or printed at its end, less a thought before it.

        A plain env would act on it, and is not told.
        """
        if answer is not None and not self.seat.env.is_plain():
            self.finish(replace(answer, text=without_thought(answer.text)))

    def answer_key(self) -> AnswerKey | None:
        """What an answer judge has to know; None where nothing was answered.

        Raises:
            EnvError: The env failed.
        """
        return self._guarded(self.seat.env.answered, self.answer.text) if self.answer is not None else None

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    def _guarded(self, act: Callable[[Argument], Result], argument: Argument) -> Result:
        try:
            return act(argument)
        except EnvError as error:
            self.fault = str(error)
            raise
