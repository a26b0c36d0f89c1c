import hashlib

import pytest

from email_env.errors import SourceError
from email_env.ingest.build import build_database
from email_env.ingest.sources import open_source
from tests.email_env.mails import raw, tar_of
from tests.support.http_stub import HttpStub, Response


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    members = [(f"maildir/a/{n}.", raw(f"From: a{n}@x.com", hashlib.sha256(b"%d" % n).hexdigest())) for n in range(200)]
    return tar_of(tmp_path_factory.mktemp("web") / "mail.tar.gz", members).read_bytes()


@pytest.fixture(scope="module")
def server(content):
    """Serves `/mail.tar.gz`, whole, cut, in chunks, gone or elsewhere, as the first part of the path says."""
    half = len(content) // 2
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in (content[:half], content[half:], b"")]
    length, chunked = {"Content-Length": str(len(content))}, {"Transfer-Encoding": "chunked"}
    answers = {
        "whole": Response(content),
        "cut": Response(headers=length, stream=[content[:half]]),
        "chunks": Response(headers=chunked, stream=chunks),
        "cutchunks": Response(headers=chunked, stream=chunks[:1]),
        "moved": Response(status=302, headers={"Location": "/whole/mail.tar.gz"}),
    }
    with HttpStub(lambda request: answers.get(request.path.split("/")[1], Response(status=404))) as stub:
        yield stub.url


@pytest.mark.parametrize("manner", ["whole", "chunks", "moved"])
def test_an_archive_is_read_from_the_web_as_it_comes(server, content, manner):
    source = open_source(f"{server}/{manner}/mail.tar.gz")
    assert [m.from_addr for m in source.mails] == [f"a{n}@x.com" for n in range(200)]
    assert source.position() == len(content)
    assert source.total() == (0 if manner == "chunks" else len(content))
    assert source.checksum() == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("manner", ["cut", "cutchunks"])
def test_a_download_that_breaks_off_is_an_error_and_writes_nothing(server, manner, tmp_path):
    source = open_source(f"{server}/{manner}/mail.tar.gz")
    with pytest.raises(SourceError, match=r"download of .* broke off after .* bytes.* Run it again"):
        build_database(source.mails, tmp_path / "mail.db", source=source.name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("{server}/gone/mail.tar.gz", "Cannot download .*404"),
        ("{server}/gone/mail.tar.gz?version=1", "Cannot download .*404"),
        ("http://127.0.0.1:1/mail.tar.gz", "Cannot download .*refused"),
        ("http://[/mail.tar.gz", "Cannot download"),
    ],
)
def test_an_address_without_mail_is_an_error_that_says_why(server, url, words):
    with pytest.raises(SourceError, match=words):
        list(open_source(url.format(server=server)).mails)


def test_what_cannot_be_streamed_is_refused_before_any_download():
    with pytest.raises(SourceError, match=r"parquet source cannot be read from .* download it"):
        open_source("http://127.0.0.1:1/mail.parquet")
    with pytest.raises(SourceError, match="Unknown kind of mail 'mail'"):
        open_source("http://127.0.0.1:1/mail")
