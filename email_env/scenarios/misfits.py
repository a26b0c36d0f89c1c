"""Which scenarios a mail database can serve, and why it cannot serve the others.

Scenarios are checked where they meet the mail: when a database is built, and when `scenarios=` are given to the
environment. A question whose evidence is missing could never be answered.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from email_env.scenarios.scenario import Scenario
from email_env.search.query import who


def sort_out(connection: sqlite3.Connection, scenarios: Iterable[Scenario]) -> tuple[list[Scenario], dict[str, str]]:
    """Splits scenarios into those that fit the mail and, by id, the reasons why the others do not.

    A scenario fits where its inbox has mail and shows every piece of the evidence by the scenario's date.
    """
    fitting: dict[str, Scenario] = {}
    misfits: dict[str, str] = {}
    for scenario in scenarios:
        seen = scenario.scenario_id in fitting or scenario.scenario_id in misfits
        problem = "its id occurs twice" if seen else _problem(connection, scenario)
        if problem:
            misfits[scenario.scenario_id] = problem
        else:
            fitting[scenario.scenario_id] = scenario
    return list(fitting.values()), misfits


def _problem(connection: sqlite3.Connection, scenario: Scenario) -> str:
    inbox = connection.execute("SELECT id FROM addresses WHERE address = ?", (scenario.inbox,)).fetchone()
    if inbox is None:
        return f"no mail of {scenario.inbox}"
    if scenario.answerable and not scenario.answer.strip():
        return "its answer is empty"
    for message_id in scenario.message_ids:
        row = connection.execute(
            "SELECT who, substr(sent_at, 1, 10) FROM emails WHERE message_id = ?", (message_id,)
        ).fetchone()
        if row is None:
            return f"no mail {message_id}"
        if who("p", inbox[0]) not in row[0].split():
            return f"{message_id} is not in the inbox of {scenario.inbox}"
        if row[1] > scenario.query_date:
            return f"{message_id} was sent on {row[1]}, after {scenario.query_date}"
    return ""
