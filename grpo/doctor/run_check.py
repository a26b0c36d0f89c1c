"""What a run's folder says, whether the run goes on or is over: how far it is, what it waits for, how it learns."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from grpo.doctor.checks import Result
from grpo.errors import ConfigError
from grpo.runs.diagnosis import diagnose
from grpo.runs.directory import is_in_use
from grpo.watch import FILE_NAME
from judges.common.files import DamagedFileError, read_json, read_jsonl


def check_run(root: Path) -> Iterator[Result]:
    """Look at a run.

    Raises:
        ConfigError: It is none.
    """
    try:
        config = read_json(root / "config.json", "env", "steps")
    except (OSError, DamagedFileError) as error:
        raise ConfigError(f"{root} holds no run: {error}") from error
    damaged: list[str] = []
    steps = read_jsonl(root / "metrics.jsonl", damaged)
    goes_on = is_in_use(root)
    how = "it goes on" if goes_on else "no process works on it"
    if not goes_on and len(steps) < config["steps"]:
        how += "; grpo-train --resume goes on with it"
    yield Result("run", "ok", f"{config['env']}, {len(steps)} of {config['steps']} steps; {how}")
    if goes_on:
        yield from _now(root)
    for what in damaged:
        yield Result("records", "failed", f"{what}; it is left out wherever records are shown")
    found = diagnose(steps)
    for one in found:
        yield Result(one.name, "failed", f"from step {one.step}: {one.text}")
    if steps and not found:
        yield Result("learning", "ok", "none of the known ways in which training goes nowhere")


def _now(root: Path) -> Iterator[Result]:
    with suppress(OSError, DamagedFileError):  # it may just begin or end
        state = read_json(root / FILE_NAME, "doing", "parts", "time")
        old = time.time() - state["time"]
        doing = "; ".join(state["doing"]) or "between two parts"
        yield Result("now", "ok", f"{doing} ({old:.0f} s ago)")
        for part, one in state["parts"].items():
            still = f"{one['doing']} has not moved for {one['seconds']:.0f} s"
            yield Result(part, "failed" if one["named"] else "ok", still)
