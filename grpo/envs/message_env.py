"""An env that speaks in messages: any registered Gymnasium env as the trainer and the evaluation hold it.

`MessageEnv` alone knows the env's class. It starts an episode so that the members of a group begin equal, and turns
what the env says into an `Observation`. The first ``reset`` shows whether an env speaks in messages (see
docs/your-env.md): its info has ``messages`` then, so wrappers and envs of third parties need import nothing of ours.
Any other env is wrapped (`grpo.envs.plain`). An env that raises or breaks the contract is at fault, an `EnvError`:
its episode is recorded as failed, and the env is not used again.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple, ParamSpec, TypeVar

from grpo.envs.contract import Contract
from grpo.envs.registry import SYSTEM_PROMPT, make_env, takes
from grpo.envs.step_cost import Meter, StepCost
from grpo.errors import EnvError, describe
from grpo.types import AnswerKey, Message, Outcome, Task

_TRIAL = "a random step, with which a plain env is tried before its first episode"

P = ParamSpec("P")
T = TypeVar("T")


class Observation(NamedTuple):  # made at every step: a frozen dataclass takes three times as long
    """What the env said: messages to append, tools (first observation only), and how the episode stands."""

    messages: list[Message]
    tools: list[dict[str, Any]]
    reward: float
    terminated: bool
    truncated: bool
    metrics: dict[str, float]
    text: str
    info: dict[str, Any]


def check_env(
    env_id: str, env_kwargs: Mapping[str, Any], say: Callable[[str], object] = lambda _line: None
) -> tuple[str, ...]:
    """Begin one episode, so that what is wrong with an env is said before anything is started.

    Args:
        env_id: As of `MessageEnv`.
        env_kwargs: As of `MessageEnv`.
        say: Is told the env's remarks.

    Returns:
        Names of the policies the env brings along.

    Raises:
        EnvError: The env cannot be made, reset, or spoken with.
    """
    with closing(MessageEnv(env_id, dict(env_kwargs))) as env:
        env.reset(env.first_task())
        for remark in env.remarks():
            say(remark)
        return env.scripted_names()


class MessageEnv:
    """One env, used for one episode after another.

    Args:
        env_id: As for ``gymnasium.make``; ``module:id`` is imported first.
        env_kwargs: For its constructor, and `SYSTEM_PROMPT`.
        cost: Is told what each step took.

    Attributes:
        broken: The env raised or broke the contract; its state is unknown, so it is not to be used again.
    """

    def __init__(self, env_id: str, env_kwargs: dict[str, Any], cost: StepCost | None = None):
        self.env_id = env_id
        self._system_prompt: str | None = None
        if SYSTEM_PROMPT in env_kwargs and not takes(env_id, SYSTEM_PROMPT):
            env_kwargs = dict(env_kwargs)
            if (text := env_kwargs.pop(SYSTEM_PROMPT)) is not None:
                self._system_prompt = str(text)
        self.env = make_env(env_id, **env_kwargs)
        self.cost = cost
        if cost is not None and self.env.metadata.get("waits"):
            cost.waits = True
        self.broken = False
        self._env_kwargs = env_kwargs
        self._settled = self._is_plain = False
        self._contract = Contract(env_id)

    def reset(self, task: Task) -> Observation:
        """Reset to the task's scenario and seed; the same task always gives the same first observation.

        Raises:
            EnvError: The env raised, or what it gave is against the contract.
        """
        options = {"scenario_id": task.scenario_id} if task.scenario_id is not None else None
        return self._guarded("reset", self._reset, task.seed, options)

    def step(self, action: str) -> Observation:
        """Hand the env one assistant turn as text.

        Raises:
            EnvError: The env raised, or what it gave is against the contract.
        """
        if self.cost is None or not self.cost.wanted():
            return self._guarded("step", self._step, action)
        meter = Meter()
        observation = self._guarded("step", self._step, action)
        self.cost.add(*meter.read())
        return observation

    def scenario_ids(self) -> list[str] | None:
        """Names of the env's scenarios, or None where it has none to name."""
        given = self.optional("scenario_ids")
        return None if given is None else self._contract.scenario_ids(given)

    def optional(self, name: str) -> Any:
        """What an attribute or a method gives that an env need not have; None where it has none.

        Raises:
            EnvError: It raised.
        """

        def ask() -> Any:
            found = self.env.get_wrapper_attr(name) if self.env.has_wrapper_attr(name) else None
            return found() if callable(found) else found

        return self._guarded(name, ask)

    def has_answer_key(self) -> bool:
        """Whether the env can tell a harness what is right."""
        return self.env.has_wrapper_attr("answer_key")

    def answer_key(self) -> AnswerKey | None:
        """Of the present episode; None where the env has none, or where no answer is right.

        Raises:
            EnvError: The env's ``answer_key()`` raised, or gave something else than question and answers.
        """
        return self._contract.answer_key(self.optional("answer_key"))

    def answered(self, given: str | None) -> AnswerKey | None:
        """The key of an episode that has ended with an answer, and what the episode comes to right or wrong.

        Args:
            given: The answer, as far as can be told without the env; what the env says it took comes first.

        Returns:
            None where the env has no key, or nothing was answered.

        Raises:
            EnvError: As in `answer_key`; or ``judged()`` raised, or gave something else than reward and metrics.
        """
        key = self.answer_key()
        if key is None or (answer := key.answer if key.answer is not None else given) is None or not answer.strip():
            return None
        outcomes = None
        if self.env.has_wrapper_attr("judged"):
            outcomes = {right: self._guarded("judged", self._judged, right) for right in (True, False)}
        return replace(key, answer=answer, outcomes=outcomes)

    def is_plain(self) -> bool:
        """Whether it does not speak in messages by itself, so that every turn is an action; known after a reset."""
        return self._is_plain

    def remarks(self) -> list[str]:
        """What a user of a plain env is to know; there is nothing to say of others, and nothing before a reset."""
        return self.optional("remarks") or [] if self._is_plain else []

    def first_task(self) -> Task:
        """A task to try the env with."""
        ids = self.scenario_ids()
        return Task(0, ids[0] if ids else None)

    def scripted_names(self) -> tuple[str, ...]:
        """Names of the policies the env brings along; a plain env has ``random``."""
        return tuple(sorted(self._scripted()))

    def knows_answers(self, name: str) -> bool:
        """Whether a policy of the env's says that it looks at what a model does not see (``knows_answers = True``)."""
        return bool(getattr(self._scripted()[name], "knows_answers", False))

    def scripted_policy(self, name: str, seed: int) -> Any:
        """A policy the env brings along (for example ``oracle``): an object with ``act(observation, info) -> str``."""
        known = self._scripted()
        if name not in known:
            offered = ", ".join(sorted(known)) or "none"
            raise EnvError(f"{self.env_id} has no scripted policy {name!r}; it offers: {offered}")
        return known[name](self.env.unwrapped, seed=seed)

    def close(self) -> None:
        """Close the env; what a broken one raises is dropped.

        Raises:
            EnvError: The env's ``close`` raised.
        """
        was_broken = self.broken
        try:
            self._guarded("close", self.env.close)
        except EnvError:
            if not was_broken:
                raise

    def _scripted(self) -> dict[str, Any]:
        if (given := self.optional("scripted_policies")) is not None:
            return self._contract.policies(given)
        if self._settled:
            return {}
        self.reset(self.first_task())  # a plain env is wrapped at its first reset, and brings policies then
        return self._scripted()

    def _reset(self, seed: int, options: dict[str, Any] | None) -> Observation:
        text, given = self._contract.began(self.env.reset(seed=seed, options=options))
        info = self._contract.info("reset", given)
        if "messages" not in info and not self._settled:
            if contract := info.keys() & {"tools", "scenario_id"}:
                raise EnvError(
                    f"{self.env_id} gives info[{min(contract)!r}] but no info['messages'] at reset; an env that "
                    "speaks in messages gives its first system and user messages there"
                )
            self._wrap()
            text, info = self.env.reset(seed=seed, options=options)
        self._settled = True
        observation = self._observation("reset", text, 0.0, False, False, info)
        if self._system_prompt is None or self._is_plain:
            return observation
        said = [message for message in observation.messages if message["role"] != "system"]
        return observation._replace(messages=[{"role": "system", "content": self._system_prompt}, *said])

    def _step(self, action: str) -> Observation:
        text, reward, terminated, truncated, info = self._contract.stepped(self.env.step(action))
        return self._observation("step", text, reward, terminated, truncated, self._contract.info("step", info))

    def _judged(self, right: bool) -> Outcome:
        return self._contract.outcome(self.env.get_wrapper_attr("judged")(right))

    def _wrap(self) -> None:
        from grpo.envs.plain import DEFAULT_MAX_TURNS, PlainEnv

        asked = self._env_kwargs.get("max_episode_steps") or 0
        own = self.env.spec.max_episode_steps if self.env.spec is not None else None
        if "ansi" in (self.env.metadata.get("render_modes") or ()) and "render_mode" not in self._env_kwargs:
            self.env.close()
            self.env = make_env(self.env_id, render_mode="ansi", **self._env_kwargs)
        most = asked if asked > 0 else min(own or DEFAULT_MAX_TURNS, DEFAULT_MAX_TURNS)
        self.env = self._guarded(_TRIAL, PlainEnv, self.env, most, own, self._system_prompt)
        self._is_plain = True

    def _observation(
        self, when: str, text: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any]
    ) -> Observation:
        contract = self._contract
        contract.error(info)
        return Observation(
            contract.messages(when, info),
            contract.tools(info) if when == "reset" else [],
            contract.reward(when, reward),
            contract.flag("terminated", terminated),
            contract.flag("truncated", truncated),
            contract.metrics(when, info),
            str(contract.observed(text)),
            info,
        )

    def _guarded(self, when: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """One boundary for what an env does wrong: every exception becomes an `EnvError`, and the env is done with."""
        try:
            return call(*args, **kwargs)
        except EnvError:
            self.broken = True
            raise
        except BaseException as error:  # SystemExit too: it is the env's end, not the harness's
            self.broken = True
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # the user's
            raise EnvError(f"{self.env_id} failed at {when}: {describe(error)}") from error


CALL_OF_AN_ENV = MessageEnv._guarded.__code__
"""Of the frame in which an env is called, for whoever looks at a stack."""
