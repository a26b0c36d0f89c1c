"""A database to ask about."""

import pytest

from tests.email_env.mails import build, mail
from tests.email_env.make_scenarios.parts import BUDGET


@pytest.fixture
def office(tmp_path):
    """One mail in Ben's inbox that can be asked about."""
    path = tmp_path / "office.db"
    build(path, mail("m1", "Falcon", BUDGET), mail("m2", "Lunch", "Pizza?"))
    return path
