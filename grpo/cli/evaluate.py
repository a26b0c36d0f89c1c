"""``grpo-eval``: one agent on one env, with intervals; everything saved, continued after any interruption."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from grpo.cli.common import DTYPE, env_workers, explained, finite, json_object
from judges.llm.options import TIMEOUT_SECONDS


@click.command(
    epilog="Example: grpo-eval --env EmailSearch-v0 --agent bm25 --split test --limit 100 -k 4\n\n"
    "Exit status: 0 done; 1 an error that was explained, or a score below --fail-under; 2 wrong usage; 3 some episodes "
    "ended in infrastructure failures (--resume plays them again); 130 stopped by the user."
)
@click.option("--env", required=True, help="Registered env id, or module:id.")
@click.option(
    "--agent",
    required=True,
    help="A policy that the env brings along (EmailSearch-v0: bm25, keyword, oracle, random, tutor); policy:RUN, "
    "policy:RUN@STEP, policy:RUN@best, policy:ADAPTER or policy:base; file:ANSWERS.jsonl; "
    "openai:MODEL@URL or litellm:NAME in a plain tool loop; "
    "PKG.MOD:FUNCTION; 'cmd:PROGRAM {question}'.",
)
@click.option("--model", help="The model that a function or program may use: openai:MODEL@URL or litellm:NAME.")
@click.option("--split", default="test", show_default=True, help="Split of the scenarios, where the env has splits.")
@click.option("--limit", type=click.IntRange(1), help="Number of scenarios, drawn by --seed.  [default: all, else 100]")
@click.option("-k", "k", type=click.IntRange(1), default=1, show_default=True, help="Episodes of each scenario.")
@click.option("--concurrency", type=click.IntRange(1), default=16, show_default=True, help="Episodes at once.")
@click.option(
    "--env-workers",
    callback=env_workers,
    default="auto",
    show_default=True,
    metavar="auto|threads|N|0",
    help="Where envs are called: a number of worker processes, threads (one for each env), or 0: in the thread that "
    "plays; auto: by the measured cost of a step. Results are the same.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    default=600.0,
    show_default=True,
    help="Seconds an episode may take.",
)
@click.option(
    "--max-turns", type=click.IntRange(1), default=1000, show_default=True, help="Turns after which an episode is cut."
)
@click.option("--seed", default=1234, show_default=True, help="Seed of the choice of scenarios and of sampling.")
@click.option(
    "--temperature",
    type=click.FloatRange(0),
    callback=finite,
    help="Sampling temperature; 0 is greedy.  [default: 1 for policy:, else the model's own]",
)
@click.option("--recipe", help="Recipe with model and limits for policy:ADAPTER and policy:base; a run brings its own.")
@click.option(
    "--dtype",
    type=DTYPE,
    help="What a policy: computes in; auto: what is faster here.  [default: as the run was trained, else auto]",
)
@click.option("--env-import", help="Module or .py file that registers the env; imported first.")
@click.option(
    "--env-kwargs",
    callback=json_object,
    help="JSON object of arguments for the env (gymnasium.make).",
)
@click.option(
    "--judge-model",
    "--answer-judge",
    "judge_model",
    metavar="MODEL",
    help="litellm name of a judge that marks answers which the rule leaves undecided.",
)
@click.option(
    "--judge-api-base",
    "--answer-judge-api-base",
    "judge_api_base",
    metavar="URL",
    help="OpenAI-compatible URL of the judge; its key comes from the environment.",
)
@click.option(
    "--judge-max-cost",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    help="Stop when the judge has cost so many dollars.",
)
@click.option(
    "--judge-timeout-seconds",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    default=TIMEOUT_SECONDS,
    show_default=True,
    help="For one call of the judge.",
)
@click.option(
    "--judge-extra-litellm-params",
    callback=partial(json_object, example='{"temperature": 0}'),
    metavar="JSON",
    help="Parameters of the judge's calls: temperature, reasoning_effort, input_cost_per_token, ...",
)
@click.option(
    "--judge-audit-share",
    type=click.FloatRange(0, 1),
    callback=finite,
    default=0.05,
    show_default=True,
    help="Share of the answers that the rule took for right, shown to the judge, too.",
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
def evaluate(**options: Any) -> None:
    """Evaluate an agent on a registered env, with 95 % intervals."""
    from grpo.eval.request import EvalRequest, run_evaluation

    run_evaluation(EvalRequest(**options))


if __name__ == "__main__":
    evaluate()
