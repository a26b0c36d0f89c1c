"""vLLM's life: how it starts, what is said when it fails, and that it ends with the process that owns it."""

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from grpo.config import load_config
from grpo.errors import ConfigError, ServerDiedError, ServerError, ServerStartError
from grpo.machine.processes import KEPT_MEMORY
from grpo.serving import vllm
from grpo.serving.server import KEY_VARIABLE, ExternalServer, models_of
from grpo.serving.vllm import VllmServer, make_servers
from grpo.serving.vllm_options import ServerOptions
from grpo.settings import ServerSettings
from judges.common.files import scratch_folder
from tests.support.http_stub import HttpStub, Request, Response
from tests.support.sessions import processes_in
from tests.support.wait import wait_until

OWNER = """
import os, sys, time
from pathlib import Path
from grpo.serving.vllm import VllmServer
from grpo.serving.vllm_options import ServerOptions
server = VllmServer(Path(sys.argv[1]), Path(sys.argv[2]), ServerOptions(max_model_len=256, kv_cache_gib=0.25))
server.start()
server.wait_ready()
if "fork" in sys.argv and os.fork() == 0:
    time.sleep(600)
print("server", server._process.pid, flush=True)
time.sleep(600)
"""


def test_a_server_answers_reports_progress_and_leaves_nothing(
    model: Path, fake_vllm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FAKE_VLLM_MODE", "slow")
    monkeypatch.setenv("FAKE_VLLM_READY", str(tmp_path / "ready"))
    monkeypatch.setattr(vllm, "SILENT_SECONDS", 0.4)
    heard: list[str] = []

    def hear(line: str) -> None:
        heard.append(line)
        if len(heard) == 2:
            (tmp_path / "ready").touch()

    server = VllmServer(model, tmp_path / "run" / "server.log")
    server.start()
    assert server._process is not None
    session = server._process.pid
    seconds = server.wait_ready(hear)
    assert models_of(server) == {server.model: None}
    assert httpx.get(f"{server.url}/v1/models", trust_env=False).status_code == 401, "it has a key of its own"
    assert server.key not in Path(f"/proc/{session}/cmdline").read_text()
    assert server.url.startswith("http://127.0.0.1:")
    assert 2 <= len(heard) <= seconds / 0.4
    assert re.fullmatch(r"still starting: engine.* \(\d+ s\)", heard[-1]), "the log's last line"
    assert len(processes_in(session)) >= 2  # API server, engine
    assert (opened := socket_of_engine(server.log_path)).is_socket()
    server.stop()
    wait_until(lambda: not processes_in(session), told=lambda: processes_in(session))
    assert not opened.parent.exists()
    server.stop()
    assert not server.is_alive()
    assert "Resolved architecture" in server.log_path.read_text()


def test_the_engine_computes_on_the_servers_cores_and_its_other_processes_run_anywhere(
    model: Path, fake_vllm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("OMP_PLACES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    cores = sorted(os.sched_getaffinity(0))
    on_all = f"{len(cores)} {{{','.join(map(str, cores))}}}"
    with_one = "1 None" if len(cores) > 1 else on_all  # no core is named: which of them are idle only the system knows
    for threads, said in ((len(cores), on_all), (1, with_one)):
        with VllmServer(model, tmp_path / f"{threads}.log", ServerOptions(threads=threads)) as server:
            wait_until(lambda server=server: "engine's cores" in server.log_path.read_text())
        log = server.log_path.read_text()
        assert f"engine's cores {said}\n" in log
        assert re.search(r"^engine \d+ of None$", log, re.MULTILINE)


def test_a_server_that_dies_at_its_start_says_why(
    model: Path, fake_vllm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FAKE_VLLM_MODE", "die")
    with pytest.raises(ServerStartError) as caught, VllmServer(model, tmp_path / "server.log"):
        pass
    message = str(caught.value)
    assert "before it was ready (exit status 3): ValueError: the weights are 7 bytes long" in message
    assert str(tmp_path / "server.log") in message
    assert "Resolved architecture: Fake" in message


def test_a_server_that_is_never_ready_is_stopped(
    model: Path, fake_vllm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FAKE_VLLM_MODE", "never")
    server = VllmServer(model, tmp_path / "server.log", start_timeout_seconds=1.0)
    server.start()
    with pytest.raises(ServerStartError, match=r"was not ready after \d+ s"):
        server.wait_ready()
    assert not server.is_alive()


def test_what_cannot_work_is_refused_before_anything_starts(model: Path, tmp_path: Path):
    log = tmp_path / "server.log"
    with pytest.raises(ConfigError, match=r"max_model_len is 8192 tokens, but .* was made for 4096"):
        VllmServer(model, log, ServerOptions(max_model_len=8192)).start()
    with pytest.raises(ServerError, match="was not started"):
        VllmServer(model, log).wait_ready()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ServerStartError, match=f"cannot listen on 127.0.0.1 port {port}"):
            VllmServer(model, log, ServerOptions(port=port)).start()
    assert not log.exists()


def test_a_server_is_restarted_once_on_its_port(model: Path, fake_vllm: str, tmp_path: Path):
    with VllmServer(model, tmp_path / "server.log") as server:
        with pytest.raises(ServerError, match="started already"):
            server.start()
        assert server.recover() is False
        url = server.url
        kill_api_server(server)
        assert server.recover() is True
        assert server.url == url
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        kill_api_server(server)
        with pytest.raises(ServerDiedError, match="again after a restart"):
            server.recover()


def kill_api_server(server: VllmServer) -> None:
    assert server._process is not None
    server._process.kill()
    server._process.wait(120)


@pytest.mark.parametrize("victims", ["owner", "server", "owner and server", "owner that forked"])
def test_no_process_outlives_its_owner_however_it_ends(model: Path, fake_vllm: str, tmp_path: Path, victims: str):
    extra = ["fork"] if "forked" in victims else []
    owner, server = start_owner(model, tmp_path, extra)
    try:
        # owner, API server, its resource tracker, engine
        assert len(processes_in(owner.pid, server)) >= 4
        if "owner" in victims:
            owner.kill()
            owner.wait()
        if "server" in victims:
            os.kill(server, signal.SIGKILL)
        expected = 1 if "owner" not in victims or extra else 0  # the owner itself, or the child that it forked
        wait_until(lambda: len(processes_in(owner.pid, server)) <= expected, every=0.1)
        assert len(processes_in(owner.pid, server)) == expected
        if "server" not in victims:  # else it is left, until the next server here or in another test
            assert not socket_of_engine(tmp_path / "owner.log").parent.exists(), "the server removes it"
        with scratch_folder("grpo-vllm"):
            assert not socket_of_engine(tmp_path / "owner.log").parent.exists(), "the next server removes it"
        wait_until(lambda: not semaphore_of_engine(tmp_path / "owner.log").exists())
    finally:
        for process in processes_in(owner.pid, server):
            os.kill(process, signal.SIGKILL)
        owner.wait()


def socket_of_engine(log: Path) -> Path:
    """The socket that the stand-in says it has opened."""
    found = re.search(r"^socket (.+)$", log.read_text(), re.MULTILINE)
    assert found
    return Path(found[1])


def semaphore_of_engine(log: Path) -> Path:
    """The semaphore that the stand-in says it has made."""
    found = re.search(r"^semaphore /(.+)$", log.read_text(), re.MULTILINE)
    assert found
    return Path("/dev/shm") / f"sem.{found[1]}"


def test_a_server_that_does_not_end_when_it_is_asked_to_leaves_nothing_either(
    model: Path, fake_vllm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FAKE_VLLM_MODE", "stubborn")
    monkeypatch.setattr(vllm, "GRACE_SECONDS", 0.5)
    with VllmServer(model, tmp_path / "log") as server:
        assert server._process is not None
        session = server._process.pid
        assert semaphore_of_engine(tmp_path / "log").exists()
    wait_until(lambda: not processes_in(session), told=lambda: processes_in(session))
    assert not semaphore_of_engine(tmp_path / "log").exists()


def start_owner(model: Path, tmp_path: Path, extra: list[str]) -> tuple[subprocess.Popen[str], int]:
    """A process in a session of its own that owns a server, which has a session of its own, too."""
    environment = {"PYTHONPATH": os.getcwd(), **os.environ}
    command = [sys.executable, "-c", OWNER, str(model), str(tmp_path / "owner.log"), *extra]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert owner.stdout is not None
    with owner.stdout:
        words = owner.stdout.readline().split()
    assert words[:1] == ["server"], (tmp_path / "owner.log").read_text()
    return owner, int(words[1])


def test_sampling_is_the_trainers_and_the_rank_is_one_that_vllm_serves(model: Path):
    cpu = ServerOptions(max_lora_rank=9, max_model_len=512, threads=1, extra_args=("--max-num-seqs", "7"))
    arguments = cpu.arguments(model, "base", 8000)
    pairs = dict(itertools.pairwise(arguments))
    assert pairs["--max-lora-rank"] == "16"
    assert pairs["--logprobs-mode"] == "processed_logprobs"
    assert pairs["--generation-config"] == "vllm"
    assert pairs["--host"] == "127.0.0.1"
    assert pairs["--kv-cache-memory-bytes"] == str(2 * 2**30)
    assert arguments[-2:] == ["--max-num-seqs", "7"]
    if len(os.sched_getaffinity(0)) > 1:
        assert cpu.environment()["GRPO_VLLM_THREADS"] == "1"
        assert "VLLM_CPU_OMP_THREADS_BIND" not in cpu.environment()
    gpu = ServerOptions(device="cuda", gpu_memory_utilization=0.3)
    of_cpus = {"--block-size", "--kv-cache-memory-bytes", "--distributed-executor-backend"}
    assert not of_cpus & set(gpu.arguments(model, "base", 1))
    assert json.loads(pairs["--speculative-config"])["num_speculative_tokens"] == 15
    for without in (gpu, ServerOptions(draft_tokens=0)):
        assert "--speculative-config" not in without.arguments(model, "base", 1)
    assert "VLLM_CPU_OMP_THREADS_BIND" not in gpu.environment()
    with pytest.raises(ConfigError, match="LoRA rank 513 is above 512"):
        ServerOptions(max_lora_rank=513).arguments(model, "base", 1)


@pytest.mark.parametrize(
    ("variable", "set_by_user", "expected"),
    [
        ("PYTHONDONTWRITEBYTECODE", "1", None),  # each start would compile all anew
        ("MALLOC_MMAP_THRESHOLD_", None, str(4 * 2**30)),
        ("MALLOC_MMAP_THRESHOLD_", "1024", "1024"),
        ("VLLM_PLUGINS", None, None),  # all are loaded
        ("VLLM_PLUGINS", "theirs", "theirs,grpo_cpu_lora"),
        ("VLLM_PLUGINS", "", "grpo_cpu_lora"),
        ("GOMP_SPINCOUNT", "77", "77"),
    ],
)
def test_what_a_user_has_set_for_other_programs_neither_breaks_nor_slows_a_server(
    monkeypatch: pytest.MonkeyPatch, variable: str, set_by_user: str | None, expected: str | None
):
    monkeypatch.delenv(variable, raising=False)
    if set_by_user is not None:
        monkeypatch.setenv(variable, set_by_user)
    assert ServerOptions().environment().get(variable) == expected


def test_a_server_on_the_cpu_keeps_its_memory_and_shares_the_cores(
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("GLIBC_TUNABLES", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)  # tests/conftest.py has set some
    variables = ServerOptions().environment()
    assert variables["GLIBC_TUNABLES"] == KEPT_MEMORY["GLIBC_TUNABLES"]
    assert int(variables["GOMP_SPINCOUNT"]) < 100_000, "GNU OpenMP's own number is in billions"
    assert "GLIBC_TUNABLES" not in ServerOptions(device="cuda").environment()


@pytest.mark.vllm
def test_whoever_shows_no_key_cannot_load_an_adapter_nor_sample(vllm_server: VllmServer, tmp_path: Path):
    with httpx.Client(base_url=vllm_server.url, trust_env=False, timeout=120) as stranger:
        adapter = {"lora_name": "theirs", "lora_path": str(tmp_path)}
        for headers in ({}, {"Authorization": "Bearer guessed"}):
            for path, body in (("load_lora_adapter", adapter), ("completions", {"model": "base", "prompt": "Hi"})):
                assert stranger.post(f"/v1/{path}", json=body, headers=headers).status_code == 401
    assert "theirs" not in models_of(vllm_server)


def test_a_server_that_somebody_else_runs_is_shown_their_key(monkeypatch: pytest.MonkeyPatch):
    asked: list[str | None] = []

    def answer(request: Request) -> Response:
        asked.append(request.headers.get("authorization"))
        return Response({"data": [{"id": "theirs", "parent": None}]})

    with HttpStub(answer) as stub:
        for key in ("secret", ""):
            monkeypatch.setenv(KEY_VARIABLE, key)
            ExternalServer(stub.url).wait_ready()
    assert asked == ["Bearer secret", None]


@pytest.fixture
def other_server() -> Iterator[str]:
    models = [{"id": "old", "parent": "theirs"}, {"id": "theirs", "parent": None}]
    with HttpStub(lambda _: Response({"data": models})) as stub:
        yield stub.url


def test_a_given_url_is_used_and_its_model_found_out(other_server: str):
    config = load_config(None, {"env": "X-v0", "server.urls": [f"{other_server}/v1/"]})
    (server,) = make_servers(config, Path("unused"), Path("unused"))
    server.start()
    server.wait_ready()
    assert (server.url, server.model) == (other_server, "theirs")
    assert server.recover() is False
    server.stop()
    assert httpx.get(f"{other_server}/health").status_code == 200  # not ours, so it still runs


def test_a_server_on_this_machine_is_not_asked_by_a_proxy(other_server: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server = ExternalServer(other_server, start_timeout_seconds=0.0)
    server.wait_ready()
    assert (server.model, server.is_well(), server.trust_env) == ("theirs", True, False)
    assert ExternalServer("http://gpu.example:8000").trust_env


def test_a_url_that_does_not_answer_is_named():
    server = ExternalServer("http://127.0.0.1:9", start_timeout_seconds=0.0)
    with pytest.raises(ServerStartError, match=r"http://127\.0\.0\.1:9 does not answer"):
        server.wait_ready()
    with pytest.raises(ServerDiedError, match="not ours to restart"):
        server.recover()


def test_several_servers_are_given_or_started_each_with_cores_of_its_own(tmp_path: Path):
    config = load_config(None, {"env": "X-v0", "server.urls": ["http://a/v1", "http://b"]})
    assert [server.url for server in make_servers(config, tmp_path, tmp_path / "log")] == ["http://a", "http://b"]
    started = load_config(None, {"env": "X-v0", "server.replicas": 2, "threads": 2, "dtype": "float32"})
    first, second = make_servers(started, tmp_path, tmp_path / "server.log")
    assert isinstance(first, VllmServer)
    assert isinstance(second, VllmServer)
    assert [server.log_path.name for server in (first, second)] == ["server.log", "server-2.log"]
    cores = [server.options.environment()["VLLM_CPU_OMP_THREADS_BIND"] for server in (first, second)]
    assert cores == [str(core) for core in sorted(os.sched_getaffinity(0))[:2]]
    with pytest.raises(ConfigError, match=r"server\.replicas = 3, but there are 2 CPU cores"):
        make_servers(started.model_copy(update={"server": ServerSettings(replicas=3)}), tmp_path, tmp_path / "log")


def test_a_run_gets_a_server_with_its_settings(tmp_path: Path):
    sizes = {"rollout.max_tokens": 1234, "rollout.concurrency": 48, "lora.rank": 32}
    config = load_config(None, {"env": "X-v0", **sizes, "dtype": "bfloat16", "threads": 1, "seed": 5})
    (server,) = make_servers(config, tmp_path, tmp_path / "log")
    assert isinstance(server, VllmServer)
    assert server.options == ServerOptions(
        dtype="bfloat16", max_model_len=1234, max_lora_rank=32, max_num_seqs=48, threads=1, seed=5, device="cpu"
    )
    stale = load_config(None, {"env": "X-v0", "dtype": "bfloat16", "rollout.max_staleness": 4})
    (server,) = make_servers(stale, tmp_path, tmp_path / "log")
    assert isinstance(server, VllmServer)
    assert server.options.max_loras == 6
