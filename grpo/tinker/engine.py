"""The engine over a server that speaks the Tinker API (experimental): the server has the model and its adapter.

A call asks the server for log-probabilities and computes the loss and its coefficients here (`rows`). The
gradient is asked for in ``optim_step``: on a server that takes the mean over an update's rows, what a row weighs is
known only then.
"""

import io
import json
import math
import secrets
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from safetensors import SafetensorError
from safetensors.torch import load

from grpo.devices.shape import LINEAR_LAYERS
from grpo.errors import CheckpointError, ConfigError, ServerError
from grpo.learner.engine import LossSpec, RowStatistics, ignore_progress
from grpo.learner.lora_model import LoraSpec
from grpo.learner.segments import Segment
from grpo.tinker.connection import ADAPTER_FILE, TinkerService
from grpo.tinker.probe import adam, gradient_norm, probe
from grpo.tinker.rows import LOSS, WeighedRow, action_logprobs, data_of, datum, weigh
from judges.common.files import write_json

_DOWNLOAD_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Saved:
    """The policy as the server keeps it, and its adapter's two files.

    Attributes:
        state: Tinker path that training goes on from.
        sampler: Tinker path that is sampled.
        config: What ``adapter_config.json`` holds.
        weights: The bytes of ``adapter_model.safetensors``.
    """

    state: str
    sampler: str
    config: dict[str, Any]
    weights: bytes


class TinkerEngine:
    """One LoRA policy on a server; AdamW with the local engine's settings."""

    def __init__(
        self, service: TinkerService, lora: LoraSpec, seed: int, model_path: Path, init_adapter: Path | None = None
    ):
        """Probe the server and begin a new adapter.

        Args:
            service: The server.
            lora: Of the adapter.
            seed: Of its weights.
            model_path: Folder of the model here, noted beside the adapter.
            init_adapter: One of the server's to go on from.

        Raises:
            ConfigError: The server ignores a setting, or is another one than the adapter's.
            ServerError: The server does not answer as it should.
        """
        init_state = None if init_adapter is None else _state_of(init_adapter)
        self._service, self._lora, self._model_path = service, lora, model_path
        self._waiting: list[WeighedRow] = []
        self._saved: Saved | None = None
        self._training: Any = self._new_adapter(seed)
        try:
            self._check_adapter(self._save())
            probe(service, self._training)
        except BaseException:
            service.unload(self._training)
            raise
        if init_state is None:
            self._replace(lambda: self._new_adapter(seed))
        else:
            self._replace(lambda: service.client.create_training_client_from_state(init_state))

    def forward_backward(
        self, rows: Sequence[Segment], loss: LossSpec, on_rows: Callable[[int], None] = ignore_progress
    ) -> list[RowStatistics]:
        """See ``Engine``; entropies are empty, because no server tells them."""
        assert (loss.kl_coef, loss.temperature) == (0.0, 1.0), "the API knows no others; `Tinker` has refused them"
        if not rows:
            return []
        statistics, weighed = weigh(rows, self.logprobs(rows), loss)
        self._waiting += weighed
        on_rows(len(rows))
        return statistics

    def logprobs(self, rows: Sequence[Segment]) -> list[list[float]]:
        """See ``Engine``."""
        if not rows:
            return []
        with self._service.errors("compute log-probabilities"):
            output = self._training.forward([datum(row) for row in rows], "cross_entropy").result()
        return action_logprobs(rows, output)

    def optim_step(self, learning_rate: float, max_grad_norm: float) -> float:
        """See ``Engine``; ``max_grad_norm`` must be infinite."""
        assert max_grad_norm == math.inf, "a server may clip no gradients; `Tinker` has refused another bound"
        rows, self._waiting = self._waiting, []
        self._saved = None
        with self._service.errors("take a step"):
            if rows:
                self._training.forward_backward(data_of(rows), LOSS).result()
            return gradient_norm(self._training.optim_step(adam(learning_rate)).result())

    def reset_optimizer(self) -> None:
        """See ``Engine``: a new model on the server goes on with the weights alone."""
        state = self._save().state
        self._replace(lambda: self._service.client.create_training_client_from_state(state))

    def save_adapter(self, folder: Path) -> None:
        """Write the adapter in PEFT's format, and ``tinker.json``, which says where the server has it."""
        saved = self._save()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "adapter_model.safetensors").write_bytes(saved.weights)
        write_json(folder / "adapter_config.json", saved.config)
        write_json(folder / ADAPTER_FILE, {"url": self._service.url, "state": saved.state, "sampler": saved.sampler})

    def state(self) -> dict[str, bytes]:
        """See ``Engine``: nothing. The moments stay on the server, which must keep its checkpoints."""
        return {}

    def load_state(self, folder: Path) -> None:
        """Continue from what ``save_adapter`` wrote.

        Raises:
            CheckpointError: It is of another engine, or the server does not have it any more.
        """
        try:
            state = _state_of(folder)
        except ConfigError as error:
            raise CheckpointError(str(error)) from error
        try:
            self._replace(lambda: self._service.client.create_training_client_from_state_with_optimizer(state))
        except ServerError as error:
            raise CheckpointError(f"{folder} cannot be gone on from: {error}") from error

    def _new_adapter(self, seed: int) -> Any:
        with self._service.errors(f"make an adapter of rank {self._lora.rank}"):
            return self._service.client.create_lora_training_client(
                base_model=self._service.base_model, rank=self._lora.rank, seed=seed % 2**31, train_unembed=False
            )

    def _replace(self, make: Callable[[], Any]) -> None:
        """Go on with another model of the server; the one before is unloaded."""
        with self._service.errors("load a state"):
            training, before = make(), self._training
        self._training, self._saved, self._waiting = training, None, []
        self._service.unload(before)

    def _save(self) -> Saved:
        """The policy as it is; the server saves the same weights once."""
        if self._saved is None:
            with self._service.errors("save the policy"):
                name = f"grpo-{secrets.token_hex(6)}"  # the server takes each once
                state = self._training.save_state(name).result().path
                sampler = self._training.save_weights_for_sampler(name).result().path
                config, weights = self._download(sampler)
            self._saved = Saved(state, sampler, config, weights)
        return self._saved

    def _download(self, path: str) -> tuple[dict[str, Any], bytes]:
        """The adapter at a Tinker path: its config, whole, and the bytes of its weights."""
        run, _, name = path.removeprefix("tinker://").partition("/")
        url = self._service.client.create_rest_client().get_checkpoint_archive_url(run, name).result().url
        response = httpx.get(url, timeout=_DOWNLOAD_TIMEOUT_SECONDS, follow_redirects=True).raise_for_status()
        try:
            with tarfile.open(fileobj=io.BytesIO(response.content)) as archive:
                members = {Path(member.name).name: archive.extractfile(member) for member in archive}
                files = {name: file.read() for name, file in members.items() if file is not None}
                config: dict[str, Any] = json.loads(files["adapter_config.json"])
                weights = files["adapter_model.safetensors"]
            layers = {name.rpartition(".lora_")[0].rpartition(".")[2] for name in load(weights)}
        except (tarfile.TarError, KeyError, ValueError, SafetensorError) as error:
            raise ServerError(
                f"the Tinker server at {self._service.url} gave no adapter for {path} ({type(error).__name__}: {error})"
            ) from error
        # SkyRL names no layers, and peft then adapts two of seven without a word.
        own = {"target_modules": sorted(layers), "base_model_name_or_path": str(self._model_path)}
        return config | own | {"task_type": "CAUSAL_LM", "lora_alpha": int(config["lora_alpha"])}, weights

    def _check_adapter(self, saved: Saved) -> None:
        """The server's adapter is the one that the settings ask for."""
        rank, alpha = saved.config["r"], saved.config["lora_alpha"]
        if (rank, alpha) != (self._lora.rank, self._lora.alpha):
            raise ConfigError(
                f"the adapters of the Tinker server at {self._service.url} have rank {rank} and alpha {alpha}, this "
                f"run {self._lora.rank} and {self._lora.alpha}; add --set lora.rank={rank} --set lora.alpha={alpha}"
            )
        if set(saved.config["target_modules"]) != set(LINEAR_LAYERS):
            raise ConfigError(
                f"the Tinker server at {self._service.url} adapts the layers "
                f"{', '.join(saved.config['target_modules'])}, and not {', '.join(LINEAR_LAYERS)}"
            )


def _state_of(folder: Path) -> str:
    """Where a server has the state of an adapter.

    Raises:
        ConfigError: The adapter is of no Tinker server.
    """
    path = folder / ADAPTER_FILE
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["state"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{folder} is not of a Tinker server ({path.name}: {type(error).__name__}); a server takes no adapter from "
            "here, so begin one with --engine tinker, or go on with the engine that wrote this one"
        ) from error
