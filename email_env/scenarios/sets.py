"""Sets of scenarios: those of a database, a JSONL file, or a hub data set (`corbt/enron_emails_sample_questions`).

Whether a database can serve the scenarios of a file or a data set is not checked here, but in
`email_env.scenarios.misfits`.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from email_env.errors import ScenarioError
from email_env.scenarios import hub
from email_env.scenarios.scenario import Scenario, read_scenario
from email_env.search.database import MailDatabase

KNOWN_BAD = frozenset({"49", "101", "129", "171", "208", "266", "327"})
"""Ids of the Enron question set that ART-E leaves out: ambiguous, or contradicted by other mail."""

_HUB_SPLITS = ("train", "test")
_HUB_COLUMNS = ("id", "question", "answer", "message_ids", "inbox_address", "query_date")
_log = logging.getLogger(__name__)


def load_scenarios(source: str | Path, max_evidence: int | None = None) -> list[Scenario]:
    """Reads a set of scenarios.

    Args:
        source: a file with one JSON object per line, the name of the hub's question set, or a folder that holds it as
            Parquet.
        max_evidence: leave out questions that need more mails than this; 0 leaves out none. None means 1 for the hub's
            set (as in ART-E) and 0 for a file.

    Raises:
        ScenarioError: the file cannot be read, a line is no scenario (its number is named), an id occurs twice, or a
            folder holds no data set.
        HubError: the data set is out of reach.
    """
    path = Path(os.path.expanduser(source))
    by_name = str(source) == hub.QUESTIONS
    if path.is_dir() and not by_name and not hub.is_dataset(path):
        raise ScenarioError(f"{str(path)!r} is a folder; name a JSONL file, or a folder of a data set's Parquet files.")
    from_hub = by_name or path.is_dir()
    scenarios = _hub_scenarios(str(source) if by_name else str(path)) if from_hub else _file_scenarios(path)
    most = int(from_hub) if max_evidence is None else max_evidence
    return [scenario for scenario in scenarios if not most or len(scenario.message_ids) <= most]


def stored_scenarios(database: MailDatabase, split: str | None = None) -> list[Scenario]:
    """The questions that came with the mail, all or those of one split, in the order they were built."""
    where, values = ("", ()) if split is None else (" WHERE split = ?", (split,))
    rows = database.connection().execute(f"SELECT data FROM scenarios{where} ORDER BY rowid", values)
    return [read_scenario(data) for (data,) in rows]


def _file_scenarios(path: Path) -> list[Scenario]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(
            f"Cannot read scenarios from {str(path)!r}: {error}. Expected a JSONL file or {hub.QUESTIONS}."
        ) from error
    scenarios: dict[str, Scenario] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            scenario = read_scenario(line)
        except ScenarioError as error:
            raise ScenarioError(f"{path}, line {number}: {error}") from error
        if scenario.scenario_id in scenarios:
            raise ScenarioError(f"{path}, line {number}: scenario id {scenario.scenario_id!r} occurs twice.")
        scenarios[scenario.scenario_id] = scenario
    return list(scenarios.values())


def _hub_scenarios(name: str) -> Iterator[Scenario]:
    """The hub's questions without the known bad ones. An id that occurs in both splits is `ID-test` in the second."""
    seen: set[str] = set()
    for split in _HUB_SPLITS:
        for row in hub.rows(hub.open_dataset(name, split), name):
            if str(row.get("id")) in KNOWN_BAD:
                continue
            try:
                scenario = _hub_scenario(row, split, seen)
            except ScenarioError as error:
                _log.warning("Question %r of %s is left out: %s", row.get("id"), name, error)
                continue
            seen.add(scenario.scenario_id)
            yield scenario


def _hub_scenario(row: dict[str, Any], split: str, seen: set[str]) -> Scenario:
    data = {column: row[column] for column in _HUB_COLUMNS if column in row}
    if str(row.get("id")) in seen:
        data["id"] = f"{row['id']}-{split}"
    return Scenario.from_dict({**data, "split": split})
