"""Checks of what a run needs, each with what was found and, where it fails, what to do about it.

``quick_checks`` look at the machine, the packages, the env and the keys; ``model_checks`` has those that load the model
and start vLLM. A check is a function that returns what it found or raises ``Trouble``; whatever else it raises is a
failure too, so one broken part does not hide the others.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from grpo.config import RULER_REWARDS, TrainConfig
from grpo.devices.plan import plan_gpus
from grpo.devices.shape import shape_at_hand
from grpo.envs.message_env import MessageEnv
from grpo.envs.registry import with_split
from grpo.errors import ConfigError, EnvError, GrpoError, ServerStartError, describe
from grpo.machine.hardware import detect, hub_reachable, visible_gpus
from grpo.machine.memory import available_gib
from grpo.machine.models import EMBEDDED_MODEL, config_at_hand, default_cache_dir
from grpo.serving.vllm import free_port
from grpo.types import Task
from judges.llm.client import load_litellm

PACKAGES = ("torch", "transformers", "peft", "safetensors", "vllm")
MIN_MEMORY_GIB = 6.0
MAX_TURNS = 1000


class Unneeded(GrpoError):
    """A check that is not needed here, or that another one stands in the way of; skipped."""


class Trouble(GrpoError):
    """A check failed: what is wrong, and how to mend it."""

    def __init__(self, found: str, fix: str):
        super().__init__(found)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Result:
    """One check's outcome; ``fix`` is empty unless it failed."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    found: str
    fix: str = ""

    def to_dict(self) -> dict[str, str]:
        """As JSON has it."""
        return asdict(self)


Check = tuple[str, Callable[[], str]]
"""A name and what finds out; it returns what it found, or raises."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What is asked of the machine besides what the run's settings say.

    ``training_meant``: a recipe, a model or a device was named, so packages of the training must be there.
    """

    run_dir: Path = Path("runs")
    port: int = 0
    disk_gib: float = 5.0
    training_meant: bool = True


def examine(checks: Iterable[Check]) -> Iterator[Result]:
    """Run checks one after another; none stops the others."""
    for name, check in checks:
        try:
            yield Result(name, "ok", check())
        except Trouble as trouble:
            yield Result(name, "failed", str(trouble), trouble.fix)
        except Unneeded as reason:
            yield Result(name, "skipped", str(reason))
        except GrpoError as error:  # our errors say what to do in their text
            yield Result(name, "failed", str(error), "as the message says")
        except (Exception, SystemExit) as error:  # the one boundary: a check looks at parts that may fail in any way
            yield Result(name, "failed", describe(error), "mend what the message names, then repeat")


def quick_checks(config: TrainConfig, needs: Needs) -> list[Check]:
    """The checks that take seconds: no model is loaded and no server started."""
    checks: list[Check] = [
        ("hardware", lambda: check_hardware(config)),
        ("versions", lambda: check_versions(config, training_meant=needs.training_meant)),
        ("model hub", lambda: check_hub(config.model)),
        ("port", lambda: check_port(needs.port)),
        ("disk", lambda: check_disk(needs.run_dir, needs.disk_gib)),
    ]
    if config.device == "cuda":
        from grpo.doctor.gpu_checks import check_compiler, check_cuda

        checks.insert(1, ("GPU memory", lambda: check_gpu_memory(config)))
        checks += [("CUDA driver", lambda: check_cuda(serves=not config.server.urls)), ("C compiler", check_compiler)]
    if config.env:
        checks += [("env", lambda: check_env(config)), ("env's data", lambda: check_data(config))]
    if config.reward in RULER_REWARDS:
        checks.append(("judge's key", lambda: check_key(config.judge.model, config.judge.api_base, "--judge-api-base")))
        if config.judge.rubric is not None:
            checks.append(("rubric", lambda: check_rubric(config)))
    if (model := config.answer_judge.model) is not None:
        of_answers = config.answer_judge.api_base, "--answer-judge-api-base"
        checks.append(("answer judge's key", lambda: check_key(model, *of_answers)))
    return checks


def check_hardware(config: TrainConfig) -> str:
    """Cores, memory, GPUs; and that the device the run asks for is there."""
    machine = detect()
    gpus = ", ".join(f"{gpu.name} ({gpu.memory_gib:.0f} GiB)" for gpu in machine.gpus) or "no GPU"
    available = available_gib()
    free = "" if available is None else f" ({available:.0f} free)"
    found = f"{machine.cpus} cores, {machine.memory_gib:.0f} GiB of memory{free}, {gpus}"
    if config.device == "cuda" and not machine.gpus:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = f" (CUDA_VISIBLE_DEVICES is {hidden!r})" if hidden is not None else " (nvidia-smi shows none)"
        raise Trouble(f"{found}{why}, but the run asks for CUDA", "install the driver, or use --cpu")
    if machine.memory_gib < MIN_MEMORY_GIB:
        raise Trouble(f"{found}: too little memory for any model", f"use a machine with {MIN_MEMORY_GIB:g} GiB or more")
    return found


def check_gpu_memory(config: TrainConfig) -> str:
    """Learner and vLLM fit on the GPUs, as computed from the model's shape."""
    if not visible_gpus():
        raise Unneeded("needs the check of the hardware")
    shape = shape_at_hand(config.model)
    if shape is None:
        raise Unneeded(f"needs the config.json of {config.model}, which is not here yet")
    try:
        return "; ".join(plan_gpus(config, shape).lines())
    except ConfigError as error:
        raise Trouble(str(error), "as the message says; grpo-train --dry-run shows the plan") from error


def check_versions(config: TrainConfig, *, training_meant: bool = True) -> str:
    """The packages that a run needs, and a torch that fits its device.

    Where none of them is installed this is an install for evaluation and judging, which need none: unless training is
    meant, that is no failure.
    """
    extra = "gpu" if config.device == "cuda" else "cpu"
    install = f"scripts/install {extra}, or let scripts/quickstart set it up"
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if len(missing) == len(PACKAGES) and not training_meant:
        raise Unneeded(f"training and serving are not installed here, evaluation and judging are; for them: {install}")
    if missing:
        raise Trouble(f"not installed: {', '.join(missing)}", install)
    if config.device == "cpu" and (lacking := [name for name, is_here in _system_parts() if not is_here]):
        raise Trouble(
            f"vLLM on the CPU needs {' and '.join(lacking)}, not found here",
            "on Debian and Ubuntu: sudo apt install libnuma1 util-linux",
        )
    versions = {name: _version(name) for name in PACKAGES}
    python = ".".join(map(str, sys.version_info[:3]))
    return ", ".join([f"Python {python}", *(f"{name} {version}" for name, version in versions.items())])


def _system_parts() -> Iterator[tuple[str, bool]]:
    """What vLLM's kernels for the CPU load, and what it asks for the cores."""
    try:
        ctypes.CDLL("libnuma.so.1")
        yield "libnuma.so.1", True
    except OSError:
        yield "libnuma.so.1", False
    yield "lscpu", shutil.which("lscpu") is not None


def check_hub(model: str) -> str:
    """The model hub answers, or the run's model needs none: it is embedded, a folder, or cached."""
    if hub_reachable():
        return "in reach"
    if model == EMBEDDED_MODEL or Path(model).expanduser().exists() or config_at_hand(model):
        return f"out of reach, and not needed for {model}"
    raise Trouble(
        f"out of reach, and {model} is not in the cache",
        f"connect, set HF_ENDPOINT to a hub in reach (and HF_HUB_OFFLINE to 0), or use --model {EMBEDDED_MODEL}",
    )


def check_port(port: int) -> str:
    """That vLLM can listen."""
    try:
        return f"{free_port('127.0.0.1', port)} is free on 127.0.0.1"
    except ServerStartError as error:
        raise Trouble(str(error), "choose another --port, or 0 for any free one") from error


def check_disk(run_dir: Path, needed_gib: float) -> str:
    """Room where the run and the converted model are kept, and the right to write there."""
    found: list[str] = []
    for folder in (run_dir, default_cache_dir()):
        place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        if not os.access(place, os.W_OK):
            raise Trouble(f"{place} cannot be written to", "choose another --run-dir, or set GRPO_CACHE")
        free_gib = shutil.disk_usage(place).free / 1024**3
        if free_gib < needed_gib:
            raise Trouble(
                f"{free_gib:.1f} GiB are free at {place}, {needed_gib:g} are needed",
                "free some, or choose another --run-dir or GRPO_CACHE",
            )
        found.append(f"{free_gib:.0f} GiB free at {place}")
    return ", ".join(dict.fromkeys(found))


def check_env(config: TrainConfig) -> str:
    """The env is made, reset twice alike, played to the end of one episode, and bears what a model may write."""
    env = _env(config)
    try:
        ids = env.scenario_ids()
        task = Task(config.seed, ids[0] if ids else None)
        if env.reset(task).messages != env.reset(task).messages:
            raise Trouble(
                "two resets with the same seed and scenario gave different first messages",
                "draw everything random in reset from the seed: the members of a group must begin equal",
            )
        turns, how = asyncio.run(_played(env, config, task))
        scenarios = f"{len(ids)} scenarios" if ids is not None else "tasks by seed"
        return f"{config.env}: {scenarios}; an episode of {how} ended after {turns} turns"
    finally:
        env.close()


def check_data(config: TrainConfig) -> str:
    """What the env itself says of its data: its method ``integrity_problems``, if it has one.

    The env is asked, because ``grpo`` knows nothing of the env's database.
    """
    try:
        env = _env(config)
    except GrpoError as error:
        raise Unneeded("needs the check of the env") from error
    try:
        problems = env.told("integrity_problems")
        if problems is None:
            return f"{config.env} has no data that it can check"
        if problems := list(problems):
            raise Trouble("; ".join(problems[:3]), "build the env's data again")
        return "whole"
    finally:
        env.close()


def check_key(model: str, api_base: str | None, option: str) -> str:
    """The judge's API key is in the environment. Its value is never shown; ``option`` is what sets ``api_base``."""
    if api_base:
        return f"not needed: {model} is asked at {api_base}"
    if importlib.util.find_spec("litellm") is None:
        raise Trouble("litellm is not installed", "pip install 'email-rl[judge]'")
    litellm = load_litellm()
    try:
        provider = litellm.get_llm_provider(model)[1]
    except litellm.BadRequestError as error:  # of such a name it would say that no key is missing
        raise Trouble(
            f"litellm knows no provider for the judge {model!r}",
            f"name it with its provider, for example openai/{model}, or name a server of your own with {option}",
        ) from error
    if provider in ("ollama", "ollama_chat"):  # litellm calls OLLAMA_API_BASE a missing key, and then does without
        return f"not needed: {model} is asked at {os.environ.get('OLLAMA_API_BASE') or 'http://localhost:11434'}"
    missing = litellm.validate_environment(model)["missing_keys"]
    if missing:
        raise Trouble(
            f"{model} needs {', '.join(missing)}, not set here",
            f"export {missing[0]}=..., or name a server of your own with {option}",
        )
    return f"the key of {model} is set"


def check_rubric(config: TrainConfig) -> str:
    """The file of RULER's rubric can be read, and says something."""
    return f"{config.judge.rubric}: {len(config.rubric() or ''):,} characters"


def _env(config: TrainConfig) -> MessageEnv:
    return MessageEnv(config.env, with_split(config.env, config.env_kwargs, config.train_split))


async def _played(env: MessageEnv, config: TrainConfig, task: Task) -> tuple[int, str]:
    """Play in a running event loop, as training and evaluations do: an env whose code is async may fail there alone."""
    _provoke(env, task)
    return _play(env, config, task)


def _play(env: MessageEnv, config: TrainConfig, task: Task) -> tuple[int, str]:
    """Play one episode with the env's own policy where it has one, with prose where not; turns and what played."""
    policy, how = None, "plain words"
    if config.warm_start.policy in env.scripted_names():
        policy, how = env.scripted_policy(config.warm_start.policy, config.seed), config.warm_start.policy
    observation = env.reset(task)
    for turn in range(1, MAX_TURNS):
        action = policy.act(observation.text, observation.info) if policy else "I do not know."
        observation = env.step(action)
        if observation.terminated or observation.truncated:
            return turn, how
    raise Trouble(f"an episode did not end within {MAX_TURNS} turns", "give the env a limit of turns")


def _provoke(env: MessageEnv, task: Task) -> None:
    """Hand the env what models write when they err, each as the first turn of an episode."""
    tools = env.reset(task).tools
    name = tools[0]["function"]["name"] if tools else "look"
    call = {"name": name, "arguments": {"no_such_argument": 1}}
    openai = {"id": "call_0", "type": "function", "function": {**call, "arguments": "{}"}}
    turns = {
        "prose": "I do not know.",
        "an empty turn": "",
        "a call that is no JSON": '<tool_call>{"name": ',
        "a call of a tool that does not exist": '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>',
        "a call with a wrong argument": f"<tool_call>{json.dumps(call)}</tool_call>",
        "a call without its arguments": json.dumps({"name": name}),
        "a call in OpenAI's form": json.dumps({"role": "assistant", "content": None, "tool_calls": [openai]}),
    }
    for what, turn in turns.items():
        env.reset(task)
        try:
            env.step(turn)
        except EnvError as error:
            if " failed at step: " not in str(error):
                raise
            fix = f"answer {what} with a text, an error code and a small penalty: {turn!r}"
            raise Trouble(f"{what}: {error}", fix) from error


def _version(name: str) -> str:
    for distribution in (name, f"{name}-cpu"):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"
