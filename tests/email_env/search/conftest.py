"""The database of `falcon.py`."""

import pytest

from email_env.search.database import MailDatabase
from tests.email_env.mails import build, question
from tests.email_env.search.falcon import MAILS


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("database") / "mail #1?.db"  # characters that mean something in a URI
    build(path, *MAILS, scenarios=[question("b"), question("a", split="test")])
    return path


@pytest.fixture
def db(path):
    database = MailDatabase(path)
    yield database
    database.close()
