"""Which scenarios a mail database can serve, and why it cannot serve the others.

Scenarios are checked where they meet the mail: when a database is built, and when `scenarios=` are given to the
environment. A question whose evidence is missing could never be answered. One that names no evidence has no answer in
the mailbox; if it has an answer all the same, its evidence was forgotten, and the right answer would count as wrong.
"""

import sqlite3
from collections.abc import Iterable

from email_env.scenarios.scenario import DONT_KNOW, Scenario
from email_env.search.query import who


def sort_out(connection: sqlite3.Connection, scenarios: Iterable[Scenario]) -> tuple[list[Scenario], dict[str, str]]:
    """Splits scenarios into those that fit the mail and, by id, the reasons why the others do not.

    A scenario fits where its inbox has mail and shows every piece of the evidence by the scenario's date. Without
    evidence its answer is empty or a form of "I don't know".
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
    answer = scenario.answer.strip()
    if scenario.answerable and not answer:
        return "its answer is empty"
    if answer and not scenario.answerable and not _says_so(scenario):
        return f"it has an answer but no message_ids; where the mail does not say, the answer is {DONT_KNOW!r}"
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


def _says_so(scenario: Scenario) -> bool:
    from judges.answers.giving_up import speaks_of_not_knowing  # the patterns take a moment to compile
    from judges.answers.tokens import tokens

    return speaks_of_not_knowing(tokens(scenario.answer))
