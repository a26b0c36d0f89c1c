"""How to run an evaluation in this process, and what it left."""

import json
import shutil
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from grpo.cli.evaluate import evaluate
from tests.support.envs import SUMS_ENV
from tests.support.model_server import ModelServer, Play


def run(*arguments: str, env: str = SUMS_ENV, **env_kwargs: Any) -> Result:
    """``grpo-eval`` in this process."""
    kwargs = ["--env-kwargs", json.dumps(env_kwargs)] if env_kwargs else []
    return CliRunner().invoke(evaluate, ["--env", env, *kwargs, *arguments], catch_exceptions=False)


def evaluated(folder: Path, *arguments: str, **options: Any) -> tuple[list[dict[str, Any]], Result]:
    """An evaluation's results in the order of the scenarios, and what was shown."""
    shown = run(*arguments, "--out", str(folder), **options)
    return sorted(rows(folder), key=lambda row: (len(row["scenario_id"]), row["scenario_id"], row["sample"])), shown


def asked(
    folder: Path, play: Play, agent: str = "", *arguments: str, **options: Any
) -> tuple[list[dict[str, Any]], ModelServer, Result]:
    """The same of a model that plays so, with its server: by an agent of `tests.support.agents`, or by our tool loop."""
    with ModelServer(play) as server:
        model = f"openai:vendor/m1@{server.url}"
        who = ("--agent", f"tests.support.agents:{agent}", "--model", model) if agent else ("--agent", model)
        found, shown = evaluated(folder, *who, *arguments, **options)
    return found, server, shown


def refused(folder: Path, *arguments: str, **options: Any) -> str:
    """What is said of an evaluation that is refused before anything is played or written."""
    shown = run(*arguments, "--out", str(folder / "run"), **options)
    assert shown.exit_code == 1, shown.output
    assert not (folder / "run").exists()
    return shown.output


def play_tiny_policy(folder: Path, run_dir: Path | None = None, agent: str | None = None) -> Path:
    """An evaluation of a random adapter on a tiny model: it never answers, but its tokens are real.

    With ``run_dir`` the adapter is that of the first step of a run, which is made there. With ``agent`` it is the model
    of one of `tests.support.agents`.
    """
    from tests.support.policy_server import TinyPolicyServer
    from tests.support.tiny_model import tiny_chat_model_folder, tiny_engine

    model = tiny_chat_model_folder(folder / "model")
    tiny_engine(model).save_adapter(folder / "adapter")
    with TinyPolicyServer(model) as server:
        rollout = {"rollout.max_turn_tokens": 8, "rollout.max_tokens": 4000}
        settings = {"model": str(model), "server.urls": [server.url], **rollout}
        recipe = folder / "recipe.toml"
        recipe.write_text("\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items()))
        who = ["--agent", f"tests.support.agents:{agent}", "--model"] if agent else ["--agent"]
        who += [f"policy:{run_dir or folder / 'adapter'}", "--recipe", str(recipe)]
        if run_dir is not None:
            shutil.copytree(folder / "adapter", run_dir / "checkpoints" / "step-0001")
            (run_dir / "checkpoints" / "step-0001" / "state.json").write_text("{}")
            (run_dir / "config.json").write_text(json.dumps({"env": "FrozenLake-v1", "env_kwargs": {}, **settings}))
        shown = run(*who, "--limit", "2", "--out", str(folder / "evaluation"), env="FrozenLake-v1", max_episode_steps=3)
    assert shown.exit_code == 0, shown.output
    return folder / "evaluation"


def rows(folder: Path) -> list[dict[str, Any]]:
    """The results that lie in a folder."""
    return [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
