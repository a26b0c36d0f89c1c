"""A run that is killed again and again ends with the bits of one that never was: the real trainer, real SIGKILL.

The policy server is small and deterministic (``tests.support.policy_server``); vLLM's own sampling is not, to the bit.
"""

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")

from safetensors.torch import load_file  # noqa: E402

from grpo.cli.train import run_training  # noqa: E402
from grpo.machine.hardware import cpu_count  # noqa: E402
from grpo.runs.retention import checkpoints  # noqa: E402
from judges.common.files import read_jsonl  # noqa: E402
from tests.support import processes  # noqa: E402
from tests.support.episodes import untimed  # noqa: E402
from tests.support.policy_server import TinyPolicyServer, tiny_run  # noqa: E402
from tests.support.tiny_model import tiny_chat_model_folder  # noqa: E402
from tests.support.wait import wait_until  # noqa: E402

pytestmark = pytest.mark.torch
STEPS = 4
START_SECONDS = 300.0


def config(model, url, steps=STEPS):
    sizes = {"rollout.groups_per_step": 3, "optimizer.updates_per_step": 2, "warm_start.batch": 2, "eval.scenarios": 2}
    return tiny_run(model, url, steps=steps, keep_checkpoints=1, **sizes | {"optimizer.final_lr_share": 0.5})


def train(config, run_dir, output):
    """The body of a child process: what ``grpo-train --resume`` does, its output in a file."""
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    run_training(config, Path(run_dir), resume=True, quiet=False)


def train_on_a_stuck_disk(config, run_dir, output):
    """The same, but no checkpoint ever becomes whole."""
    from grpo.runs import checkpoint

    checkpoint.fsync_tree = lambda _folder: time.sleep(START_SECONDS)
    train(config, run_dir, output)


def run_to_its_end(config, run_dir, output):
    process = processes.start(train, config, str(run_dir), str(output))
    process.join(START_SECONDS)
    assert process.exitcode == 0, output.read_text()[-3000:]


def kill_when(condition, config, run_dir, output, delay_seconds=0.0, target=train):
    """Start the run, and SIGKILL it ``delay_seconds`` after ``condition`` holds; says whether it was killed."""
    process = processes.start(target, config, str(run_dir), str(output))
    wait_until(lambda: not process.is_alive() or condition(), seconds=START_SECONDS, every=0.005, told=output.read_text)
    time.sleep(delay_seconds)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), output.read_text()[-3000:]
    return process.exitcode != 0


def state_of(run_dir):
    folder = run_dir / "checkpoints" / f"step-{STEPS:04d}"
    weights = load_file(folder / "adapter_model.safetensors")
    return weights, torch.load(folder / "engine.pt"), json.loads((folder / "state.json").read_text())


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def episodes(run_dir, step):
    """Everything about a step's episodes but how long they took."""
    return list(map(untimed, read_jsonl(run_dir / "trajectories" / f"step-{step:04d}.jsonl")))


def steady(record):
    return {k: v for k, v in record.items() if not k.startswith(("time/", "speed/", "mem/"))}


def test_killed_at_random_moments_a_run_ends_with_the_bits_of_one_that_never_was(tmp_path):
    model = tiny_chat_model_folder(tmp_path / "model")
    straight, broken, log = tmp_path / "straight", tmp_path / "broken", tmp_path / "output.log"
    with TinyPolicyServer(model) as server:
        run_to_its_end(config(model, server.url), straight, log)
        requests = len(server.asked)

        rng = random.Random(os.environ.get("GRPO_TEST_SEED", "resume"))
        settings = config(model, server.url)
        run_to_its_end(config(model, server.url, steps=1), broken, log)  # begun as a shorter run, then continued
        begun = shutil.copytree(broken, tmp_path / "begun")
        kills, kept = 0, {}
        for _ in range(3):  # in the middle of a step; on a busy machine the step may be whole by then: once more
            shutil.rmtree(broken)
            shutil.copytree(begun, broken)
            kills += kill_when(lambda: any(finished_groups(broken).values()), settings, broken, log)
            if newest_step(broken) == 1 and (kept := finished_groups(broken)):
                break
        assert kept, "a group of the step was finished when the run was killed"
        kills += kill_when(
            lambda: read_jsonl(broken / "partial" / "step-0002.jsonl"),
            settings,
            broken,
            log,
            target=train_on_a_stuck_disk,
        )
        assert newest_step(broken) == 1, "the next step was played, and the checkpoint of step 2 was not whole"
        assert [record["step"] for record in read_jsonl(broken / "metrics.jsonl")] == [1, 2]
        check_kept(kept, finished_groups(broken), broken)
        kept = finished_groups(broken)
        assert len(kept["step-0001.jsonl"]) >= 3, "what the lost step learned from is there, to do it again"
        for _ in range(2):
            end = len(server.asked) + rng.randint(1, requests // 4)
            delay = rng.choice([0.0, rng.uniform(0, 0.5)])
            kills += kill_when(lambda end=end: len(server.asked) >= end, settings, broken, log, delay)
            check_kept(kept, finished_groups(broken), broken)
            kept = finished_groups(broken)
        run_to_its_end(settings, broken, log)
        check_kept(kept, {}, broken)

    assert kills >= 3, log.read_text()[-3000:]
    assert same(state_of(broken), state_of(straight)), "weights, optimizer, random state, place in the data"
    for step in range(1, STEPS + 1):
        assert episodes(broken, step) == episodes(straight, step)
        for episode in episodes(straight, step):  # the tokens of every turn are kept as text
            said = [call["sampled"] for call in episode["calls"]]
            assert len(said) == sum(m["role"] == "assistant" for m in episode["messages"])
    trained = [episode["scenario_id"] for step in range(1, STEPS + 1) for episode in episodes(broken, step)]
    for epoch in (trained[:18], trained[18:]):  # six scenarios, three episodes of each
        assert Counter(epoch) == {f"train-{letter}": 3 for letter in "aeinst"}
    records, expected = (read_jsonl(run / "metrics.jsonl") for run in (broken, straight))
    assert [r["step"] for r in records] == [1, 2, 3, 4]
    assert [steady(r) for r in records] == [steady(r) for r in expected]
    assert not list((broken / "partial").iterdir())
    (published,), kept = (broken / "adapters").iterdir(), broken / "checkpoints" / f"step-{STEPS:04d}"
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert (published / name).samefile(kept / name), "written once"


def test_minutes_that_are_over_leave_one_step_which_a_continuation_keeps(tmp_path):
    """0.01 minutes are over before anything is learned; twice as many do not fit another step either."""
    model = tiny_chat_model_folder(tmp_path / "model")
    run, log = tmp_path / "run", tmp_path / "output.log"

    def lines():
        text = log.read_text()
        log.unlink()
        return text.splitlines()

    with TinyPolicyServer(model) as server:
        settings = config(model, server.url, steps=9)
        run_to_its_end(settings.model_copy(update={"minutes": 0.01}), run, log)
        shown = lines()
        assert "in 0.01 minutes fits 1 step" in shown
        assert any(line.startswith("step 1/1: ") and "1 of about 1 steps" in line for line in shown)
        assert json.loads((run / "config.json").read_text())["steps"] == 1
        asked = len(server.asked)
        run_to_its_end(settings.model_copy(update={"minutes": 0.01}), run, log)
        assert any("is finished: nothing to train" in line for line in lines())
        run_to_its_end(settings.model_copy(update={"minutes": 0.02}), run, log)
        assert len(server.asked) == asked + 1, "the first look at the server"
    assert [record["step"] for record in read_jsonl(run / "metrics.jsonl")] == [1]


def test_a_run_goes_on_where_it_and_all_that_it_names_were_moved(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new" / "place"
    tiny_chat_model_folder(old / "model")
    first, run = old / "first", old / "run"
    with TinyPolicyServer(old / "model") as server:
        run_to_its_end(config(old / "model", server.url, steps=1), first, tmp_path / "output.log")
        begun = config(old / "model", server.url, steps=1).model_copy(update={"init_adapter": str(first)})
        run_to_its_end(begun, run, tmp_path / "output.log")
    new.parent.mkdir()
    old.rename(new)
    with TinyPolicyServer(new / "model") as server:
        moved = config(new / "model", server.url, steps=2).model_copy(update={"init_adapter": str(new / "first")})
        run_to_its_end(moved, new / "run", tmp_path / "output.log")
    assert "the learning rate falls until step 2 now, not 1\n" in (tmp_path / "output.log").read_text()
    assert [record["step"] for record in read_jsonl(new / "run" / "metrics.jsonl")] == [1, 2]
    saved = json.loads((new / "run" / "config.json").read_text())
    assert (saved["model"], saved["init_adapter"]) == (str(new / "model"), str(new / "first"))


def test_a_run_of_no_steps_is_evaluated_once_and_finished(tmp_path):
    model = tiny_chat_model_folder(tmp_path / "model")
    run, log = tmp_path / "run", tmp_path / "output.log"

    def evaluations():
        return sorted(path.stem for path in (run / "eval").glob("*.json"))

    with TinyPolicyServer(model) as server:
        run_to_its_end(config(model, server.url, steps=0), run, log)
        cores = cpu_count()
        note = f"threads: 1 of {cores}, as set or begun (--set threads={cores} uses all)\n"
        assert (note in log.read_text()) is (cores > 1)
        assert evaluations() == ["before-greedy", "before-sampled"]
        asked = len(server.asked)
        run_to_its_end(config(model, server.url, steps=0), run, log)
        assert "is finished: nothing to train" in log.read_text()
        assert len(server.asked) == asked == 9  # a first look; two tasks of two turns, sampled and greedily
        logged = {"step": 1, "time/step": 30.0, "time/rollout": 20.0}  # of a step whose checkpoint was not whole
        (run / "metrics.jsonl").write_text(json.dumps(logged) + "\n")
        run_to_its_end(config(model, server.url, steps=1), run, log)
    assert log.read_text().count("\nleft: about ") == log.read_text().count("(1 step of 30 s, evaluations ") == 1
    assert evaluations() == ["after-greedy", "after-sampled", "before-greedy", "before-sampled"]


def newest_step(run_dir):
    return max((int(path.name[5:]) for path in checkpoints(run_dir / "checkpoints")), default=0)


def finished_groups(run_dir):
    """The groups on disk that the interrupted step may learn from: step, members with their seconds.

    Those of a policy whose checkpoint was not whole are lost with it.
    """
    newest = newest_step(run_dir)
    paths = (run_dir / "partial").glob("*.jsonl")
    return {path.name: read_jsonl(path) for path in paths if int(path.name[5:9]) <= newest}


def check_kept(before, after, run_dir):
    """No group that was finished before is sampled again: it is still there, or in its step's trajectories, to the second."""
    for name, groups in before.items():
        done = read_jsonl(run_dir / "trajectories" / f"step-{int(name[5:9]) + 1:04d}.jsonl")
        seconds = {(t["scenario_id"], t["env_seed"], t["sample"]): t["seconds"] for t in done}
        for group in groups:
            if group in after.get(name, []):
                continue
            for t in group["episodes"]:
                assert seconds[t["scenario_id"], t["env_seed"], t["sample"]] == t["seconds"]


def test_a_run_with_staleness_learns_from_the_policy_before_and_goes_on_where_it_was(tmp_path):
    model, folder = tiny_chat_model_folder(tmp_path / "model"), tmp_path / "run"
    with TinyPolicyServer(model) as server:
        overlapped = tiny_run(model, server.url, **{"steps": 2, "rollout.max_staleness": 1, "rollout.oversample": 1})
        run_training(overlapped, folder, resume=False, quiet=True)
        state = json.loads((folder / "checkpoints/step-0002/state.json").read_text())
        run_training(overlapped.model_copy(update={"steps": 4}), folder, resume=True, quiet=True)
    steps = [read_jsonl(folder / "trajectories" / f"step-{step:04d}.jsonl") for step in (1, 2, 3, 4)]
    assert [{call["version"] for t in step for call in t["calls"]} for step in steps] == [{0}, {0}, {2}, {2}], (
        "3 is the first of its run"
    )
    assert {t["error"] for step in steps for t in step} == {""}
    records = read_jsonl(folder / "metrics.jsonl")
    assert {record.get("staleness", age) == age for record, age in zip(records, (0, 1, 0, 1), strict=True)} == {True}
    played = Counter((t["scenario_id"], t["env_seed"]) for step in steps for t in step)
    assert set(played.values()) == {3}, "no task is learned from twice"
    assert len(played) == 8
    handed_out = state["task_position"]
    assert handed_out == 2 * 2 + len(state["open_tasks"])
    assert not list((folder / "partial").iterdir())
