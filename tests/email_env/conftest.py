"""The office's mailbox and an environment over it, for all tests of the environment; and databases of other mail."""

from contextlib import ExitStack, closing, contextmanager

import pytest

from email_env.env import EmailSearchEnv
from email_env.search.database import MailDatabase
from tests.email_env.mails import build
from tests.email_env.office import build_office


@contextmanager
def databases_in(folder):
    """Builds a database of these mails at `mail.db`, and opens it until the end; a later one takes its place."""
    with ExitStack() as opened:

        def database_of(*mails, **options):
            build(folder / "mail.db", *mails, **options)
            return opened.enter_context(closing(MailDatabase(folder / "mail.db")))

        yield database_of


@pytest.fixture
def built(tmp_path):
    """`databases_in` a folder of the test's own."""
    with databases_in(tmp_path) as database_of:
        yield database_of


@pytest.fixture(scope="module")
def built_once(tmp_path_factory):
    """`databases_in` a folder of the test file's."""
    with databases_in(tmp_path_factory.mktemp("built")) as database_of:
        yield database_of


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_office(tmp_path_factory.mktemp("office"))


@pytest.fixture(scope="module")
def env(path):
    env = EmailSearchEnv(path)
    yield env
    env.close()
