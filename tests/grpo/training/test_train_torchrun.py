"""grpo-train and grpo-sft under torchrun as a user runs them: two processes over gloo, one server, one run directory."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from safetensors.torch import load_file  # noqa: E402

from grpo.serving.vllm import free_port  # noqa: E402
from judges.common.files import read_jsonl  # noqa: E402
from tests import ROOT  # noqa: E402
from tests.support import processes  # noqa: E402
from tests.support.commands import sets  # noqa: E402
from tests.support.envs import LETTER_ENV  # noqa: E402
from tests.support.policy_server import TinyPolicyServer  # noqa: E402
from tests.support.sessions import running  # noqa: E402
from tests.support.tiny_model import tiny_chat_model_folder  # noqa: E402
from tests.support.wait import wait_until  # noqa: E402

pytestmark = pytest.mark.torch
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "grpo"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
END_SECONDS = 300.0


def arguments(model, url, run_dir, steps, *more):
    settings = {
        "server.urls": [url],
        "rollout.max_turn_tokens": 8,
        "rollout.max_tokens": 400,
        "optimizer.updates_per_step": 2,
        "loss.max_gap": 5.0,
        "warm_start.batch": 2,
        "dtype": "float32",
    }
    return [
        *("train", "--env", LETTER_ENV, "--model", str(model), "--run-dir", str(run_dir), "--resume"),
        *("--steps", str(steps), *sets("rollout.groups_per_step=2", "rollout.group_size=3", "warm_start.steps=1")),
        *sets("eval.scenarios=1", "threads=1"),
        *(part for name, value in settings.items() for part in ("--set", f"{name}={json.dumps(value)}")),
        *more,
    ]


def finished(command):
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)


def run_command(name, arguments, variables):
    """The body of a child process that begins with torch loaded, and with what torchrun would tell it."""
    from grpo.cli.sft import sft
    from grpo.cli.train import train

    os.environ |= variables
    {"sft": sft, "train": train}[name](arguments, standalone_mode=False)


def in_processes(size, name, arguments):
    """The command as torchrun starts it, in processes that need not load torch first."""
    port = str(free_port("127.0.0.1", 0))
    told = [
        {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size)}
        | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for rank in range(size)
    ]
    started = [processes.start(run_command, name, arguments, variables if size > 1 else {}) for variables in told]
    for process in started:
        process.join(300)
    assert [process.exitcode for process in started] == [0] * size


def state_of(run_dir, step):
    folder = run_dir / "checkpoints" / f"step-{step:04d}"
    return load_file(folder / "adapter_model.safetensors"), torch.load(folder / "engine.pt")


def learner_processes(launcher):
    """The processes that ``launcher`` started, by their rank."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            variables = dict(pair.partition("=")[::2] for pair in (entry / "environ").read_text().split("\0"))
        except (OSError, ValueError, IndexError):
            continue
        if parent == launcher.pid and "RANK" in variables:
            found[int(variables["RANK"])] = int(entry.name)
    return found


def test_a_run_goes_on_with_another_number_of_processes_and_ends_with_one_of_them(tmp_path):
    model, run_dir, log = tiny_chat_model_folder(tmp_path / "model"), tmp_path / "run", tmp_path / "log"
    with TinyPolicyServer(model) as server:
        done = finished([*TORCHRUN, *arguments(model, server.url, run_dir, 1, "--set", "learner.shard=true")])
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("Report: ") == 1, "one process speaks"
        assert "learner: 2 processes of torchrun train the model; they share its layers" in done.stdout

        in_processes(1, "train", arguments(model, server.url, run_dir, 2)[1:])

        with log.open("w") as output:
            launcher = subprocess.Popen(
                [*TORCHRUN, *arguments(model, server.url, run_dir, 50)], stdout=output, stderr=output, env=ENVIRONMENT
            )
            metrics = run_dir / "metrics.jsonl"
            wait_until(lambda: len(read_jsonl(metrics)) >= 3, seconds=600, process=launcher, told=log.read_text)
            ranks = learner_processes(launcher)
            os.kill(ranks[1], signal.SIGKILL)
            assert launcher.wait(300) == 1  # torchrun itself gives the other process 30 s
    assert sorted(ranks) == [0, 1]
    assert running(set(ranks.values())) == set()
    shown = log.read_text()
    assert "resumed from step-0002" in shown
    assert "learner: 2 processes of torchrun train the model; they have it whole" in shown
    assert "Signal 9 (SIGKILL)" in shown, "torchrun says which process ended and how"
    ours = shown.partition("failed (exitcode: -9)")[0]
    assert "Traceback" not in ours
    assert "Stopped. Finished work is kept" in ours or "process 0 of 2: another one has ended" in ours

    records = read_jsonl(run_dir / "metrics.jsonl")
    assert [record["step"] for record in records][:3] == [1, 2, 3]
    assert all(record["loss/grad_norm"] > 0 and record["gap/mean_abs"] < 1e-4 for record in records)
    last = len(records)
    (before, _), (after, state) = state_of(run_dir, last - 1), state_of(run_dir, last)
    assert state["optimizer"]["state"][0]["step"] == 2 * last, "two a step, since the warm start's were forgotten"
    assert {record["episodes/used"] for record in records} == {6.0}, "two groups of three"
    assert any(not torch.equal(weights, after[name]) for name, weights in before.items())


def test_grpo_sft_makes_the_same_adapter_with_two_processes_as_with_one(tmp_path):
    model = tiny_chat_model_folder(tmp_path / "model")
    found = []
    for size, more in ((1, []), (2, []), (2, ["--set", "learner.shard=true"])):
        out = tmp_path / f"adapter-{len(found)}"
        settings = [*sets("dtype=float32", "warm_start.batch=4", "threads=2"), *more, "--steps", "3", "--quiet"]
        source = ["--env", LETTER_ENV, "--policy", "oracle", "--demonstrations", "12", "--validation", "0.3"]
        in_processes(size, "sft", [*source, *settings, "--model", str(model), "--out", str(out)])
        found.append((load_file(out / "adapter_model.safetensors"), read_jsonl(out / "metrics.jsonl")))
    (weights, records), *others = found
    assert records[-1]["validation/loss"] < records[0]["validation/loss"]
    for other, other_records in others:
        assert [r["loss"] for r in other_records[1:]] == pytest.approx([r["loss"] for r in records[1:]], abs=1e-6)
        assert other_records[-1]["validation/loss"] == pytest.approx(records[-1]["validation/loss"], abs=1e-6)
        assert max(float((other[name] - weights[name]).abs().max()) for name in weights) < 1e-5
