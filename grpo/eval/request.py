"""One evaluation from the request to the exit status: joins env, agent, folder, runner, summary and output."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grpo.agents.named import AgentOptions, make_agent
from grpo.display.aside import stdout_aside
from grpo.display.terminal import Display
from grpo.display.waiting import said_if_slow
from grpo.envs.message_env import MessageEnv
from grpo.envs.pool import EnvPool
from grpo.envs.registry import with_split
from grpo.envs.workers import EnvWorkers
from grpo.episodes.env_thread import interruptible
from grpo.episodes.episode import MAX_TURNS
from grpo.episodes.marking import Marker, check_markable
from grpo.episodes.player import Agent, PlannedEpisode, Runner, planned_episodes
from grpo.episodes.references import reach_warning
from grpo.episodes.store import Results, different_settings, read_config
from grpo.episodes.summary import summarise_results
from grpo.episodes.tasks import evaluation_tasks
from grpo.errors import ConfigError, EnvError, EvaluationError, GrpoError
from grpo.eval.output import print_plan, print_summary
from grpo.eval.progress import EvaluationProgress
from grpo.machine.user_code import import_user_module
from grpo.settings import AnswerJudgeSettings, EnvWorkersSetting
from judges import JudgeClient, JudgeError
from judges.llm.secrets import blank_secrets, without_credentials, without_secrets, without_users

if TYPE_CHECKING:
    from grpo.episodes.answer_judge import AnswerJudge

DEFAULT_FOLDER = Path("evals")
DEFAULT_TASKS = 100
"""How many tasks there are of an env that names no scenarios."""

PATIENCE_SECONDS = 10.0
"""How long episodes wait for the first step of the first one, which says where envs are called."""

INFRASTRUCTURE_STATUS = 3
"""Exit status where some episodes ended in infrastructure failures."""

_PACKAGES = ("email-rl", "gymnasium", "openai", "litellm", "mcp", "vllm", "transformers")


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What ``grpo-eval`` was asked for; the fields are its options."""

    env: str
    agent: str
    split: str = "test"
    limit: int | None = None
    k: int = 1
    concurrency: int = 16
    env_workers: EnvWorkersSetting = "auto"
    timeout: float = 600.0
    max_turns: int = MAX_TURNS
    seed: int = 1234
    temperature: float | None = None
    recipe: str | None = None
    dtype: str | None = None
    env_import: str | None = None
    model: str | None = None
    env_kwargs: dict[str, Any] | None = None
    judge_model: str | None = None
    judge_api_base: str | None = None
    judge_max_cost: float | None = None
    judge_timeout_seconds: float = AnswerJudgeSettings().timeout_seconds
    judge_extra_litellm_params: dict[str, Any] | None = None
    judge_audit_share: float = AnswerJudgeSettings().audit_share
    out: Path | None = None
    resume: bool = False
    dry_run: bool = False
    fail_under: float | None = None
    as_json: bool = False


def run_evaluation(request: EvalRequest) -> None:
    """Play, save and print; ends the process with the status that ``grpo-eval --help`` names."""
    aside = stdout_aside if request.as_json else nullcontext  # what envs and agents print is no JSON
    with aside():
        config, episodes, agent = _prepared(request)
    if request.dry_run:
        print_plan(config, episodes, as_json=request.as_json)
        return
    folder = _folder(request, config)
    with aside(), Results.open(folder, config, resume=request.resume) as results:
        summary = _play(request, agent, results, episodes, config)
        results.save_summary(summary)
    print_summary(summary, folder, as_json=request.as_json)
    _end(summary, request)


def _prepared(request: EvalRequest) -> tuple[dict[str, Any], list[PlannedEpisode], Agent]:
    """Settings, episodes and agent, checked; nothing is played or written yet."""
    _judge_settings(request)  # what cannot be used is said before anything is played
    with said_if_slow(f"loading {request.env}"):
        if request.env_import is not None:
            import_user_module(request.env_import)
        kwargs = with_split(request.env, _env_kwargs(request), request.split)
        probe = MessageEnv(request.env, kwargs)
    try:
        scenario_ids = probe.scenario_ids()
        count = request.limit or (len(scenario_ids) if scenario_ids is not None else DEFAULT_TASKS)
        episodes = planned_episodes(evaluation_tasks(scenario_ids, count, request.seed, option="--limit"), request.k)
        options = AgentOptions(
            request.env,
            kwargs,
            scripted=probe.scripted_names(),
            scenarios=tuple(dict.fromkeys(episode.key.scenario_id for episode in episodes)),
            recipe=request.recipe,
            dtype=request.dtype,
            temperature=request.temperature,
            model=request.model,
            say=lambda line: click.echo(line, err=True),
        )
        if remark := probe.told("cut_remark"):
            click.echo(remark, err=True)
        fingerprint = _fingerprint(probe)
        if request.judge_model is not None:
            check_markable(probe, "--judge-model")
        elif probe.has_answer_key():
            for line in reach_warning(probe, [episode.task for episode in episodes[:count]]):
                options.say(line)
    finally:
        probe.close()
    with said_if_slow(f"loading the agent {_public(request.agent)}"):
        agent = make_agent(request.agent, options)
    if agent.needs_env and request.env_workers not in ("auto", "threads", 0):
        raise ConfigError(
            f"--env-workers {request.env_workers}: {request.agent!r} is made from the env itself, which then cannot "
            "live in a worker process; choose auto, threads or 0"
        )
    return _config(request, agent, kwargs, count, fingerprint), episodes, agent


def _env_kwargs(request: EvalRequest) -> dict[str, Any]:
    given = dict(request.env_kwargs or {})
    if not request.agent.startswith("policy:"):
        return given
    from grpo.agents.policy import policy_config
    from grpo.machine.hardware import share_cores

    share_cores()
    return policy_config(request.agent.removeprefix("policy:"), request.recipe, request.env, given)[1]


def _play(
    request: EvalRequest,
    agent: Agent,
    results: Results,
    episodes: list[PlannedEpisode],
    config: dict[str, Any],
) -> dict[str, Any]:
    """Play what has no result yet; returns the summary of all results."""
    began = time.monotonic()
    quiet = request.as_json and not (sys.stderr and sys.stderr.isatty())
    with (
        Display(stderr=True, quiet=quiet) as display,
        display.progress("episodes", len(episodes), EvaluationProgress) as progress,
        _answer_judge(request, results.root) or nullcontext() as answer_judge,
        EnvWorkers(request.env_workers, request.env_import, display.note, stay=agent.needs_env) as workers,
        EnvPool(request.env, config["env_kwargs"], workers, agent.env_thread, PATIENCE_SECONDS) as pool,
    ):
        for row in results.rows.values():
            progress.add(row, earlier=True)
        runner = Runner(
            agent,
            pool,
            results,
            seed=request.seed,
            concurrency=min(request.concurrency, len(episodes)),
            timeout_seconds=request.timeout,
            max_turns=request.max_turns,
            answer_judge=answer_judge,
            on_result=progress.add,
        )
        _run(runner, episodes)
    summary = summarise_results(config, list(results.rows.values()), len(episodes), time.monotonic() - began)
    if answer_judge is not None:
        summary["answer_judge"]["usage"] = str(answer_judge.marker.usage)
    return summary


def _run(runner: Runner, episodes: list[PlannedEpisode]) -> None:
    """Open the agent and have it play. Where nothing but our own errors ended it, the first of them is raised."""

    async def main() -> None:
        async with runner.agent:
            try:
                with interruptible():
                    await runner.run(episodes)
            except KeyboardInterrupt:  # it has ended the loop already; here it would be told once more
                raise asyncio.CancelledError from None

    try:
        asyncio.run(main())
    except ExceptionGroup as errors:
        if errors.split(GrpoError)[1] is not None:
            raise
        raise _first(errors) from errors


def _first(errors: ExceptionGroup[Any]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _judge_settings(request: EvalRequest) -> AnswerJudgeSettings | None:
    if request.judge_model is None:
        if request.judge_api_base or request.judge_max_cost or request.judge_extra_litellm_params:
            names = "--judge-api-base, --judge-max-cost and --judge-extra-litellm-params"
            raise ConfigError(f"{names} go with --judge-model")
        return None
    settings = AnswerJudgeSettings(
        model=request.judge_model,
        api_base=request.judge_api_base,
        concurrency=request.concurrency,
        max_cost=request.judge_max_cost,
        timeout_seconds=request.judge_timeout_seconds,
        extra_litellm_params=request.judge_extra_litellm_params or {},
        audit_share=request.judge_audit_share,
    )
    try:
        JudgeClient(request.judge_model, **settings.call)
    except JudgeError as error:
        raise ConfigError(f"the answer judge: {error}") from error
    return settings


def _answer_judge(request: EvalRequest, folder: Path) -> AnswerJudge | None:
    if (settings := _judge_settings(request)) is None:
        return None
    from grpo.episodes.answer_judge import AnswerJudge

    return AnswerJudge(Marker(settings, folder))


def _config(
    request: EvalRequest, agent: Agent, kwargs: dict[str, Any], count: int, fingerprint: dict[str, str]
) -> dict[str, Any]:
    return {
        "env": request.env,
        "env_kwargs": kwargs,
        "agent": _public(request.agent),
        "model": request.model and _public(request.model),
        "policy": _policy_fingerprint(request, agent),
        "split": kwargs.get("split"),
        "limit": count,
        "k": request.k,
        "seed": request.seed,
        "timeout": request.timeout,
        "max_turns": request.max_turns,
        "temperature": request.temperature,
        "recipe": request.recipe,
        "dtype": request.dtype,
        "judge_model": request.judge_model,
        "judge_api_base": request.judge_api_base and without_credentials(request.judge_api_base),
        "judge_max_cost": request.judge_max_cost,
        "judge_extra_litellm_params": without_secrets(request.judge_extra_litellm_params or {}),
        "judge_audit_share": request.judge_audit_share if request.judge_model is not None else None,
        "concurrency": request.concurrency,
        "env_workers": request.env_workers,
        "fingerprint": fingerprint,
        "versions": _versions(),
    }


def _policy_fingerprint(request: EvalRequest, agent: Agent) -> str | None:
    """One evaluation is of one policy, also where its run has gone on since it began."""
    if not request.agent.startswith("policy:"):
        return None
    from grpo.agents.policy import PolicyAgent

    return agent.fingerprint if isinstance(agent, PolicyAgent) else None


def _public(spec: str) -> str:
    """What an evaluation may show of an agent or a model: no key, and no password of a URL."""
    return blank_secrets(without_users(spec))


def _fingerprint(probe: MessageEnv) -> dict[str, str]:
    found = probe.told("fingerprint") or {}
    if not isinstance(found, dict):
        raise EnvError(
            f"{probe.env_id}.fingerprint() gives {found!r:.100}; a fingerprint is a dict of names and hashes"
        )
    return {str(name): str(value) for name, value in found.items()}


def _versions() -> dict[str, str]:
    versions = {"python": sys.version.split()[0]}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _folder(request: EvalRequest, config: dict[str, Any]) -> Path:
    if request.out is not None:
        return request.out
    if request.resume:
        for path in sorted(DEFAULT_FOLDER.glob("*/config.json"), key=lambda path: -path.stat().st_mtime):
            with suppress(EvaluationError):  # a folder that cannot be read holds nothing to continue
                if not different_settings(read_config(path.parent), config):
                    return path.parent
        raise EvaluationError(
            f"no evaluation in {DEFAULT_FOLDER}/ has these settings; leave --resume out to begin one, or "
            "name its folder with --out"
        )
    slug = re.sub(r"[^\w.-]+", "-", config["agent"]).strip("-")[:60] or "agent"
    stem = f"{slug}-{datetime.now():%Y%m%d-%H%M%S}"
    tries = (DEFAULT_FOLDER / (stem if number == 1 else f"{stem}-{number}") for number in range(1, 1000))
    return next(path for path in tries if not path.exists())


def _end(summary: dict[str, Any], request: EvalRequest) -> None:
    """Say what makes the exit status another one than 0, and exit with it."""
    if summary["infrastructure"]:
        click.echo(
            f"{summary['infrastructure']} of {summary['planned']} episodes ended in infrastructure failures; "
            "the same command with --resume plays them again",
            err=True,
        )
        sys.exit(INFRASTRUCTURE_STATUS)
    if request.fail_under is not None:
        correct = summary["metrics"].get("correct")
        if correct is None:
            raise ConfigError(f"--fail-under needs an env with a metric 'success'; {request.env} has none")
        if correct["mean"] < request.fail_under / 100:
            click.echo(f"{100 * correct['mean']:.1f} % correct is below --fail-under {request.fail_under:g}", err=True)
            sys.exit(1)
