"""The benchmark of the rollout: its workload is the recipe's rollout, request for request, and the program runs.

The program runs against a stub of vLLM: two real servers would take minutes.
"""

import asyncio
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo.serving.server import ExternalServer
from tests import ROOT
from tests.support.http_stub import Request, Response
from tests.support.policy_server import PolicyStub

pytest.importorskip("torch")

PROGRAM = ROOT / "scripts" / "bench_rollout"


@pytest.fixture(scope="module")
def bench() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(PROGRAM)))


def test_flat_out_and_the_rollout_send_the_same_requests(bench: Any, model_dir: Path):
    workload = bench.Workload(bench.load_config("email-cpu", {"env": bench.ENV}), model_dir, 6, 2)
    assert len({request.prompt for request in workload.requests}) == len(workload.requests) > 6
    lengths = [len(request.prompt) for request in workload.requests[:6]]
    assert max(lengths) < min(len(request.prompt) for request in workload.requests[6:]), "first turns come first"
    under_way, most = 0, 0

    def collector(sent: list[Any]) -> Any:
        async def sample(request: Any, seed: int) -> list[float]:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            sent.append(request)
            under_way -= 1
            return [0.0] * request.sampled

        return sample

    rollout: list[Any] = []
    asyncio.run(workload.rollout(collector(rollout)))
    flat: list[Any] = []
    asyncio.run(bench.flat_out(workload.requests, collector(flat), 2))
    assert Counter(rollout) == Counter(flat) == Counter(workload.requests)
    assert most == 2


def test_cpu_seconds_are_those_of_all_processes_below(bench: Any):
    spin = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    command = [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}])"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdout.readline()
        assert bench.cpu_seconds_below(parent.pid) >= 0.45
        parent.stdin.write(b"\n")
        parent.stdin.close()


class Stub(PolicyStub):
    """As much of vLLM as the program asks for; nothing is cached, and an adapter may be given at the start."""

    def answer(self, request: Request) -> Response:
        if request.method == "GET":
            read = sum(len(body["prompt"]) for body in self.asked)
            return Response(f'vllm:prompt_tokens_total{{engine="0"}} {float(read)}\n')
        return super().answer(request)


def test_the_program_prints_every_form_and_every_ratio(
    bench: Any,
    save_random_adapter: Callable[[Path, int], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    save_random_adapter(tmp_path, 0)
    stub = Stub(lambda body: [1] * body["max_tokens"], models=("adapter",))
    environments: list[dict[str, str]] = []
    arguments: list[list[str]] = []

    class Server(ExternalServer):
        def __init__(self, model: Path, log: Path, options: Any):
            super().__init__(stub.url)
            self.model = "base"
            arguments.append(options.arguments(model, "base", 1))
            environments.append(options.environment())

        def __enter__(self) -> "Server":
            return self

        def __exit__(self, *_: object) -> None: ...

    seconds = iter(range(1000))
    settings = ["--rounds", "1", "--episodes", "2", "--stock-requests", "1", "--dtype", "float32"]
    settings += ["--adapter", str(tmp_path)]
    monkeypatch.setitem(bench.main.__globals__, "VllmServer", Server)
    monkeypatch.setitem(bench.main.__globals__, "cpu_seconds_below", lambda root: float(next(seconds)))
    monkeypatch.setattr(sys, "argv", ["bench_rollout", *settings])
    with stub:
        bench.main()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("2 episodes, ")
    assert [line for line in shown if " answered after " in line] == [
        f"{name:8} answered after 0.0 s, 1.0 CPU-seconds" for name in ("ours", "alone", "stock", "bare")
    ]
    (of_round,) = (line for line in shown if line.startswith("round 1: "))
    assert [part.split()[0] for part in of_round.removeprefix("round 1: ").split(", ")] == sorted(bench.FORMS)
    counts = {line.split()[0]: line.split()[1:5:2] for line in shown if " sampled, " in line}
    assert list(counts) == ["rollout", "flat", "alone", "base", "ours", "stock", "bare"]
    assert counts["rollout"] == counts["flat"] == counts["alone"] == counts["base"]
    assert counts["ours"] == counts["stock"] == counts["bare"]
    ratios = [line.split(":")[0] for line in shown if " by the clock, " in line]
    assert ratios == ["rollout / flat", "flat / alone", "alone / base", "ours / stock", "ours / bare"]
    assert ["VLLM_PLUGINS" in variables for variables in environments] == [False, False, True, True]
    assert ["MALLOC_TRIM_THRESHOLD_" in variables for variables in environments] == [True, True, False, False]
    assert ["--enable-lora" in one for one in arguments] == [True, True, True, False]
    assert ["--speculative-config" in one for one in arguments] == [True, False, False, False]
    stock = arguments[2]
    assert stock[stock.index("--lora-modules") + 1].startswith("adapter="), (
        "as it comes, the adapter is given at the start"
    )
