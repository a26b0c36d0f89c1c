"""One evaluation from the request to the exit status: joins env, agent, folder, player, summary and output."""

import asyncio
import re
import sys
import time
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from grpo.agents.named import make_agent
from grpo.config import EvalConfig, load_config
from grpo.display.streams import said_if_slow, stdout_aside
from grpo.display.terminal import Display
from grpo.ending import Ending
from grpo.envs.message_env import MessageEnv
from grpo.envs.pool import EnvPool
from grpo.envs.registry import with_split
from grpo.envs.workers import EnvWorkers
from grpo.episodes.env_thread import interruptible
from grpo.episodes.marking import Marker, check_markable
from grpo.episodes.player import Agent, PlannedEpisode, Player, planned_episodes
from grpo.episodes.references import reach_warning
from grpo.episodes.store import Results, different_settings, read_config, summary_of
from grpo.episodes.tasks import evaluation_tasks
from grpo.errors import ConfigError, EnvError, EvaluationError
from grpo.eval.output import EvaluationProgress, print_plan, print_summary
from grpo.machine.installed import version_of
from grpo.machine.user_code import import_user_module
from grpo.types import Episode
from grpo.watch import Part, Watchdog, came_back
from judges import JudgeClient, JudgeError

DEFAULT_FOLDER = Path("evals")
DEFAULT_TASKS = 100
"""How many tasks there are of an env that names no scenarios."""

PATIENCE_SECONDS = 10.0
"""How long episodes wait for the first step of the first one, which says where envs are called."""

FIRST_EPISODES = 5
"""An agent that crashes so often in the same way before anything else happens cannot be evaluated."""

REFUSALS = (401, 403, 404)
"""Statuses that do not pass by themselves; after `FIRST_EPISODES` of them nothing else is tried."""

OUTAGE_SECONDS = 90.0
"""How long a model may fail otherwise."""

INFRASTRUCTURE_STATUS = 3
"""Exit status where some episodes ended in infrastructure failures."""

_PACKAGES = ("email-rl", "gymnasium", "openai", "litellm", "mcp", "vllm", "transformers")


def run_evaluation(
    config: EvalConfig, out: Path | None, *, resume: bool, dry_run: bool, fail_under: float | None, as_json: bool
) -> None:
    """Play, save and print; ends the process with the status that ``grpo-eval --help`` names.

    Args:
        config: What is asked for.
        out: Folder of the results; a new one by default, or with ``resume`` the newest of these settings.
        resume: Play only what is missing there.
        dry_run: Print what would be played, and play nothing.
        fail_under: Percent of right answers below which the exit status is 1.
        as_json: Print JSON.
    """
    aside = stdout_aside if as_json else nullcontext  # what envs and agents print is no JSON
    with aside():
        saved, episodes, agent = _prepared(config)
    if dry_run:
        print_plan(saved, episodes, as_json=as_json)
        return
    folder = _folder(out, saved, resume=resume)
    with aside(), Results.open(folder, saved, resume=resume) as results:
        summary = _play(config, agent, results, episodes, saved, as_json=as_json)
        results.save_summary(summary)
    print_summary(summary, folder, as_json=as_json)
    _end(summary, fail_under, config.env)


def _prepared(config: EvalConfig) -> tuple[dict[str, Any], list[PlannedEpisode], Agent]:
    """Settings, episodes and agent, checked; nothing is played or written yet."""
    _check_judge(config)  # what cannot be used is said before anything is played
    with said_if_slow(f"loading {config.env}"):
        if config.env_import is not None:
            import_user_module(config.env_import)
        kwargs = with_split(config.env, _env_kwargs(config), config.split)
        probe = MessageEnv(config.env, kwargs)
    try:
        scenario_ids = probe.scenario_ids()
        count = config.limit or (len(scenario_ids) if scenario_ids is not None else DEFAULT_TASKS)
        tasks = evaluation_tasks(scenario_ids, count, config.seed, option="--limit")
        episodes = planned_episodes(tasks, config.k, config.seed)
        episodes.sort(key=lambda planned: planned.sample_index)  # an early stop has seen every scenario
        scripted, say = probe.scripted_names(), partial(click.echo, err=True)
        for remark in probe.remarks():
            say(remark)
        fingerprint = _fingerprint(probe)
        if config.answer_judge.model is not None:
            check_markable(probe, "--answer-judge")
        elif probe.has_answer_key():
            for line in reach_warning(probe, tasks):
                say(line)
    finally:
        probe.close()
    with said_if_slow(f"loading the agent {config.model_dump(mode='json')['agent']}"):
        agent = make_agent(config, kwargs, scripted, [task.key for task in tasks], say)
    if agent.needs_env and config.env_workers not in ("auto", "threads", 0):
        raise ConfigError(
            f"--env-workers {config.env_workers}: {config.agent!r} is made from the env itself, which then cannot "
            "live in a worker process; choose auto, threads or 0"
        )
    found = {
        "env_kwargs": kwargs,
        "split": kwargs.get("split"),
        "limit": count,
        "policy": agent.fingerprint,  # one evaluation is of one policy, also where its run goes on
        "fingerprint": fingerprint,
        "versions": {"python": sys.version.split()[0]} | {name: at for name in _PACKAGES if (at := version_of(name))},
    }
    saved = config.model_dump(mode="json") | found
    return saved, episodes, agent


def _env_kwargs(config: EvalConfig) -> dict[str, Any]:
    given = dict(config.env_kwargs)
    policy = next((who for who in (config.agent, config.model or "") if who.startswith("policy:")), None)
    if policy is None:
        return (
            load_config(config.recipe, {"env": config.env, "env_kwargs": given}).env_kwargs if config.recipe else given
        )
    from grpo.agents.served import policy_config
    from grpo.machine.hardware import share_cores

    share_cores()
    return policy_config(policy.removeprefix("policy:"), config.recipe, config.env, given).env_kwargs


def _play(
    config: EvalConfig,
    agent: Agent,
    results: Results,
    episodes: list[PlannedEpisode],
    saved: dict[str, Any],
    *,
    as_json: bool,
) -> dict[str, Any]:
    """Play what has no result yet; returns the summary of all results."""
    began = time.monotonic()
    quiet = as_json and not (sys.stderr and sys.stderr.isatty())
    marker = None if config.answer_judge.model is None else Marker(config.answer_judge, results.root)
    with (
        Display(stderr=True, quiet=quiet) as display,
        Watchdog(display.note, results.root, display.doing),
        display.progress("episodes", len(episodes), EvaluationProgress) as progress,
        EnvWorkers(config.env_workers, config.env_import, display.note, stay=agent.needs_env) as workers,
        EnvPool(config.env, saved["env_kwargs"], workers, agent.env_thread, PATIENCE_SECONDS) as pool,
    ):
        for episode in results.episodes.values():
            progress.add(episode, earlier=True)
        player = Player(agent, pool, timeout_seconds=config.timeout, max_turns=config.max_turns, marker=marker)

        def keep(episode: Episode) -> None:
            if marker is not None:
                marker.check_usable()
            results.add(episode)
            progress.add(episode)
            failing.check(episode)

        missing = [planned for planned in episodes if planned.key not in results.episodes]
        failing = _Failing()

        async def play() -> None:
            async with agent, results.kept_up():
                try:
                    with interruptible():
                        await player.each(missing, min(config.concurrency, len(episodes)), keep)
                except KeyboardInterrupt:  # it has ended the loop already; here it would be told once more
                    raise asyncio.CancelledError from None

        asyncio.run(play())
    summary = summary_of(saved, list(results.episodes.values()), len(episodes), time.monotonic() - began)
    if marker is not None and summary["answer_judge"]:
        summary["answer_judge"]["usage"] = str(marker.usage)
    return summary


class _Failing:
    """Ends an evaluation of which nothing can come: its agent crashes from the start, or its model gives nothing."""

    def __init__(self) -> None:
        self._first: list[tuple[Ending, str]] = []
        self._refused = 0
        self._began = time.monotonic()

    def check(self, episode: Episode) -> None:
        """After each episode.

        Raises:
            EvaluationError: Why it ends.
        """
        if len(self._first) < FIRST_EPISODES:
            self._first.append((episode.ending, episode.error))
            if self._first.count((Ending.AGENT_CRASH, episode.error)) == FIRST_EPISODES:
                raise EvaluationError(
                    f"the agent crashed in each of the first {FIRST_EPISODES} episodes: {episode.error}; mend it, and "
                    "begin another evaluation"
                )
        call = episode.calls[-1] if episode.calls else None
        if episode.ending is not Ending.INFRASTRUCTURE or call is None or not call.is_server_fault:
            self._refused = 0
            return
        self._refused = self._refused + 1 if call.status in REFUSALS else 0
        if self._refused == FIRST_EPISODES:
            raise EvaluationError(
                f"the model refused {FIRST_EPISODES} episodes in a row: {episode.error}; mend the key "
                "(OPENAI_API_KEY) or --model, and go on with --resume"
            )
        if time.monotonic() - max(self._began, came_back(Part.MODEL)) > OUTAGE_SECONDS:
            raise EvaluationError(
                f"the model has answered nothing for {OUTAGE_SECONDS:g} s: {episode.error}; go on with --resume when "
                "it is well"
            )


def _check_judge(config: EvalConfig) -> None:
    judge = config.answer_judge
    if judge.model is not None:
        try:
            JudgeClient(judge.model, **judge.call)
        except JudgeError as error:
            raise ConfigError(f"the answer judge: {error}") from error


def _fingerprint(probe: MessageEnv) -> dict[str, str]:
    found = probe.optional("fingerprint") or {}
    if not isinstance(found, dict):
        raise EnvError(
            f"{probe.env_id}.fingerprint() gives {found!r:.100}; a fingerprint is a dict of names and hashes"
        )
    return {str(name): str(value) for name, value in found.items()}


def _folder(out: Path | None, saved: dict[str, Any], *, resume: bool) -> Path:
    if out is not None:
        return out
    if resume:
        for path in sorted(DEFAULT_FOLDER.glob("*/config.json"), key=lambda path: -path.stat().st_mtime):
            with suppress(EvaluationError):  # a folder that cannot be read holds nothing to continue
                if not different_settings(read_config(path.parent), saved):
                    return path.parent
        raise EvaluationError(
            f"no evaluation in {DEFAULT_FOLDER}/ has these settings; leave --resume out to begin one, or "
            "name its folder with --out"
        )
    slug = re.sub(r"[^\w.-]+", "-", saved["agent"]).strip("-")[:60] or "agent"
    stem = f"{slug}-{datetime.now():%Y%m%d-%H%M%S}"
    tries = (DEFAULT_FOLDER / (stem if number == 1 else f"{stem}-{number}") for number in range(1, 1000))
    return next(path for path in tries if not path.exists())


def _end(summary: dict[str, Any], fail_under: float | None, env: str) -> None:
    """Say what makes the exit status another one than 0, and exit with it."""
    if summary["failed"]:
        click.echo(
            f"{summary['failed']} of {summary['planned']} episodes ended in infrastructure failures; "
            "the same command with --resume plays them again",
            err=True,
        )
        sys.exit(INFRASTRUCTURE_STATUS)
    if fail_under is not None:
        correct = summary["metrics"].get("answer/correct")
        if correct is None:
            raise ConfigError(f"--fail-under needs an env with a metric 'success'; {env} has none")
        if correct["mean"] < fail_under / 100:
            click.echo(f"{100 * correct['mean']:.1f} % correct is below --fail-under {fail_under:g}", err=True)
            sys.exit(1)
