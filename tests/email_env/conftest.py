"""The office's mailbox and an environment over it, for all tests of the environment."""

import pytest

from email_env.env import EmailSearchEnv
from tests.email_env.office import build_office


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return build_office(tmp_path_factory.mktemp("office"))


@pytest.fixture(scope="module")
def env(path):
    env = EmailSearchEnv(path)
    yield env
    env.close()
