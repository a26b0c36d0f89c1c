"""An env that speaks in messages: any registered Gymnasium env as the trainer and the evaluation hold it.

`MessageEnv` alone knows the env's class. It starts an episode so that the members of a group begin equal, and turns
what the env says into an `Observation`. The first ``reset`` shows whether an env speaks in messages (see
docs/any-env.md): its info has ``messages`` then, so wrappers and envs of third parties need import nothing of ours. Any
other env is wrapped (`grpo.envs.plain`). An env that raises or breaks the contract is a harness fault, an `EnvError`:
its episode is recorded as failed, and the env is not used again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeVar

from grpo.envs.registry import make_env
from grpo.errors import EnvError
from grpo.types import Message, Task

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


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """What an answer judge has to know of an episode, and no agent may: the question and its right answers."""

    question: str
    references: tuple[str, ...]


def check_env(env_id: str, env_kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Begin one episode, so that what is wrong with an env is said before anything is started.

    Returns:
        Names of the policies the env brings along.

    Raises:
        EnvError: The env cannot be made, reset, or spoken with.
    """
    env = MessageEnv(env_id, dict(env_kwargs))
    try:
        env.reset(env.first_task())
        return env.scripted_names()
    finally:
        env.close()


class MessageEnv:
    """One env, used for one episode after another.

    Attributes:
        broken: The env raised or broke the contract; its state is unknown, so it is not to be used again.
    """

    def __init__(self, env_id: str, env_kwargs: dict[str, Any]):
        self.env_id = env_id
        self.env = make_env(env_id, **env_kwargs)
        self.broken = False
        self._env_kwargs = env_kwargs
        self._settled = False
        self._metric_names: set[str] | None = None

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
        return self._guarded("step", self._step, action)

    def scenario_ids(self) -> list[str] | None:
        """Names of the env's scenarios, or None where it has none to name."""
        try:
            method = self.env.get_wrapper_attr("scenario_ids")
        except AttributeError:
            return None
        return list(method())

    def has_answer_key(self) -> bool:
        """Whether the env can tell a harness what is right."""
        return self.env.has_wrapper_attr("answer_key")

    def answer_key(self) -> AnswerKey | None:
        """Of the present episode; None where the env has none, or where no answer is right.

        Raises:
            EnvError: The env's ``answer_key()`` raised, or gave something else than question and answers.
        """
        if not self.has_answer_key():
            return None
        found: Any = self._guarded("answer_key", self.env.get_wrapper_attr("answer_key"))
        if found is None:
            return None
        try:
            question, references = found["question"], tuple(found["references"])
            right = isinstance(question, str) and all(isinstance(text, str) for text in references)
        except (TypeError, KeyError):
            right, question, references = False, "", ()
        if not right:
            raise EnvError(f"{self.env_id}.answer_key() gave {found!r:.200}; want None or {{'question', 'references'}}")
        return AnswerKey(question, references) if references else None

    def first_task(self) -> Task:
        """A task to try the env with."""
        ids = self.scenario_ids()
        return Task(0, ids[0] if ids else None)

    def scripted_names(self) -> tuple[str, ...]:
        """Names of the policies the env brings along; a plain env has ``random``."""
        return tuple(sorted(self._scripted()))

    def scripted_policy(self, name: str, seed: int) -> Any:
        """A policy the env brings along (for example ``oracle``): an object with ``act(observation, info) -> str``."""
        known = self._scripted()
        if name not in known:
            offered = ", ".join(sorted(known)) or "none"
            raise EnvError(f"{self.env_id} has no scripted policy {name!r}; it offers: {offered}")
        return known[name](self.env.unwrapped, seed=seed)

    def close(self) -> None:
        """Close the env; what a broken one raises is dropped."""
        try:
            self.env.close()
        except Exception:
            if not self.broken:
                raise

    def _scripted(self) -> dict[str, Any]:
        try:
            return dict(self.env.get_wrapper_attr("scripted_policies"))
        except AttributeError:
            if self._settled:
                return {}
        self.reset(self.first_task())  # a plain env is wrapped at its first reset, and brings policies then
        return self._scripted()

    def _reset(self, seed: int, options: dict[str, Any] | None) -> Observation:
        text, info = self.env.reset(seed=seed, options=options)
        if "messages" not in info and not self._settled:
            if contract := info.keys() & {"tools", "scenario_id"}:
                raise EnvError(
                    f"{self.env_id} gives info[{min(contract)!r}] but no info['messages'] at reset; an env that "
                    "speaks in messages gives its first system and user messages there"
                )
            self._wrap()
            text, info = self.env.reset(seed=seed, options=options)
        self._settled = True
        return self._observation("reset", text, 0.0, False, False, info)

    def _step(self, action: str) -> Observation:
        text, reward, terminated, truncated, info = self.env.step(action)
        return self._observation("step", text, reward, terminated, truncated, info)

    def _wrap(self) -> None:
        from grpo.envs.plain import DEFAULT_MAX_TURNS, PlainEnv

        asked = self._env_kwargs.get("max_episode_steps") or 0
        own = self.env.spec.max_episode_steps if self.env.spec is not None else None
        if "ansi" in self.env.metadata.get("render_modes", ()) and "render_mode" not in self._env_kwargs:
            self.env.close()
            self.env = make_env(self.env_id, render_mode="ansi", **self._env_kwargs)
        self.env = PlainEnv(self.env, asked if asked > 0 else min(own or DEFAULT_MAX_TURNS, DEFAULT_MAX_TURNS))

    def _observation(
        self, when: str, text: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any]
    ) -> Observation:
        value = float(reward)
        if not math.isfinite(value):
            raise EnvError(f"{self.env_id} gave the reward {value} at {when}; a reward must be a finite number")
        return Observation(
            self._messages(when, info),
            list(info.get("tools", ())) if when == "reset" else [],
            value,
            bool(terminated),
            bool(truncated),
            self._metrics(when, info),
            str(text),
            info,
        )

    def _messages(self, when: str, info: dict[str, Any]) -> list[Message]:
        if "messages" not in info:
            raise EnvError(
                f"{self.env_id} gives no info['messages'] at {when} (it gives {sorted(info) or 'nothing'}); "
                "an env that speaks in messages gives them at every reset and step"
            )
        messages = list(info["messages"])
        for message in messages:
            if not (
                isinstance(message, dict)
                and isinstance(message.get("role"), str)
                and isinstance(message.get("content"), str)
            ):
                raise EnvError(
                    f"{self.env_id} gives the message {message!r} at {when}; a message is a dict with 'role' and "
                    "'content', both text"
                )
        if when == "reset" and not messages:
            raise EnvError(f"{self.env_id} gives an empty info['messages'] at reset; there is nothing to answer")
        return messages

    def _metrics(self, when: str, info: dict[str, Any]) -> dict[str, float]:
        given = info.get("metrics", {})
        if given.keys() == self._metric_names and {float}.issuperset(map(type, given.values())):
            return dict(given)  # as it should be; what follows is for the first, and for what is wrong
        metrics: dict[str, float] = {}
        for name, value in given.items():
            try:
                metrics[str(name)] = float(value)
            except (TypeError, ValueError) as error:
                raise EnvError(
                    f"{self.env_id} gives info['metrics'][{name!r}] = {value!r} at {when}; a metric is a number"
                ) from error
        names = set(metrics)
        if self._metric_names is None:
            self._metric_names = names
        if names != self._metric_names:
            raise EnvError(
                f"{self.env_id} gives other info['metrics'] at {when} than at its first reset "
                f"(different: {', '.join(sorted(names ^ self._metric_names))}); the names must be the same throughout"
            )
        return metrics

    def _guarded(self, when: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """One boundary for what an env does wrong: every exception becomes an `EnvError`, and the env is done with."""
        try:
            return call(*args, **kwargs)
        except EnvError:
            self.broken = True
            raise
        except Exception as error:
            self.broken = True
            raise EnvError(f"{self.env_id} failed at {when}: {type(error).__name__}: {error}") from error
