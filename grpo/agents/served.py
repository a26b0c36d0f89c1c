"""A policy that ``policy:`` names, served by vLLM: it plays alone, or as the model of an agent of the user's.

policy:runs/first        the newest checkpoint of a run
policy:runs/first@7      the one after step 7; @best the one with the best held-out score
policy:ADAPTER_FOLDER    any PEFT adapter of the recipe's model; a checkpoint of a run has the run's settings
policy:base              the recipe's model without an adapter
"""

import asyncio
import hashlib
import os
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from grpo.agents.playing import PolicyAgents
from grpo.chat import Chat, chat_for, load_tokenizer
from grpo.config import TrainConfig, load_config
from grpo.episodes.play import Play
from grpo.episodes.player import Agent
from grpo.errors import EvaluationError
from grpo.machine.adapters import check_adapter_of
from grpo.machine.models import resolve_model
from grpo.machine.user_code import import_user_module
from grpo.runs.trained_policy import TrainedPolicy, find_policy
from grpo.serving.fleet import Fleet
from grpo.serving.sampler import VllmSampler
from grpo.serving.vllm import VllmServer, built_for, make_servers
from judges.common.files import scratch_folder

BASE = "base"


class ServedPolicy(Agent):
    """A policy on the servers of its config, or on one of its own that lives as long as the agent is open.

    It plays alone, or as the model of an agent of the user's.

    Args:
        target: What follows ``policy:``.
        config: The run's config, or that of a recipe; see ``policy_config``.
        temperature: 0 is greedy.
        say: Called with a line for people while the server starts.
        spec: The user's agent, if one plays (`PolicyAgents`).
        python: The interpreter that calls it.

    Raises:
        ConfigError: See ``policy_named``.
        CheckpointError: See there.
        EvaluationError: The adapter cannot be copied.

    Attributes:
        fingerprint: Name and checksum of the adapter that is played, as ``target`` meant it when the agent was made;
            None of the base model.
    """

    def __init__(
        self,
        target: str,
        config: TrainConfig,
        temperature: float,
        say: Any = lambda line: None,
        spec: str | None = None,
        python: str | None = None,
    ):
        self.config = config
        self.temperature = temperature
        self._agents = PolicyAgents(config.rollout, spec, python)
        self.env_thread, self.may_crash = self._agents.env_thread, spec is not None
        self._say = say
        self._open = AsyncExitStack()
        self._scratch = self._open.enter_context(scratch_folder("grpo-eval"))
        self._adapter = self._scratch / "adapter"
        if policy := policy_named(target, config.model):  # at once: a run that goes on prunes its checkpoints
            _copy(policy.adapter, self._adapter)
            self.fingerprint = _fingerprint(policy.adapter.name, self._adapter)
        self._agent: Agent | None = None

    async def __aenter__(self) -> Self:
        try:
            sampler, chat = await asyncio.to_thread(self._start)
            sampled = sampler.base_model() if self.fingerprint is None else sampler.policy(0)
            policy = await self._open.enter_async_context(sampled)
            self._agent = self._agents.agent(policy, chat, self.temperature)
            self._open.push_async_callback(self._agents.close)
            await self._agents.open()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    def _start(self) -> tuple[VllmSampler, Chat]:
        model = resolve_model(self.config.model)
        if self.fingerprint is not None:
            check_adapter_of(self._adapter, model.path)
        log = self._scratch / "server.log"
        servers = self._servers = Fleet(make_servers(self.config, model.path, log, learners=0))
        self._open.push_async_callback(asyncio.to_thread, servers.stop)
        servers.start()
        if isinstance(first := servers.servers[0], VllmServer):
            self._say(f"vLLM is starting, computing in {first.options.dtype}")
        rollout = self.config.rollout
        chat = chat_for(load_tokenizer(model.path), rollout.history, rollout.chat_template_kwargs)
        servers.wait_ready(self._say)
        sampler = VllmSampler(servers, self._scratch / "adapters", chat.stop_token_ids, rollout.concurrency)
        if self.fingerprint is not None:
            sampler.publish(lambda folder: os.rename(self._adapter, folder), 0)
        return sampler, chat

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def run(self, play: Play) -> None:
        """Play an episode to its end."""
        assert self._agent is not None, "the agent is open"
        await self._agent.run(play)


def policy_config(
    target: str, recipe: str | None, env: str, env_kwargs: dict[str, Any], dtype: str | None = None
) -> TrainConfig:
    """The config that a policy was trained with, or the recipe's; the env's arguments with the run's own below.

    Args:
        target: What ``policy:`` names.
        recipe: For policies that bring no settings.
        env: The env's id.
        env_kwargs: Its arguments.
        dtype: To serve it in; None leaves it to the run, as long as it is served on the kind of device it trained on.

    Raises:
        EvaluationError: The policy's servers have a dtype of their own.
        ConfigError: See ``policy_named``.
        CheckpointError: See there.
    """
    config = load_config(recipe, {"env": env, "env_kwargs": env_kwargs})
    policy = policy_named(target, config.model)
    if policy is not None and (saved := policy.config) is not None:
        config = saved.model_copy(update={"env": env, "env_kwargs": {**saved.env_kwargs, **env_kwargs}})
    device = built_for()
    if device is not None and device != config.device and not config.server.urls:  # served where one can be
        config = config.model_copy(update={"device": device, "dtype": "auto"})
    if dtype is not None:
        if config.server.urls:
            raise EvaluationError(
                f"--dtype {dtype}: the policy is sampled by {', '.join(config.server.urls)}, which was started with a "
                "dtype of its own; leave --dtype out"
            )
        config = config.model_copy(update={"dtype": dtype})
    if config.env_import is not None:
        import_user_module(config.env_import)
    return config


def policy_named(target: str, model: str) -> TrainedPolicy | None:
    """The policy that ``target`` names; None for the base model.

    Args:
        target: What follows ``policy:``.
        model: The base of an adapter that brings no settings.

    Raises:
        ConfigError: There is no such run or adapter, or it is broken.
        CheckpointError: The run has no such checkpoint.
    """
    if target == BASE:
        return None
    folder, found, which = target.rpartition("@")
    if found and (which.isdigit() or which == "best"):
        return find_policy(Path(folder), which, model)
    return find_policy(Path(target), model=model)


def _copy(adapter: Path, folder: Path) -> None:
    """The adapter without what only its training needs, which is most of a checkpoint."""
    try:
        shutil.copytree(adapter, folder, ignore=shutil.ignore_patterns("*.pt"))
    except OSError as error:
        raise EvaluationError(f"the adapter {adapter} cannot be copied to {folder}: {error}") from error


def _fingerprint(name: str, copy: Path) -> str:
    """Name of an adapter and checksum of the weights in a copy: a run's newest checkpoint is another one later."""
    with (copy / "adapter_model.safetensors").open("rb") as file:
        return f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
