"""The office's mailbox and an environment over it, for all tests of the environment; and databases of other mail."""

from contextlib import ExitStack, closing

import pytest

from email_env.env import EmailSearchEnv
from email_env.search.database import MailDatabase
from tests.email_env.mails import build
from tests.email_env.office import build_office


@pytest.fixture
def built(tmp_path):
    """Builds a database of these mails at `mail.db`, and opens it until the test ends."""
    with ExitStack() as opened:

        def database_of(*mails, **options):
            build(tmp_path / "mail.db", *mails, **options)
            return opened.enter_context(closing(MailDatabase(tmp_path / "mail.db")))

        yield database_of


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_office(tmp_path_factory.mktemp("office"))


@pytest.fixture(scope="module")
def env(path):
    env = EmailSearchEnv(path)
    yield env
    env.close()
