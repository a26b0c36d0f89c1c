"""A log of an agent in production becomes a warm start, the run goes on from it, and its tracker shows its episodes."""

import json
import re

import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="the learner needs torch (install the extra 'train')")
pytest.importorskip("openai", reason="the stock client is part of the test (extra 'dev')")

from grpo.cli.sft import sft
from judges.common.files import read_jsonl
from tests.grpo.training.test_train_agent import train
from tests.support.commands import sets
from tests.support.evaluations import asked
from tests.support.model_server import sums
from tests.support.tiny_model import tiny_chat_model_folder

pytestmark = pytest.mark.torch


def log_of_a_proxy(folder):
    """What a gateway keeps of an agent that works with another model: each request with its response."""
    played, *_ = asked(folder / "production", sums, "by_chat", count=12)
    lines = []
    for row in played:
        history = []
        for call in row["calls"]:
            history = [*history[: call.get("shared", 0)], *call["messages"]]
            request = {"model": call["model"], "messages": history, "tools": row["calls"][0]["tools"]}
            choice = {"index": 0, "message": call["reply"], "finish_reason": call["finish_reason"]}
            lines.append({"request": request, "response": {"choices": [choice]}, "metadata": {"score": row["reward"]}})
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return len(lines), sum(row["reward"] > 0 for row in played)


def test_what_an_agent_did_in_production_is_imitated_and_trained_on_from_there(tmp_path):
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed (extra 'tensorboard')")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model, warm = tiny_chat_model_folder(tmp_path / "model"), tmp_path / "warm"
    requests, good = log_of_a_proxy(tmp_path)
    assert 0 < good < 12
    arguments = ["--data", tmp_path / "log.jsonl", "--min-reward", "1", "--model", model, "--cpu", "--out", warm]
    arguments += ["--steps", "40", "--validation", "0.3"]
    arguments += sets("warm_start.learning_rate=0.03", "warm_start.batch=4", "dtype=float32")
    ran = CliRunner().invoke(sft, list(map(str, arguments)))
    assert ran.exit_code == 0, ran.output
    assert re.search(rf"demonstrations +{good}\b", ran.output), ran.output
    assert re.search(rf"left out: carried on by another request +{requests - 12}\b", ran.output), ran.output
    assert re.search(rf"left out: reward below 1 +{12 - good}\b", ran.output), ran.output
    losses = [r["validation/loss"] for r in read_jsonl(warm / "metrics.jsonl") if "validation/loss" in r]
    assert losses[-1] < losses[0] - 0.2, "nats a token, on questions that it has not seen; a random model has little"

    started = ["--init-adapter", str(warm), "--track", "tensorboard", "--set", "show_every=1"]
    ran = train(tmp_path, "tests.support.agents:by_chat", *started)
    assert ran.exit_code == 0, ran.output
    run = tmp_path / "run"
    assert json.loads((run / "config.json").read_text())["init_adapter"] == str(warm)
    (step,) = read_jsonl(run / "metrics.jsonl")
    assert step["groups/used"] == 2.0
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    names = {name.removesuffix("/text_summary") for name in events.Tags()["tensors"]} - {"config"}
    assert names == {
        "rollout/episodes/best", "rollout/episodes/worst", "eval/sampled/episodes/best", "eval/sampled/episodes/worst",
        "eval/greedy/episodes/best", "eval/greedy/episodes/worst",
    }  # fmt: skip
    shown = events.Tensors("eval/greedy/episodes/best/text_summary")
    assert [event.step for event in shown] == [0, 1], "before and after GRPO"
    assert b"    [user] What is" in shown[0].tensor_proto.string_val[0]
