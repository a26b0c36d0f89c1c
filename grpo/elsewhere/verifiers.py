"""``verifiers:NAME``: an environment of verifiers, whose harness asks an OpenAI endpoint, turned inside out.

A rollout plays in an interpreter that has verifiers, as an agent's function does, and asks an endpoint of ours: what it
asks is an observation, and an action is what it is answered. So any harness with a base URL will do that carries one
conversation on. Several agents, a history that is rewritten, and tools that change are refused.
"""

import asyncio
import atexit
import json
import sys
from concurrent.futures import Future
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from grpo.agents.agent_loop import in_daemon_thread
from grpo.agents.endpoint import Endpoint, farewell
from grpo.agents.interpreter import Interpreter
from grpo.agents.upstream import Upstream
from grpo.agents.wire import Asked, Said, SaidCall
from grpo.chat.tree import canonical
from grpo.elsewhere.tool_env import MAX_TURNS, Outcome, ToolEnv
from grpo.envs.pool import Seat
from grpo.envs.step_cost import Place
from grpo.envs.tasks import split_of
from grpo.episodes.env_thread import EnvThread
from grpo.episodes.play import Play
from grpo.errors import EnvError
from grpo.types import AgentTask, Answer, Episode, Message, ModelCall, Task
from judges.common.tool_calls import ParsedTurn

ROLLOUT = "grpo.elsewhere.verifiers_main:rollout"
REPLY_SECONDS = 590.0
"""A call of an env may take ten minutes."""
OURS = "grpo_call_"
"""Begins the id of a call that had none."""


class VerifiersEnv(ToolEnv):
    """See the module.

    Args:
        address: The taskset's id.
        python: The interpreter that has verifiers.
        split: One task in five is of ``test``, the others are of ``train``; None: all.
        max_turns: As of `ToolEnv`.
        config: What else the ``[env]`` of their config says.
    """

    def __init__(
        self,
        address: str,
        python: str = sys.executable,
        split: str | None = None,
        max_turns: int = MAX_TURNS,
        config: dict[str, Any] | None = None,
    ):
        super().__init__(max_turns)
        config = {"taskset": {}, **(config or {})}
        self._about = json.dumps({**config, "taskset": {"id": address, **config["taskset"]}})
        self._bridge = _bridge(python)
        self._split = split
        self._rollout: _Rollout | None = None
        self._asked: tuple[Asked, Future[Said]] | None = None
        self._history: list[str] = []

    def scenario_ids(self) -> list[str]:
        """Numbers of the tasks."""
        count = int(self._bridge.play(None, self._about, "").result().text)
        return [name for name in map(str, range(count)) if self._split in (None, split_of(name))]

    def _begin(self, seed: int | None, options: dict[str, Any]) -> tuple[list[Message], list[dict[str, Any]]]:
        if (name := options.get("scenario_id")) is None:
            name = str(self.np_random.choice(self.scenario_ids()))
        rollout = self._rollout = _Rollout(name)
        self._bridge.play(rollout, self._about, name).add_done_callback(rollout.inbox.put)
        asked = self._next(rollout)
        if not isinstance(asked, Asked):
            raise EnvError(f"the rollout of task {name} ended before its harness asked a model")
        self._history = [*map(canonical, asked.messages)]
        return asked.messages, asked.tools

    def _take(self, turn: ParsedTurn) -> Outcome:
        assert self._rollout, "an episode is under way"
        assert self._asked, "the harness waits for a turn"
        number = len(self._history)
        calls = tuple(
            SaidCall(call.call_id or f"{OURS}{number}_{place}", call.name, json.dumps(call.arguments))
            for place, call in enumerate(turn.calls)
        )
        said = Said(f"turn_{number}", turn.text, calls=calls)
        self._asked[1].set_result(said)
        came = self._next(self._rollout)
        if not isinstance(came, Asked):
            return Outcome([], came["reward"], not came["cut"], came["cut"])
        expected, keys = [*self._history, canonical(said.message)], [*map(canonical, came.messages)]
        if keys[: len(expected)] != expected:
            raise EnvError("the harness rewrites its history, or has several agents; an env has one that is carried on")
        if {*came.tool_names} != {*self._tools}:
            raise EnvError(f"the harness offers other tools than at first: {', '.join(came.tool_names) or 'none'}")
        self._history = keys
        new = came.messages[len(expected) :]
        return Outcome([{k: v for k, v in message.items() if not str(v).startswith(OURS)} for message in new])

    def _end(self) -> None:
        if self._rollout is not None:
            self._rollout.terminated = True  # the endpoint says farewell to what is still asked
        if self._asked is not None:
            self._asked[1].set_result(farewell(self._asked[0]))
        self._rollout = self._asked = None

    def _next(self, rollout: "_Rollout") -> Any:
        """The next request, or the result of a rollout that has ended."""
        self._asked = None
        try:
            came = rollout.inbox.get(timeout=REPLY_SECONDS)
        except Empty:
            raise EnvError(f"the harness asked nothing for {REPLY_SECONDS:g} s") from None
        if isinstance(came, Future):
            return json.loads(came.result().text)
        self._asked = came
        return came[0]


class _Rollout(Play):
    """What the endpoint knows of an episode; requests and the end of the rollout come into its inbox."""

    def __init__(self, name: str):
        super().__init__(Episode(name, Task(0)), Seat(Place.LOOP, lambda: sys.exit("the env is elsewhere")))
        self.inbox: SimpleQueue[Any] = SimpleQueue()


class _Bridge(Upstream):
    """An interpreter that plays rollouts, and the model that they ask."""

    spoken: ClassVar[tuple[str, ...]] = ()

    def __init__(self, python: str):
        super().__init__("policy")
        self._plays = EnvThread()
        self._endpoint = Endpoint(self._plays, self)
        self._endpoint.start()
        self._interpreter = Interpreter(python, ROLLOUT, "the env's python")
        atexit.register(self._interpreter.close)

    async def said(self, asked: Asked, play: Play, call: ModelCall) -> Said:
        """See `Upstream`."""
        assert isinstance(play, _Rollout), "no others are admitted"
        play.inbox.put((asked, reply := Future[Said]()))
        return await asyncio.wrap_future(reply)

    def play(self, rollout: _Rollout | None, about: str, name: str) -> Future[Any]:
        """Begin the rollout of a task; without one, count the tasks."""
        return in_daemon_thread(self._play, rollout, AgentTask(about, name))

    def _play(self, rollout: _Rollout | None, task: AgentTask) -> Answer | None:
        if rollout is None:
            return asyncio.run(self._interpreter.play("", task, [], None))
        with self._plays.admit(rollout) as token:
            return asyncio.run(self._interpreter.play(token, task, [], self._endpoint.model(token)))


_bridge = cache(_Bridge)
"""Of an interpreter, for all envs of this process."""
