"""Datasette opens a database as docs/mail-databases.md says: a real server on a local port, asked over HTTP."""

import re
import subprocess
import sys
from importlib.util import find_spec

import httpx
import pytest

from tests.email_env.mails import build, mail

NO_DATASETTE = find_spec("datasette") is None  # not imported: it turns on tracebacks of SQLite's callbacks
pytestmark = pytest.mark.skipif(NO_DATASETTE, reason="browsing a database needs datasette (install the extra 'dev')")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "mail.db"
    build(
        path, mail("m1", "Falcon budget", "It grew."), mail("m2", "Lunch", "At the falcon."), mail("m3", "Other", "No.")
    )
    command = [sys.executable, "-m", "datasette", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            yield found[0]
            break
    else:
        pytest.fail("datasette ended without serving")
    process.terminate()
    process.communicate()


def test_datasette_finds_the_mail_table_with_its_full_text_index(address):
    tables = {table["name"]: table for table in httpx.get(f"{address}/mail.json").json()["tables"]}
    assert (tables["emails"]["fts_table"], tables["emails"]["count"]) == ("emails_fts", 3)


def test_datasette_searches_the_mail(address):
    found = httpx.get(f"{address}/mail/emails.json", params={"_search": "falcon", "_shape": "array"}).json()
    assert {row["message_id"] for row in found} == {"m1", "m2"}
    page = httpx.get(f"{address}/mail/emails", params={"_search": "budget"}).text
    assert "Falcon" in page
    assert "Lunch" not in page
