import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from email_env.errors import SourceError
from email_env.ingest.build import build_database
from email_env.ingest.sources import open_source
from tests.email_env.mails import raw, tar_of


class Pages(BaseHTTPRequestHandler):
    """Serves `/mail.tar.gz`, whole, cut, in chunks, gone or elsewhere, as the first part of the path says."""

    content = b""

    def do_GET(self):
        manner = self.path.split("/")[1]
        if manner == "moved":
            self.send_response(302)
            self.send_header("Location", self.path.replace("moved", "whole"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if manner not in ("whole", "cut", "chunks", "cutchunks"):
            self.send_error(404)
            return
        half = self.content[: len(self.content) // 2]
        self.send_response(200)
        if manner in ("chunks", "cutchunks"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(half), half))
            if manner == "chunks":
                rest = self.content[len(half) :]
                self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(rest), rest))
        else:
            self.send_header("Content-Length", str(len(self.content)))
            self.end_headers()
            self.wfile.write(self.content if manner == "whole" else half)
        self.close_connection = True

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    members = [(f"maildir/a/{n}.", raw(f"From: a{n}@x.com", hashlib.sha256(b"%d" % n).hexdigest())) for n in range(200)]
    Pages.content = tar_of(tmp_path_factory.mktemp("web") / "mail.tar.gz", members).read_bytes()
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.mark.parametrize("manner", ["whole", "chunks", "moved"])
def test_an_archive_is_read_from_the_web_as_it_comes(server, manner):
    source = open_source(f"{server}/{manner}/mail.tar.gz")
    assert [m.from_addr for m in source.mails] == [f"a{n}@x.com" for n in range(200)]
    assert source.position() == len(Pages.content)
    assert source.total() == (0 if manner == "chunks" else len(Pages.content))
    assert source.checksum() == hashlib.sha256(Pages.content).hexdigest()


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
