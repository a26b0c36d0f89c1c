"""Checks of what a run needs, each with what was found or why it fails and what to do.

Most are functions that a run calls at its start, and this is the table in front of them: a reason and its remedy are
said in one place. ``model_checks`` has those that load the model and start vLLM. A check returns what it found, or
raises; whatever it raises is its failure, so one broken part does not hide the others.
"""

import asyncio
import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from grpo.config import RULER_REWARDS, TrainConfig
from grpo.devices.families import check_family, family_of
from grpo.devices.plan import plan_gpus
from grpo.devices.shape import shape_at_hand
from grpo.envs.message_env import MessageEnv
from grpo.envs.registry import with_split
from grpo.episodes.judges import check_judges
from grpo.errors import ConfigError, EnvError, GrpoError, describe
from grpo.machine.hardware import available_gib, cpu_count, hub_reachable, memory_gib, nvidia_smi, visible_gpus
from grpo.machine.installed import (
    LEARNER,
    c_compiler,
    how_to_install,
    python_header,
    require,
    require_linux,
    version_of,
)
from grpo.machine.models import EMBEDDED_MODEL, config_at_hand, default_cache_dir
from grpo.machine.processes import child_environment
from grpo.types import Task
from judges.common.files import read_json

PACKAGES = (*LEARNER, "vllm")
MAX_TURNS = 1000
_ASK_TORCH = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
_TIMEOUT_SECONDS = 120


class Unneeded(GrpoError):
    """A check that is not needed here, or that another one stands in the way of; skipped."""


@dataclass(frozen=True, slots=True)
class Result:
    """One check's outcome."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    found: str


Check = tuple[str, Callable[[], str]]
"""A name and what finds out; it returns what it found, or raises."""


def examine(checks: Iterable[Check]) -> Iterator[Result]:
    """Run checks one after another; none stops the others."""
    for name, check in checks:
        try:
            yield Result(name, "ok", check())
        except Unneeded as reason:
            yield Result(name, "skipped", str(reason))
        except ModuleNotFoundError as error:
            yield Result(name, "failed", how_to_install(error) or describe(error))
        except (Exception, SystemExit) as error:  # the one boundary: a check looks at parts that may fail in any way
            yield Result(name, "failed", describe(error))


def quick_checks(config: TrainConfig, run_dir: Path, disk_gib: float, *, training_meant: bool) -> list[Check]:
    """The checks that take seconds: no model is loaded and no server started.

    Args:
        config: Settings of the run.
        run_dir: Where runs are to be kept.
        disk_gib: Free disk space that there must be.
        training_meant: A recipe, a model or a device was named, so packages of the training must be there.
    """
    on_gpus, has_env = config.device == "cuda", bool(config.env)
    is_judged = config.reward in RULER_REWARDS or config.answer_judge.model is not None
    table: list[tuple[bool, str, Callable[[], str]]] = [
        (True, "hardware", check_hardware),
        (on_gpus, "GPU memory", lambda: check_gpu_memory(config)),
        (True, "versions", lambda: check_versions(config, training_meant=training_meant)),
        (training_meant, "model family", lambda: check_model_family(config)),
        (True, "model hub", lambda: check_hub(config.model)),
        (True, "disk", lambda: check_disk(run_dir, disk_gib)),
        (on_gpus, "CUDA driver", check_cuda),
        (on_gpus, "C compiler", check_compiler),
        (has_env, "env", lambda: check_env(config)),
        (has_env, "env's data", lambda: check_data(config)),
        (is_judged, "judges", lambda: "; ".join(check_judges(config))),
        (config.agent is not None, "agent", lambda: _check_agent(config)),
    ]
    return [(name, check) for is_needed, name, check in table if is_needed]


def _check_agent(config: TrainConfig) -> str:
    from grpo.doctor.agent_check import check_agent  # transformers is loaded there

    return check_agent(config)


def check_model_family(config: TrainConfig) -> str:
    """The row of the model in the table of docs/models.md.

    Raises:
        ModelError: Its family is refused, or nobody tested it.
    """
    path = config_at_hand(config.model)
    if path is None:
        raise Unneeded(f"needs the config.json of {config.model}, which is not here yet")
    about = read_json(path)
    check_family(about, config.untested_model)
    family = family_of(about)
    return "untested" if family is None else f"{family.name}: {family.verdict}; calls: {family.calls}"


def check_hardware() -> str:
    """Cores, memory, GPUs."""
    gpus = ", ".join(f"{gpu.name} ({gpu.memory_gib:.0f} GiB)" for gpu in visible_gpus()) or "no GPU"
    available = available_gib()
    free = "" if available is None else f" ({available:.0f} free)"
    return f"{cpu_count()} cores, {memory_gib():.0f} GiB of memory{free}, {gpus}"


def check_gpu_memory(config: TrainConfig) -> str:
    """Learner and vLLM fit on the GPUs, as a run plans them."""
    shape = shape_at_hand(config.model)
    if shape is None:
        raise Unneeded(f"needs the config.json of {config.model}, which is not here yet")
    return "; ".join(plan_gpus(config, shape).lines())


def check_versions(config: TrainConfig, *, training_meant: bool) -> str:
    """The packages that a run needs, and what vLLM needs of the system.

    Where one of them is missing this is an install for evaluation and judging, which need none: unless training is
    meant, that is no failure. Another package may have brought torch.
    """
    if not training_meant and not all(map(importlib.util.find_spec, PACKAGES)):
        raise Unneeded("training and serving are not installed here, evaluation and judging are (docs/install.md)")
    require_linux("training")
    require(*PACKAGES)
    if config.device == "cpu" and (lacking := [name for name, is_here in _system_parts() if not is_here]):
        raise ConfigError(
            f"vLLM on the CPU needs {' and '.join(lacking)}, not found here; on Debian and Ubuntu: sudo apt install "
            "libnuma1 util-linux"
        )
    python = ".".join(map(str, sys.version_info[:3]))
    return ", ".join([f"Python {python}", *(f"{name} {version_of(name) or '(unknown)'}" for name in PACKAGES)])


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
    raise ConfigError(
        f"the hub is out of reach, and {model} is not in the cache; connect, set HF_ENDPOINT to a hub in reach (and "
        f"HF_HUB_OFFLINE to 0), or use --model {EMBEDDED_MODEL}"
    )


def check_disk(run_dir: Path, needed_gib: float) -> str:
    """Room where the run and the converted model are kept, and the right to write there."""
    found: list[str] = []
    for folder in (run_dir, default_cache_dir()):
        place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        free_gib = shutil.disk_usage(place).free / 1024**3
        if free_gib < needed_gib or not os.access(place, os.W_OK):
            raise ConfigError(
                f"{place} cannot be written to, or has no room ({free_gib:.1f} GiB free, {needed_gib:g} needed); "
                "free some, or choose another --run-dir or GRPO_CACHE"
            )
        found.append(f"{free_gib:.0f} GiB free at {place}")
    return ", ".join(dict.fromkeys(found))


def check_cuda() -> str:
    """torch sees a GPU; asked in a process of its own, so that none of this one's memory is on a card."""
    command = [sys.executable, "-c", _ASK_TORCH]
    try:
        done = subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
        )
        version, cuda, sees = done.stdout.split()[-3:]
    except subprocess.SubprocessError as error:
        last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        raise ConfigError(f"torch could not be asked ({last}); install it anew, with the extra 'gpu'") from error
    driver = next(iter(nvidia_smi("driver_version").split()), "unknown")
    found = f"torch {version} (CUDA {cuda}), driver {driver}"
    if cuda == "None":
        raise ConfigError(
            f"{found}: torch was built without CUDA, but the run asks for it; use an environment of its own with the "
            "extra 'gpu' (scripts/quickstart makes .venv-gpu)"
        )
    if sees != "True":
        said = done.stderr.strip().splitlines()
        raise ConfigError(
            f"{found}: torch sees no GPU"
            + (f" ({said[-1].strip()})" if said else "")
            + f"; update the driver to one for CUDA {cuda} (CUDA 13 needs 580 or newer, CUDA 12 525), or look at "
            "CUDA_VISIBLE_DEVICES"
        )
    return found


def check_compiler() -> str:
    """A C compiler and Python's headers: vLLM's kernels for GPUs compile a little C when they first run (Triton)."""
    headers, compiler = python_header(), c_compiler()
    missing = [] if compiler else ["a C compiler"]
    missing += [] if headers.exists() else [f"Python's headers ({headers})"]
    if missing:
        major, minor = sys.version_info[:2]
        raise ConfigError(
            f"vLLM compiles a little C when it starts on a GPU, and {' and '.join(missing)} was not found; on Debian "
            f"and Ubuntu: sudo apt install build-essential python{major}.{minor}-dev"
        )
    return f"{compiler}, {headers}"


def check_env(config: TrainConfig) -> str:
    """The env is made, reset twice alike, played to the end of one episode, and bears what a model may write."""
    with closing(_env(config)) as env:
        ids = env.scenario_ids()
        task = env.first_task()
        tasks = [task, replace(task, seed=task.seed + 1)]
        if unequal := [t.seed for t in tasks if env.reset(t).messages != env.reset(t).messages]:
            heeded = f" (with the seed {tasks[-1].seed} they did not)" if tasks[-1].seed not in unequal else ""
            raise EnvError(
                f"two resets with the same seed ({unequal[0]}) and scenario gave different first messages{heeded}; "
                "draw everything random in reset from the seed, 0 too: the members of a group must begin equal"
            )
        turns, how = asyncio.run(_play(env, config, task))
        scenarios = f"{len(ids)} scenarios" if ids is not None else "tasks by seed"
        played = f"{config.env}: {scenarios}; an episode of {how} ended after {turns} turns"
        return ". ".join([played, *env.remarks()])


def check_data(config: TrainConfig) -> str:
    """What the env itself says of its data: its method ``integrity_problems``, if it has one.

    The env is asked, because ``grpo`` knows nothing of the env's database.
    """
    try:
        env = _env(config)
    except GrpoError as error:
        raise Unneeded("needs the check of the env") from error
    with closing(env):
        problems = env.optional("integrity_problems")
        if problems is None:
            return f"{config.env} has no data that it can check"
        if problems := list(problems):
            raise EnvError(f"{'; '.join(problems[:3])}; build the env's data again")
        return "whole"


def _env(config: TrainConfig) -> MessageEnv:
    return MessageEnv(config.env, with_split(config.env, config.env_kwargs, config.train_split))


async def _play(env: MessageEnv, config: TrainConfig, task: Task) -> tuple[int, str]:
    """Play one episode with the env's own policy where it has one, with prose where not; turns and what played.

    In a running event loop, as in training and evaluations: an env whose code is async may fail there alone.
    """
    _provoke(env, task)
    policy, how = None, "plain words"
    if config.warm_start.policy in env.scripted_names():
        policy, how = env.scripted_policy(config.warm_start.policy, config.seed), config.warm_start.policy
    observation = env.reset(task)
    for turn in range(1, MAX_TURNS):
        action = policy.act(observation.text, observation.info) if policy else "I do not know."
        observation = env.step(action)
        if observation.terminated or observation.truncated:
            return turn, how
    raise EnvError(f"an episode did not end within {MAX_TURNS} turns; give the env a limit of turns")


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
            raise EnvError(
                f"{what}: {error}; answer it with a text, an error code and a small penalty: {turn!r}"
            ) from error
