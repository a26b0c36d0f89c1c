"""What an answer judge says of answers that a rule took for right: how many it refuses, and which."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from grpo.display.metrics import counted
from grpo.episodes.marking import audit_warning
from grpo.episodes.record import episode_of
from grpo.errors import ReportError
from grpo.types import Episode

MAX_SHOWN = 20
"""Refused answers on a page; all of them can be found among its episodes."""

_HAS_AUDIT = re.compile(rb'"audit": ?\{')


def audit_section(sources: Iterable[tuple[str, Iterable[Episode]]]) -> dict[str, Any] | None:
    """The audits of episodes, by the label of where these come from; None where nothing was audited."""
    audited, refused = 0, list[dict[str, Any]]()
    for source, episodes in sources:
        for episode in episodes:
            if audit := episode.audit:
                audited += 1
                if not audit["accept"]:
                    refused.append({**audit, "source": source, "scenario_id": episode.task.key})
    if not audited:
        return None
    answers = counted(audited, "answer")
    said = f"Of {answers} that the rule took for right and the judge saw, too, the judge refuses {len(refused)}."
    return {"audited": audited, "refused": len(refused), "said": said, "rows": refused[:MAX_SHOWN]}


def warnings_of(section: Mapping[str, Any] | None, bound: float) -> list[str]:
    """A line where the judge refuses more than the bound."""
    warning = audit_warning(section["refused"], section["audited"], bound) if section else ""
    return [f"{warning[0].upper()}{warning[1:]}."] if warning else []


def audited_episodes(path: Path) -> Iterator[Episode]:
    """Those of a step's episodes that were audited; the other lines are not read.

    Raises:
        ReportError: The file can't be read.
    """
    try:
        for line in path.read_bytes().split(b"\n"):
            if _HAS_AUDIT.search(line):
                yield episode_of(json.loads(line))
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} can't be reported on: {error}; mend or remove that file") from error
