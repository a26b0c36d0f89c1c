"""A made-up mailbox, packed as Google Takeout packs one. docs/your-mail.md can be tried with it.

python -m examples.takeout

It is the mail of a person of the demo, who has two addresses here. Some of it came by a mailing list, which only the
header Delivered-To tells.
"""

import mailbox
import tempfile
import zipfile
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

from email_env.demo import MAILS_PER_INBOX, generate
from email_env.mail import ParsedMail

OWNER, OTHER_ADDRESS, LIST = "hanno.vaclav@halden.com", "hanno@vaclav.example", "everyone@lists.halden.com"


def write_takeout(path: Path) -> int:
    """Writes the archive; returns how many mails are in it."""
    mails = generate().mails[:MAILS_PER_INBOX]
    with tempfile.TemporaryDirectory() as folder:
        box = mailbox.mbox(Path(folder) / "mbox")
        for number, mail in enumerate(mails):
            box.add(_message(mail, number))
        box.close()
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(Path(folder) / "mbox", "Takeout/Mail/All mail Including Spam and Trash.mbox")
    return len(mails)


def _message(mail: ParsedMail, number: int) -> EmailMessage:
    """A mail as it would lie in the mailbox: every third to the other address, every tenth by the list."""
    home = OTHER_ADDRESS if number % 3 == 0 else OWNER
    recipients = [home if address == OWNER else address for address in mail.to]
    message = EmailMessage()
    message["Message-ID"] = f"<{mail.message_id}@halden.com>"
    message["Date"] = format_datetime(datetime.fromisoformat(mail.sent_at))
    message["From"] = f"{mail.from_name} <{mail.from_addr}>"
    if number % 10 == 0 and mail.to == (OWNER,) and not mail.cc:
        message["Delivered-To"], message["List-Id"] = home, "<everyone.lists.halden.com>"
        recipients = [LIST]
    message["To"] = ", ".join(recipients)
    if mail.cc:
        message["Cc"] = ", ".join(mail.cc)
    message["Subject"] = mail.subject
    message.set_content(mail.body)
    return message


if __name__ == "__main__":
    print(f"takeout.zip: {write_takeout(Path('takeout.zip'))} mails")
