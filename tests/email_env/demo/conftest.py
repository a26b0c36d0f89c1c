"""The bundled corpus, made once."""

import pytest

from email_env.demo import DemoCorpus, generate


@pytest.fixture(scope="package")
def corpus() -> DemoCorpus:
    return generate()


@pytest.fixture(scope="package")
def mails(corpus):
    return {mail.message_id: mail for mail in corpus.mails}
