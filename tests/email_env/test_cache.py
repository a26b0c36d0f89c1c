import subprocess
import sys

import pytest

from email_env.cache import cache_folder, demo_database
from email_env.errors import CacheError
from email_env.scenarios.sets import stored_scenarios
from email_env.search.database import MailDatabase
from tests import ROOT


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EMAIL_ENV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("EMAIL_ENV_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "email_env"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "email_env"
    monkeypatch.setenv("EMAIL_ENV_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_the_demo_is_built_once_and_holds_mail_and_questions(cache):
    path = demo_database()
    assert path.parent == cache
    built = path.stat().st_mtime_ns
    assert demo_database() == path
    assert path.stat().st_mtime_ns == built
    database = MailDatabase(path)
    scenarios = stored_scenarios(database)
    assert {scenario.split for scenario in scenarios} == {"train", "validation", "test"}
    assert int(database.metadata["kept"]) >= 5000
    assert len(scenarios) == int(database.metadata["scenarios"]) >= 2000
    database.close()


def test_processes_that_come_at_once_share_one_build(cache, tmp_path):
    code = (
        "import time, email_env.cache as cache\n"
        "from tests.email_env.mails import build, mail\n"
        "cache._build = lambda path: (print('built'), time.sleep(0.5), build(path, mail('m1')))\n"
        "print(cache.demo_database())"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "EMAIL_ENV_CACHE": str(cache)},
        )
        for _ in range(3)
    ]  # fmt: skip
    lines = [line for process in processes for line in process.communicate()[0].split()]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert lines.count("built") == 1
    assert len(set(lines) - {"built"}) == 1
    assert len(list(cache.glob("*.db"))) == 1
    assert not list(cache.glob(".*.tmp"))


def test_a_cache_that_cannot_be_written_names_the_variable_to_set(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("EMAIL_ENV_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CacheError, match="EMAIL_ENV_CACHE"):
        demo_database()
