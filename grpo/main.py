"""What the commands do, between the command line and the trainer: say what will happen, join the parts, show the result."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from grpo.config import TrainConfig, load_config
from grpo.display import Display
from grpo.envs import Episode, takes_split
from grpo.errors import ConfigError
from grpo.evaluate import EvalSpec, evaluate_scripted, save_evaluation
from grpo.groups import evaluation_tasks
from grpo.models import resolve_model
from grpo.report import write_report
from grpo.rundir import RunDirectory
from grpo.server import PolicyServer, make_server


def run_training(config: TrainConfig, directory: Path, *, resume: bool, quiet: bool) -> None:
    """Train, evaluate and report; prints the closing table and the report's path."""
    display = Display(quiet=quiet)
    run = RunDirectory.open(directory, config, resume=resume)
    try:
        if not _is_finished(run, config):
            _train(config, run, display)
        else:
            display.note(f"{directory} is finished: nothing to train. Raise --steps to go on, or choose another --run-dir")
        summaries = [
            json.loads(path.read_text(encoding="utf-8"))
            for label in ("before-sampled", "before-greedy", "after-sampled", "after-greedy")
            if (path := run.evaluation(label)).exists()
        ]
        display.eval_table(summaries)
        display.note(f"Report: {write_report(run.root)}")
    finally:
        run.close()


def _train(config: TrainConfig, run: RunDirectory, display: Display) -> None:
    display.phase(f"Model {config.model}")
    model = resolve_model(config.model)
    display.note(f"model: {model.path}")
    server = make_server(config, model.path, run.server_log)
    server.start()
    try:
        display.note(f"vLLM is starting at {server.url}; its log: {run.server_log}")
        from grpo.trainer import Trainer

        trainer = Trainer(config, run, model.path, server, display)
        try:
            trainer.train()
        finally:
            trainer.close()
    finally:
        server.stop()


def _is_finished(run: RunDirectory, config: TrainConfig) -> bool:
    from grpo.checkpoint import newest_checkpoint

    found = newest_checkpoint(run.checkpoints)
    if found is None or found[1].step < config.steps:
        return False
    if config.eval_scenarios == 0:
        return True
    labels = ["after-sampled", "after-greedy"] if config.eval_greedy else ["after-sampled"]
    return all(
        run.evaluation(label).exists()
        and json.loads(run.evaluation(label).read_text(encoding="utf-8"))["policy"] == found[1].step
        for label in labels
    )
