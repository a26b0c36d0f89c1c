"""grpo's own commands on an env of others: an evaluation of a scripted model, and two steps of training.

The learner has a tiny model, and what it is told to have sampled is scripted, so that tools are called.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from grpo.cli.evaluate import evaluate
from grpo.cli.train import train
from judges.common.files import read_jsonl
from tests.support.commands import sets
from tests.support.evaluations import rows
from tests.support.http_stub import Response
from tests.support.model_server import ModelServer, Play
from tests.support.policy_server import TinyPolicyServer, completion
from tests.support.tiny_model import tiny_chat_model_folder


def evaluated(folder: Path, play: Play, *named: str) -> list[dict[str, Any]]:
    """What ``grpo-eval`` keeps of the episodes of a model that is asked by the plain tool loop."""
    with ModelServer(play) as server:
        ran = CliRunner().invoke(evaluate, [*named, "--agent", f"openai:m@{server.url}", "--out", str(folder / "eval")])
    assert ran.exit_code == 0, ran.output
    return sorted(rows(folder / "eval"), key=lambda row: str(row["scenario_id"]))


class ScriptedPolicyServer(TinyPolicyServer):
    """Says what ``says`` gives for a prompt and a seed, with the log-probabilities that the policy has for it."""

    def __init__(self, model_folder: Path, says: Callable[[str, int], str]):
        from transformers import AutoTokenizer

        super().__init__(model_folder)
        self.says, self.tokenizer = says, AutoTokenizer.from_pretrained(str(model_folder))

    def complete(self, body: dict[str, Any]) -> Response:
        import torch

        if body["model"] == "base":
            self._models.setdefault("base", self._base_model())
        text = self.says(self.tokenizer.decode(body["prompt"]), body["seed"])
        ids = [*self.tokenizer.encode(text, add_special_tokens=False), body["stop_token_ids"][0]]
        with torch.no_grad():
            logits = self._models[body["model"]](input_ids=torch.tensor([body["prompt"] + ids])).logits[0].float()
        spread = torch.log_softmax(logits, -1)[len(body["prompt"]) - 1 : -1]
        return completion(body, ids, spread[range(len(ids)), ids].tolist(), "stop")


def trained(folder: Path, says: Callable[[str, int], str], *named: str) -> list[dict[str, Any]]:
    """The metrics of two steps of ``grpo-train`` of a policy that says what ``says`` gives."""
    model = tiny_chat_model_folder(folder / "model")
    size = [
        "rollout.groups_per_step=1",
        "rollout.group_size=4",
        "rollout.max_tokens=8000",
        "rollout.max_turn_tokens=200",
    ]
    plain = ["threads=1", "dtype=float32", "warm_start.steps=0", "eval.scenarios=0", "steps=2"]
    with ScriptedPolicyServer(model, says) as server:
        arguments = [*named, "--model", str(model), "--server", server.url, "--run-dir", str(folder / "run")]
        ran = CliRunner().invoke(train, [*arguments, *sets(*size, *plain)])
    assert ran.exit_code == 0, ran.output
    return [row for row in read_jsonl(folder / "run" / "metrics.jsonl") if row.get("step")]


def call(name: str, **arguments: Any) -> str:
    """A call as a policy writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
