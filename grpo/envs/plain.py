"""A wrapper that lets a plain Gymnasium env (FrozenLake, CartPole, ...) speak in messages.

Plain envs are wrapped and need not change: a registry full of envs is worth more than a rule that each must speak in
messages. The action space becomes the JSON schema of one tool, ``act``. An observation is the env's own ``ansi``
picture where it draws one, else its numbers with the names that its docstring gives them, and the legal actions where
its info has them. What the model writes is never an exception: a wrong call is an observation with an error code, and
the env does not move.

A wrong call costs ``INVALID_CALL_MARGIN`` more than a random action does on average, measured once over
``REHEARSAL_STEPS`` steps with seed 0. A fixed penalty would make nonsense the best policy wherever every step costs
something (CliffWalking, Pendulum). For the same reason an episode that is cut after ``MAX_INVALID_IN_A_ROW`` wrong
calls pays for the turns it had left.

The limit of turns is ``max_episode_steps``, Gymnasium's own argument. Without it, it is ``DEFAULT_MAX_TURNS`` or the
env's own limit, whichever is less, because every turn costs tokens. Where that cuts an episode, the prompt and the last
observation say so.
"""

import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from grpo.envs.action_names import action_names
from grpo.envs.contract import Contract
from grpo.envs.docstrings import read_docs
from grpo.envs.spaces import in_words, schema_of, to_action, to_json, to_text
from grpo.errors import EnvError
from judges.common.text import shown
from judges.common.tool_calls import Call, ErrorCode, format_call, parse_turn

TOOL = "act"
DEFAULT_MAX_TURNS = 50
"""Most turns of an episode where the user asks for no other number (``max_episode_steps``): turns cost tokens."""
MAX_CALLS_PER_TURN = 8
MAX_INVALID_IN_A_ROW = 5
INVALID_CALL_MARGIN = 0.1
REHEARSAL_STEPS = 32

MAX_LEGAL = 64
"""Most legal actions that an observation lists."""

_LEGAL = re.compile(
    r"(?:legal|valid|available|admissible|possible|allowed)_(?:action|move|command)s?|(?:(?!invalid|illegal)\w+_)?mask",
    re.I,
)
"""Names in ``info`` of what says which actions are legal."""

_REHEARSED: dict[str, tuple[float, str]] = {}
"""What rehearsals of this process found, by the spec of the env: another of the same kind needs none."""

_HIGHLIGHT = re.compile(r"((?:\x1b\[[\d;]+m)+)(.+?)(?:\x1b\[0?m)+", re.DOTALL)
_ESCAPE = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_CODE = re.compile(r"(?<!\d)(?:3|4|9|10)([0-7])(?!\d)")  # of the letter or of its ground, dark or bright
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


class PlainEnv(gymnasium.Wrapper[str, str, Any, Any]):
    """Text in, text out, with the info keys of the env contract; the spaces stay those of the wrapped env.

    Args:
        env: An env as ``gymnasium.make`` gives it; with ``render_mode="ansi"`` its pictures are the observations.
        max_turns: Most assistant turns, the wrong ones counted.
        own_turns: How many the env itself would allow, where it is known.
        about: The user's words on it, in place of those of its docstring.

    Raises:
        EnvError: Its actions or observations have no form in text.

    Attributes:
        invalid_call_reward: What a turn without a valid call is rewarded with.
        legal: The actions in each entry of the newest info that says which are legal.
        remarks: For people: where episodes are cut before the env would end them, and what nothing says of it.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        max_turns: int = DEFAULT_MAX_TURNS,
        own_turns: int | None = None,
        about: str | None = None,
    ):
        super().__init__(env)
        self.env_id = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self.max_turns = max_turns
        self._contract = Contract(self.env_id)
        self._of_own = f" of the env's {own_turns}" if own_turns and own_turns > max_turns else ""
        self._actions = env.action_space
        self._draws = env.render_mode == "ansi"
        self._docs = read_docs(type(env.unwrapped))
        self._schema = schema_of(self._actions)
        self._about = about
        self._names = action_names(env, self._docs)
        self._words = {name.casefold(): value for value, name in self._names.items()}
        spec = repr(env.spec)
        if env.spec is None or spec not in _REHEARSED:
            _REHEARSED[spec] = self._rehearse()
        self.invalid_call_reward, self._success_key = _REHEARSED[spec]
        whole = f"episodes are cut after {max_turns}{self._of_own} turns; to play whole ones: "
        option = json.dumps({"max_episode_steps": own_turns})
        self.remarks = [f"{self.env_id}: {whole}--env-kwargs '{option}'"] if self._of_own else []
        unsaid = [] if self._docs.about else ["what it is about"]
        unsaid += [] if self._names or not isinstance(self._actions, spaces.Discrete) else ["what its actions mean"]
        if unsaid and about is None:
            where = "say it in the docstring of its class, or with --system-prompt"
            self.remarks.append(f"{self.env_id}: nothing says {' and '.join(unsaid)}; {where}")
        self.legal: list[list[Any]] = []
        self.scripted_policies = {"random": lambda _env, seed: RandomPolicy(self, seed)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode; info has ``messages``, ``tools`` and ``metrics``."""
        observation, info = self._contract.began(self.env.reset(seed=seed, options=options))
        self._total, self._turns, self._steps, self._invalid, self._invalid_in_a_row = 0.0, 0, 0, 0, 0
        text = self._last_text = self._text(observation, self._contract.info("reset", info))
        messages = [{"role": "system", "content": self._introduction()}, {"role": "user", "content": text}]
        return text, {"messages": messages, "tools": [self._tool()], "metrics": self._metrics(info)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do what one assistant turn calls for."""
        self._turns += 1
        calls, code, fault = self._read(action)
        terminated, truncated = False, False
        info: dict[str, Any] = {}
        rewards: list[float] = []
        replies: list[tuple[str, str]] = []
        for call_id, value in calls:
            observation, step_reward, ended, cut, given = self._contract.stepped(self.env.step(value))
            terminated = self._contract.flag("terminated", ended)
            truncated = self._contract.flag("truncated", cut)
            info = self._contract.info("step", given)
            self._steps += 1
            rewards.append(self._contract.reward("step", step_reward))
            self._last_text = self._text(observation, info)
            replies.append((call_id, f"reward {rewards[-1]:.4g}\n{self._last_text}"))
            if terminated or truncated:
                break
        text, reward = self._last_text, sum(rewards)
        if fault:
            text = f"Error: {fault}. {self._form()}"
            reward, truncated = self._penalty()
        else:
            self._invalid_in_a_row = 0
        self._total += reward
        over = ", the episode is over" if terminated or truncated else ""
        if not over and self._turns >= self.max_turns:
            truncated, over = True, f", the episode is cut after {self.max_turns}{self._of_own} turns"
        rest = f", total {self._total:.4g}{over}\n{text}"
        text = f"reward {reward:.4g}{rest}"
        messages = [{"role": "tool", "content": text}]
        if replies and all(call_id for call_id, _ in replies):  # a reply to each call; the last has the total
            replies[-1] = (replies[-1][0], f"reward {rewards[-1]:.4g}{rest}")
            messages = [{"role": "tool", "content": said, "tool_call_id": call_id} for call_id, said in replies]
        return (
            text,
            reward,
            terminated,
            truncated,
            {
                "messages": messages,
                "metrics": self._metrics(info),
                "error": code,
                "stop_reason": "max_turns" if truncated and self._turns >= self.max_turns else "",
            },
        )

    def write_action(self, action: Any) -> str:
        """The assistant turn that calls for an action of the wrapped env, or for a near one with shorter numbers."""
        return format_call(TOOL, {"action": to_json(self._actions, action)})

    def _read(self, action: str) -> tuple[list[tuple[str, Any]], str, str]:
        """The actions that a turn calls for, each with its call's id; or an error code and, for the model, why."""
        turn = parse_turn(action)
        if turn.fault:
            return [], turn.fault.code, turn.fault.message
        try:
            if turn.calls:
                return [(call.call_id, self._action(call)) for call in turn.calls[:MAX_CALLS_PER_TURN]], "", ""
            return [("", self._bare(turn.text))], "", ""
        except _WrongCall as error:
            return [], error.code, str(error)
        except ValueError as error:
            return [], ErrorCode.BAD_ARGS, str(error)

    def _action(self, call: Call) -> Any:
        if call.name != TOOL:
            raise _WrongCall(ErrorCode.UNKNOWN_TOOL, f"there is no tool {shown(call.name)}")
        if call.arguments.keys() != {"action"}:
            raise ValueError(f'the arguments must be {{"action": ...}}, got {shown(call.arguments)}')
        return self._named_action(call.arguments["action"])

    def _bare(self, text: str) -> Any:
        """An action written without a call: the value, or its name, alone."""
        if not isinstance(self._actions, spaces.Text):
            try:
                return self._named_action(json.loads(text))
            except json.JSONDecodeError:
                if text.casefold() not in self._words:
                    why = "no tool was called" if text else "the turn is empty"
                    raise _WrongCall(ErrorCode.NO_TOOL_CALL, why) from None
        return self._named_action(text)

    def _named_action(self, value: Any) -> Any:
        if isinstance(value, str) and isinstance(self._actions, spaces.Discrete):
            value = self._words.get(value.strip().casefold(), value)
        return to_action(self._actions, value)

    def _penalty(self) -> tuple[float, bool]:
        """Reward of an invalid turn, and whether it was one too many."""
        self._invalid += 1
        self._invalid_in_a_row += 1
        if self._invalid_in_a_row < MAX_INVALID_IN_A_ROW:
            return self.invalid_call_reward, False
        return self.invalid_call_reward * (1 + self.max_turns - self._turns), True

    def _metrics(self, info: dict[str, Any]) -> dict[str, float]:
        metrics = {
            "return": self._total,
            "length": float(self._steps),
            "invalid_calls": float(self._invalid),
            "valid_call_rate": 1.0 - self._invalid / self._turns if self._turns else 0.0,
            "turns": float(self._turns),
        }
        if self._success_key:
            metrics["success"] = info.get(self._success_key, False)
        return metrics

    def _text(self, observation: Any, info: dict[str, Any]) -> str:
        self.legal = [*self._legal(info)]
        return "\n".join([self._shown(observation), *map(_listed, self.legal)])

    def _legal(self, info: dict[str, Any]) -> Iterator[list[Any]]:
        """The actions in each entry of info that says which are legal; of a mask those that it leaves."""
        for name, given in info.items():
            if not _LEGAL.fullmatch(str(name)) or not isinstance(given, Iterable) or isinstance(given, str | Mapping):
                continue
            legal: list[Any] = [*given]
            if str(name).endswith("mask") or (legal and all(isinstance(one, bool | np.bool_) for one in legal)):
                if not isinstance(self._actions, spaces.Discrete) or len(legal) != self._actions.n:
                    continue
                legal = [self._actions.start + place for place, is_legal in enumerate(legal) if is_legal]
            yield legal

    def _shown(self, observation: Any) -> str:
        if self._draws:
            if not isinstance(drawn := self.env.render(), str):
                given = f"{self.env_id} has the render mode 'ansi' and draws {shown(drawn)}, which is no text"
                raise EnvError(f"{given}; with --env-kwargs '{{\"render_mode\": null}}' its observations are shown")
            return _picture(drawn)
        try:
            return to_text(self._contract.observed(observation), self._docs.observations)
        except ValueError as error:
            raise EnvError(f"{self.env_id} {error}") from None

    def _introduction(self) -> str:
        parts = [f"{self.env_id}. {self._docs.about}".strip() if self._about is None else self._about]
        if self._about is None and not self._draws and not self._docs.observations and self._docs.observation:
            parts.append(self._docs.observation)
        parts.append(f"At most {self.max_turns}{self._of_own} turns. {self._form()}")
        return "\n".join(parts)

    def _form(self) -> str:
        if isinstance(self._actions, spaces.Discrete):
            names = [f"{value} = {name}" for value, name in self._names.items() if self._actions.contains(value)]
        else:
            names = list(self._names.values())
        return f"Call {TOOL} with action: {in_words(self._schema)}{' (' + ', '.join(names) + ')' if names else ''}."

    def _tool(self) -> dict[str, Any]:
        parameters = {"type": "object", "properties": {"action": self._schema}, "required": ["action"]}
        function = {"name": TOOL, "description": self._form(), "parameters": parameters}
        return {"type": "function", "function": function}

    def _rehearse(self) -> tuple[float, str]:
        """Random steps with seed 0: what an invalid call is rewarded with, and the info key that tells of success."""
        rewards: list[float] = []
        keys: set[str] = set()
        self._actions.seed(0)
        self._text(*self._contract.began(self.env.reset(seed=0)))
        for _ in range(REHEARSAL_STEPS):
            action = to_action(self._actions, to_json(self._actions, self._actions.sample()))  # typed as a call's
            _, reward, terminated, truncated, info = self._contract.stepped(self.env.step(action))
            rewards.append(self._contract.reward("step", reward))
            keys |= self._contract.info("step", info).keys()
            if terminated or truncated:
                self.env.reset()
        mean = sum(rewards) / len(rewards)
        key = next((name for name in ("is_success", "success") if name in keys), "")
        return min(0.0, mean) - INVALID_CALL_MARGIN, key


class RandomPolicy:
    """Valid calls of random actions, of legal ones where the env says which are.

    A baseline, and demonstrations of the form for a warm start.
    """

    def __init__(self, env: PlainEnv, seed: int):
        self._env = env
        self._space = copy.deepcopy(env.action_space)
        self._space.seed(seed)

    def act(self, observation: str, info: dict[str, Any]) -> str:
        """A call of a random action."""
        legal = [action for actions in self._env.legal for action in actions if self._space.contains(action)]
        chosen = legal[self._space.np_random.integers(len(legal))] if legal else self._space.sample()
        return self._env.write_action(chosen)


def _listed(legal: list[Any]) -> str:
    more = f", and {len(legal) - MAX_LEGAL} more" if len(legal) > MAX_LEGAL else ""
    return f"legal actions: {', '.join(map(to_text, legal[:MAX_LEGAL])) or 'none'}{more}"


def _picture(drawn: str) -> str:
    """A picture for terminals as text: ``[S]``; where it has several colours, which tell things apart, ``blue[R]``."""
    several = len(set(_colours(drawn))) > 1

    def highlighted(found: re.Match[str]) -> str:
        return f"{'+'.join(_colours(found[1])) if several else ''}[{found[2]}]"

    return _ESCAPE.sub("", _HIGHLIGHT.sub(highlighted, drawn)).replace("\r", "").strip("\n")


def _colours(text: str) -> list[str]:
    """The colours that the escape sequences in a text name."""
    return [_COLOURS[int(digit)] for digit in _CODE.findall(" ".join(_ESCAPE.findall(text)))]


class _WrongCall(ValueError):
    """A turn that calls nothing, or a tool that does not exist."""

    def __init__(self, code: ErrorCode, why: str):
        super().__init__(why)
        self.code = code
