"""SkyRL's server of the Tinker API, with its jax backend on the CPU, in an environment of its own (scripts/test_tinker)."""

import json
import os
import shutil
import signal
import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path

import httpx

from tests.support.wait import wait_until

SERVER_PYTHON = "TINKER_SERVER_PYTHON"
"""Variable with the Python (3.12) of an environment that has SkyRL."""
START_SECONDS = 900.0


def why_not() -> str:
    """Why no server can be started here; "" if one can."""
    if find_spec("tinker") is None:
        return "the client is not installed (the extra 'tinker'); scripts/test_tinker installs it and a server"
    if not os.environ.get(SERVER_PYTHON):
        return f"{SERVER_PYTHON} names no environment with SkyRL; scripts/test_tinker makes one"
    return ""


class TinkerServerProcess:
    """A server of one model, for the length of a ``with`` block."""

    def __init__(self, model: Path, folder: Path):
        self.model = model
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "TinkerServerProcess":
        python, uv = os.environ[SERVER_PYTHON], shutil.which("uv")
        assert uv is not None, "SkyRL starts under uv run"
        # Every number of rows is a program of its own to compile, so rows are computed one by one.
        backend = {"max_lora_adapters": 6, "max_lora_rank": 8, "train_micro_batch_size": 1}
        command = [
            *(uv, "run", "--no-project", "--python", python, "-m", "skyrl.tinker.api"),
            *("--base-model", str(self.model), "--backend", "jax"),
            *("--backend-config", json.dumps(backend | {"sample_max_num_sequences": 8})),
            *("--checkpoints-base", str(self.folder / "checkpoints")),
            *("--database-url", f"sqlite:///{self.folder / 'tinker.db'}"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
        ]
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment |= {"HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        environment |= {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"}
        self.log = self.folder / "server.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        try:
            wait_until(self._answers, seconds=START_SECONDS, every=0.2, process=self.process, told=self.log.read_text)
        except AssertionError:
            self.__exit__()
            raise
        return self

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/api/v1/healthz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
