"""A database to ask about, and no key in the environment."""

import pytest

from tests.email_env.mails import build, mail
from tests.email_env.make_scenarios.parts import BUDGET


@pytest.fixture(autouse=True)
def _no_keys_or_urls_from_the_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def office(tmp_path):
    """One mail in Ben's inbox that can be asked about."""
    path = tmp_path / "office.db"
    build(path, mail("m1", "Falcon", BUDGET), mail("m2", "Lunch", "Pizza?"))
    return path
