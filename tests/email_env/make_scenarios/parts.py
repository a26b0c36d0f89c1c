"""Parts for tests of `make-scenarios`: a scripted LLM, and the command within this process."""

import json

from click.testing import CliRunner

from email_env.make_scenarios.cli import main
from tests.email_env.mails import build, mail

BUDGET = "After the meeting of last week finance approved $48,250 for the Falcon project."
GOOD = {
    "question": "How much did finance approve for the Falcon project?",
    "answer": "$48,250",
    "accepted": ["48250", "forty-nine thousand"],
    "difficulty": "easy",
    "kind": "amount",
}
FINE = {"from_subject": "I don't know", "from_other_mail": "I don't know", "realism": 0.9}


def shown(messages):
    """What an LLM was shown: the mail, or what the checker gets."""
    text = messages[1]["content"]
    return json.loads(text[text.index(">") + 1 : text.rindex("<")])


def llm(author=GOOD, checker=FINE):
    """An LLM that answers the author's request and the checker's, each with an object or by a function."""

    def answer(messages):
        data = shown(messages)
        reply = checker if "question" in data else author
        reply = reply(data) if callable(reply) else reply
        return json.dumps(reply) if isinstance(reply, dict) else reply

    return answer


def parcels(path, count):
    """A database, at `path`, of mails in Ben's inbox: each tells another code of another shelf's parcel."""
    build(path, *(parcel(shelf) for shelf in range(count)))
    return path


def parcel(shelf, **fields):
    return mail(
        f"m{shelf}", f"Note {shelf}", f"The parcel of shelf {shelf} has the code {code_of(shelf)} on its lid.", **fields
    )


def code_of(shelf):
    return f"KX{1000 + 7 * int(shelf)}"


def ask_for_the_code(data):
    """The author's answer about such a mail."""
    shelf = data["subject"].split()[1]
    return {"question": f"Which code has the parcel of shelf {shelf}?", "answer": code_of(shelf)}


def make(database, server, *arguments, out=None):
    out = out or database.parent / "made.jsonl"
    command = [database, "--out", out, "--model", "writer", "--api-base", server.url, "--min-mails", 1, *arguments]
    return CliRunner().invoke(main, [str(argument) for argument in command])


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rejected(database):
    return [(line["reason"], line["detail"]) for line in lines(database.parent / "made.rejected.jsonl")]
