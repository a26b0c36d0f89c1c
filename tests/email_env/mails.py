"""Made-up mail for the tests of the database and its builder."""

import io
import mailbox
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from click.testing import CliRunner, Result

from email_env.cli import main
from email_env.ingest.build import BuildReport, build_database
from email_env.mail import ParsedMail, Skip
from email_env.scenarios.scenario import Scenario

ANNA, BEN, CARO, DAN = "anna@x.com", "ben@x.com", "caro@x.com", "dan@y.org"


def mail(message_id: str, subject: str = "Hello", body: str = "Nothing much.", **fields: object) -> ParsedMail:
    """A mail from Anna to Ben on 2001-05-14, unless said otherwise."""
    values: dict[str, object] = {
        "sent_at": "2001-05-14T09:00:00Z",
        "date_ok": True,
        "from_addr": ANNA,
        "from_name": "Anna Keller",
        "to": (BEN,),
        "cc": (),
        "bcc": (),
    }
    return ParsedMail(message_id=message_id, subject=subject, body=body, **(values | fields))  # type: ignore[arg-type]


def question(scenario_id: str = "s1", **fields: object) -> Scenario:
    """A question about mail m1 in Ben's inbox; "I don't know" is the answer where no mails are named."""
    values: dict[str, object] = {
        "question": "When is the meeting?",
        "answer": "Friday" if fields.get("message_ids", True) else "I don't know",
        "accepted": (),
        "message_ids": ("m1",),
        "inbox": BEN,
        "query_date": "2001-06-01",
        "split": "train",
    }
    return Scenario(scenario_id=scenario_id, **(values | fields))  # type: ignore[arg-type]


def raw(headers: str, body: str = "Text.\n", end: str = "\n") -> bytes:
    """A message as bytes; `headers` may be indented as a block."""
    lines = [line.removeprefix("        ") for line in headers.strip("\n").split("\n")]
    return (end.join(lines) + end + end + body).encode("latin-1")


def build(path: Path, *mails: ParsedMail, **options: object) -> BuildReport:
    """`build_database` with the arguments most tests do not care about."""
    return build_database(mails, path, source="test", **options)  # type: ignore[arg-type]


def run(*arguments: object) -> Result:
    """What the command `build-enron-db` says to these arguments."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def tar_of(path: Path, members: Iterable[tuple[str | tarfile.TarInfo, bytes]], mode: str = "w:gz") -> Path:
    """An archive of these members, at `path`."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member, data in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def message(number: object, sender: str = "a@x.com", body: str = "Text.") -> bytes:
    """A message to me@x.com with this number in its subject and its id."""
    return raw(f"From: {sender}\nTo: me@x.com\nSubject: S{number}\nMessage-ID: <{number}@x>", body + "\n")


def mbox_of(path: Path, *messages: bytes) -> Path:
    """An mbox file of these messages, at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    box = mailbox.mbox(path)
    for data in messages:
        box.add(data)
    box.close()
    return path


def zip_of(path: Path, members: Mapping[str, bytes]) -> Path:
    """A zip archive of these members, at `path`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def subjects_and_labels(mails: Iterable[ParsedMail | Skip]) -> list[tuple[str, str]]:
    """Subject and source of what is no skip."""
    return [(mail.subject, mail.source) for mail in mails if not isinstance(mail, Skip)]
