"""The real thing: 27,697 messages of the public Enron archive and questions about them, where they are at hand.

They are no part of this project. `EMAIL_ENV_REAL_MAIL` names the folder that holds `enron-maildir.tar.gz`, `emails.csv`
and `questions.jsonl`. Nothing of them is quoted here.
"""

import email
import json
import os
import re
import sqlite3
import tarfile
from collections import Counter
from datetime import date, timedelta
from email.utils import getaddresses
from itertools import combinations
from pathlib import Path

import gymnasium
import pytest
from click.testing import CliRunner

import email_env
from email_env.cli import main
from email_env.ingest.build import build_database
from email_env.ingest.sources import open_source
from email_env.scenarios.sets import load_scenarios
from email_env.search.database import MailDatabase
from tests import ROOT
from tests.email_env.office import episode

FOLDER = Path(os.environ.get("EMAIL_ENV_REAL_MAIL", ROOT.parent / "shared" / "enron"))
ARCHIVE, TABLE, QUESTIONS = FOLDER / "enron-maildir.tar.gz", FOLDER / "emails.csv", FOLDER / "questions.jsonl"

pytestmark = pytest.mark.skipif(
    not QUESTIONS.is_file(), reason=f"no real mail in {FOLDER}; name its folder in EMAIL_ENV_REAL_MAIL"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """One command: the archive with its questions. Gives the database's path, the report and the list of skips."""
    folder = tmp_path_factory.mktemp("real")
    out, skips = folder / "enron.db", folder / "skips.jsonl"
    arguments = [ARCHIVE, "--out", out, "--scenarios", QUESTIONS, "--report", skips, "--json"]
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return out, json.loads(result.stdout), [json.loads(line) for line in skips.read_text().splitlines()]


@pytest.fixture(scope="module")
def sources():
    """The source mails of the questions, by message id, as the standard library reads them."""
    wanted = {message_id for scenario in load_scenarios(QUESTIONS) for message_id in scenario.message_ids}
    found = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            content = archive.extractfile(member)
            message = email.message_from_bytes(content.read()) if content else None
            key = str(message["Message-ID"]).strip("<>") if message else ""
            if key in wanted:
                found[key] = message
    return found


def test_every_message_is_in_or_skipped_for_a_known_reason(built):
    _, report, skips = built
    assert report["read"] == 27_697
    assert report["kept"] + sum(report["skipped"].values()) == 27_697
    assert set(report["skipped"]) == {"body_too_long", "too_many_recipients", "duplicate_content"}
    assert Counter(skip["reason"] for skip in skips) == report["skipped"]
    assert all(re.fullmatch(r"[a-z0-9.-]+/.+/\d+\.", skip["source"]) for skip in skips)


def test_each_folder_is_found_to_be_its_owners(built):
    """The folders are called after them, a few with another spelling; nearly all have more mail than names them."""
    _, report, _ = built
    folders = {owner["folders"][0]: owner["address"] for owner in report["owners"]}
    assert len(folders) == len(report["owners"]) == 28
    assert sum(folder.partition("-")[0] in address for folder, address in folders.items()) >= 26


def test_every_skip_is_what_its_reason_says(built):
    """Checked against the standard library's parser, which is right about nearly all of this mail."""
    out, _, skips = built
    reasons = {skip["source"]: skip["reason"] for skip in skips}
    wrong = Counter()
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            content = archive.extractfile(member)
            reason = reasons.get(member.name.partition("maildir/")[2])
            if content is None or reason == "duplicate_content":
                continue
            message = email.message_from_bytes(content.read())
            payload = message.get_payload(decode=True)
            body = payload.decode("latin-1").replace("\r\n", "\n").strip() if isinstance(payload, bytes) else ""
            people = {
                a.lower() for name in ("To", "Cc", "Bcc") for a in re.split(r"[,\s]+", message.get(name) or "") if a
            }
            if (reason == "body_too_long") != (len(body) > 5000 and reason != "too_many_recipients"):
                wrong["body"] += 1
            if reason == "too_many_recipients" and len(people) <= 30:
                wrong["recipients"] += 1
    assert not out.with_suffix(".db-journal").exists()
    assert wrong.total() <= 20, wrong


def test_all_questions_fit_the_archive(built):
    _, report, _ = built
    assert (report["scenarios"], report["scenario_misfits"]) == (len(load_scenarios(QUESTIONS)), {})


def test_the_source_mail_of_every_question_is_found_by_words_of_the_question_and_read_intact(built, sources):
    database = MailDatabase(built[0])
    scenarios = load_scenarios(QUESTIONS)
    assert len(scenarios) >= 20
    for scenario in scenarios:
        words = sorted(set(re.findall(r"[A-Za-z0-9]{3,}", scenario.question)), key=len, reverse=True)[:10]
        (message_id,) = scenario.message_ids
        at = {"inbox": scenario.inbox, "until": scenario.query_date}
        searches = ([*pair] for size in (3, 2, 1) for pair in combinations(words, size))
        assert any(
            message_id in [hit.message_id for hit in database.search(keywords=pair, **at)] for pair in searches
        ), scenario.scenario_id
        mail, source = database.read(message_id, **at), sources[message_id]
        assert mail is not None
        for header, addresses in (("To", mail.to), ("Cc", mail.cc)):
            assert list(addresses) == [a.lower() for _, a in getaddresses([source.get(header, "")]) if a]
        assert mail.from_addr == source["From"].lower()
        assert mail.body == source.get_payload(decode=True).decode("latin-1").replace("\r\n", "\n").strip()
    database.close()


def test_the_mail_of_every_question_is_found_by_the_name_of_its_sender_and_of_a_recipient(built, sources):
    database = MailDatabase(built[0])
    for scenario in load_scenarios(QUESTIONS):
        (message_id,) = scenario.message_ids
        at = {"inbox": scenario.inbox, "until": scenario.query_date}
        mail, source = database.read(message_id, **at), sources[message_id]
        assert mail is not None
        day = {
            "sent_after": mail.sent_at[:10],
            "sent_before": str(date.fromisoformat(mail.sent_at[:10]) + timedelta(1)),
        }
        assert f" {mail.sent_at[11:19]} {mail.sent_at[19:].replace(':', '').replace('Z', '+0000')}" in source["Date"]
        for header, role in (("X-From", "from_addr"), ("X-To", "to_addr")):
            name = re.split(r" *[<(]", source[header])[0].strip('"').removesuffix("@ENRON")
            if header == "X-From" or (len(mail.to) == 1 and re.fullmatch(r"[\w ,.'-]+", name)):
                for asked in ({"keywords": [name]}, {"keywords": [], role: name}):
                    found = [hit.message_id for hit in database.search(**at, **day, **asked, max_results=10)]
                    assert message_id in found or len(found) == 10, (scenario.scenario_id, header)
    database.close()


def test_the_environment_plays_the_questions(built):
    env = gymnasium.make(email_env.ENV_ID, db_path=built[0], scenarios=QUESTIONS, split="test").unwrapped
    assert (len(env.scenario_ids()), env.misfits) == (20, {})
    for scenario_id in env.scenario_ids():
        _, metrics = episode(env, "oracle", scenario_id)
        assert [metrics[name] for name in ("found", "read", "success")] == [1.0] * 3, scenario_id
    env.close()


def test_the_table_goes_in_with_every_message_accounted_for(tmp_path):
    source = open_source(TABLE)
    report = build_database(source.mails, tmp_path / "mail.db", source=source.name)
    assert report.read == report.kept + sum(report.skipped.values()) > 2000
    assert set(report.skipped) <= {"body_too_long", "too_many_recipients", "duplicate_content"}
    connection = sqlite3.connect(tmp_path / "mail.db")
    (lost,) = connection.execute(
        "SELECT count(*) FROM emails WHERE from_addr NOT LIKE '%_@_%' OR message_id = ''"
    ).fetchone()
    connection.close()
    assert lost == 0
