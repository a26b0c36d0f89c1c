"""``grpo-eval``: one agent on one env, with intervals; everything saved, continued after any interruption."""

from pathlib import Path
from typing import Any

import click

from grpo.cli.common import explained
from grpo.cli.options import finite, setting_options
from grpo.config import EvalConfig, checked


@click.command(
    epilog="Example: grpo-eval --env EmailSearch-v0 --agent bm25 --split test --limit 100 -k 4\n\n"
    "Exit status: 0 done; 1 an error that was explained (five equal crashes at the start are one), or a score below "
    "--fail-under; 2 wrong usage; 3 some episodes ended in infrastructure failures (--resume plays them again); 130 "
    "stopped by the user."
)
@setting_options(
    EvalConfig,
    *("env", "env_kwargs", "env_import", "agent", "agent_python", "model", "split", "limit", "k", "concurrency"),
    *(
        "env_workers",
        "timeout",
        "max_turns",
        "seed",
        "temperature",
        "recipe",
        "dtype",
        "answer_judge.model",
        "answer_judge.api_base",
    ),
    needs=["env", "agent"],
    tasks=True,
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the results.  [default: evals/AGENT-TIME]")
@click.option(
    "--resume", is_flag=True, help="Play only what is missing in --out, or in the newest evaluation of these settings."
)
@click.option("--dry-run", is_flag=True, help="Show what would be played, and play nothing.")
@click.option(
    "--fail-under",
    type=float,
    callback=finite,
    metavar="PERCENT",
    help="Exit with status 1 below this share of right answers.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@explained(lambda options: "Finished episodes are kept; the same command with --resume plays what is missing.")
def evaluate(
    given: dict[str, Any], out: Path | None, resume: bool, dry_run: bool, fail_under: float | None, as_json: bool
) -> None:
    """Evaluate an agent on a registered env, with 95 % intervals."""
    from grpo.eval.request import run_evaluation

    config = checked(EvalConfig, given)
    run_evaluation(config, out, resume=resume, dry_run=dry_run, fail_under=fail_under, as_json=as_json)
