"""Two episodes at once, each with a mailbox of its own: what a hostile program asks by its door never leads to the other's."""

import json
import sqlite3
import sys

import pytest
from click.testing import CliRunner

from email_env.cli import main as build_enron_db
from tests.email_env.test_fuzz import HOSTILE, Mail
from tests.support.evaluations import evaluated

pytest.importorskip("mcp", reason="tools over MCP need the extra 'eval'")

PROGRAM = """
import json, os, random, sys
import anyio, httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

url = os.environ["AGENT_MCP_URL"]
ids, people, hostile = json.load(open(sys.argv[1]))
draw, said = random.Random(url), []

async def main():
    async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        async def call(name, **arguments):
            try:
                result = await session.call_tool(name, arguments)
            except Exception as error:
                said.append(repr(error))
            else:
                said.extend(part.text for part in result.content)
        for message_id in draw.sample(ids, 60):
            await call("read_email", message_id=message_id)
        for address in draw.sample(people, 15):
            await call("search_inbox", keywords=["the"], to_addr=address)
            await call("search_inbox", keywords=["the"], inbox=address, owner=address, scenario_id=0)
            await call("read_email", message_id=draw.choice(ids), inbox=address)
        for word in hostile:
            await call("search_inbox", keywords=[word])
            await call("read_email", message_id=word)
            await call(str(word), message_id=draw.choice(ids))
    root, _, rest = url.partition("/ep/")
    token = rest.partition("/")[0]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search_inbox", "arguments": {"keywords": ["the"]}}}
    kind = {"Accept": "application/json, text/event-stream"}
    for other in ("", "0" * len(token), token[:-1], token.upper(), "..", "%2e%2e", token + "/../" + "0" * len(token), "*"):
        reply = httpx.post(f"{root}/ep/{other}/mcp", json=message, headers=kind)
        said.append(f"{reply.status_code} {reply.text}")

anyio.run(main)
print(json.dumps(said))
"""


def test_a_program_sees_its_own_mailbox_alone(tmp_path, monkeypatch):
    database = tmp_path / "mail.db"
    built = CliRunner().invoke(build_enron_db, ["demo", "--out", str(database)])
    assert built.exit_code == 0, built.output
    mail = Mail(database)
    words = [word for word in HOSTILE if isinstance(word, str) and word.isprintable()]
    (tmp_path / "known.json").write_text(json.dumps([mail.ids, mail.addresses, words]))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setenv("EMAIL_ENV_DB", str(database))
    agent = f"cmd:{sys.executable} {program} {tmp_path / 'known.json'}"
    size = ("--limit", "2", "--concurrency", "2", "--env-kwargs", '{"max_turns": 1000}')
    rows, shown = evaluated(tmp_path / "run", "--agent", agent, *size, env="EmailSearch-v0")
    assert [row["ending"] for row in rows] == ["answered"] * 2, (shown.output, rows[0]["error"])
    inboxes = dict(sqlite3.connect(database).execute("SELECT scenario_id, inbox FROM scenarios"))
    read: dict[str, set[str]] = {}
    for row in rows:
        said, own = json.loads(row["answer"]), inboxes[row["scenario_id"]]
        in_it = {message_id for message_id, (_, people) in mail.seen_by.items() if own in people}
        met = {
            message_id for text in said if not text.startswith("Error") for message_id in mail.ids if message_id in text
        }
        assert met <= in_it, "of another's mailbox"
        assert sum(text.startswith("Error") for text in said) > 40, "most of what it asked is refused"
        for text in said[-8:]:  # other addresses of the endpoint
            assert not any(message_id in text for message_id in mail.ids), text
        read[own] = met
    assert len(read) == 2
    assert all(read.values()), "its own mail it has seen"
