"""Hub data sets, from folders in the form of one and from a hub on a local port: the real one is not in reach of a test."""

import json
import os
import subprocess
import sys

import pytest

from email_env.errors import HubError, ScenarioError, SourceError
from email_env.ingest.sources import open_source
from email_env.scenarios import hub
from email_env.scenarios.sets import KNOWN_BAD, load_scenarios
from email_env.search.database import MailDatabase
from tests import ROOT
from tests.email_env.ingest.test_tables import MAIL, ROW, parquet
from tests.email_env.scenarios.test_scenarios import HUB as QUESTION
from tests.support.hub_server import HubServer


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of the two data sets, and nothing in the user's cache."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    pytest.importorskip("datasets", reason="hub data sets need the package datasets (install the extra 'hub')")
    (tmp_path / "mails" / "data").mkdir(parents=True)
    (tmp_path / "questions").mkdir()
    parquet(
        tmp_path / "mails" / "data" / "train-00000-of-00001.parquet",
        *({**ROW, "file_name": f"{n}."} for n in range(30)),
    )
    row = {key: value for key, value in QUESTION.items() if key != "split"}
    ids = ["<18.107@thyme>"]
    rows = [row | {"id": n, "message_ids": ids} for n in (1, 2, 49)] + [row | {"id": 3, "message_ids": ids * 2}]
    parquet(tmp_path / "questions" / "train.parquet", *rows)
    parquet(
        tmp_path / "questions" / "test.parquet", row | {"id": 1, "message_ids": ids}, row | {"id": 4, "question": ""}
    )
    return tmp_path


def test_a_data_set_is_streamed_as_mail(folder):
    source = open_source(folder / "mails")
    found = list(source.mails)
    assert [m.source for m in found] == [f"{n}." for n in range(30)]
    assert (found[0].to, found[0].body, found[0].sent_at) == (MAIL.to, MAIL.body, MAIL.sent_at)
    assert source.position() == 30


def test_the_question_set_is_read_without_the_known_bad_ones(folder, caplog):
    found = load_scenarios(folder / "questions")
    assert [(s.scenario_id, s.split) for s in found] == [("1", "train"), ("2", "train"), ("1-test", "test")]
    assert found[0].message_ids == ("18.107@thyme",)
    assert "Question 4 of" in caplog.text
    assert "question of a scenario must be a non-empty string" in caplog.text
    assert "49" in KNOWN_BAD


def test_an_ordinary_folder_is_no_question_set(tmp_path):
    (tmp_path / "train.jsonl").write_text(json.dumps(QUESTION))
    said = f"{str(tmp_path)!r} is a folder; name a JSONL file, or a folder of a data set's Parquet files."
    with pytest.raises(ScenarioError) as caught:
        load_scenarios(tmp_path)
    assert str(caught.value) == said


def test_questions_that_need_more_mails_are_an_option(folder):
    assert [s.scenario_id for s in load_scenarios(folder / "questions", 2)] == ["1", "2", "3", "1-test"]
    assert len(load_scenarios(folder / "questions", 0)) == 4


NOWHERE = "http://127.0.0.1:1"


def run(endpoint, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "email_env", "build-enron-db", *map(str, arguments)],
        env={**os.environ, "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


def test_the_command_takes_both_data_sets(folder):
    out = folder / "mail.db"
    sources = [folder / "mails", "--format", "hub", "--scenarios", folder / "questions"]
    done = run(NOWHERE, *sources, "--keep-duplicates", "--limit", 20, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["read"], report["kept"], report["skipped"]) == (20, 1, {"duplicate_message_id": 19})
    assert report["scenario_misfits"] == dict.fromkeys(["1", "2", "1-test"], "no mail of daren.farmer@enron.com")
    MailDatabase(out).close()


def test_without_a_source_the_hub_at_hf_endpoint_is_read(folder):
    mails = {"data/train-00000-of-00001.parquet": (folder / "mails/data/train-00000-of-00001.parquet").read_bytes()}
    questions = {
        f"{split}.parquet": (folder / "questions" / f"{split}.parquet").read_bytes() for split in ("train", "test")
    }
    out = folder / "mail.db"
    with HubServer({hub.MAILS: mails, hub.QUESTIONS: questions}) as server:
        done = run(server.url, "--out", out, "--scenarios", hub.QUESTIONS, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["source"], report["read"], report["kept"]) == ("corbt/enron-emails", 30, 1)
    assert set(report["scenario_misfits"]) == {"1", "2", "1-test"}
    database = MailDatabase(out)
    assert database.metadata["source"] == "corbt/enron-emails"
    database.close()


def test_a_hub_without_the_data_set_is_a_clear_error_that_names_it(folder):
    out = folder / "out" / "mail.db"
    with HubServer({}) as server:
        done = run(server.url, "--out", out)
    assert done.returncode == 1
    assert any(hub.MAILS in request.path for request in server.requests)
    assert f"Error: Cannot read the data set 'corbt/enron-emails' from {server.url}" in done.stderr
    assert "enron_mail_20150507.tar.gz" in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.parent.exists()


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(SourceError, match=r"pip install 'email-rl\[hub\]' Another source"):
        open_source()
    with pytest.raises(HubError, match=r"'corbt/enron_emails_sample_questions' .* pip install"):
        load_scenarios(hub.QUESTIONS)


def test_a_hub_that_refuses_connections_is_asked_once(folder):
    done = run(NOWHERE, "--out", folder / "mail.db")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()  # its client would say five times that it tries again
    assert line.startswith(f"Error: Cannot read the data set 'corbt/enron-emails' from {NOWHERE} ([Errno 111]")
