"""Mail that nobody asks about: newsletters, weekly status, lunch, IT notices, automatic replies, mails sent twice."""

from dataclasses import replace
from datetime import datetime, timedelta

from email_env.demo.cast import Person
from email_env.demo.mailbox import Mailbox
from email_env.demo.texts import NOISE, THINGS
from email_env.demo.values import long_date, short_date
from email_env.demo.writer import Draft


def fill(box: Mailbox, size: int) -> None:
    """Add noise until the mailbox holds `size` mails; the stories must have left room."""
    weights = {
        _status: 5,
        _small_talk: 4,
        _discussion: 4,
        _notice: 1.5,
        _newsletter: 3,
        _forwarded_news: 2,
        _automatic_reply: 1.5,
        _sent_twice: 1.5,
    }
    assert len(box.drafts) <= size, f"the stories alone wrote {len(box.drafts)} mails, more than {size}"
    while len(box.drafts) < size:
        (write,) = box.rng.choices(list(weights), list(weights.values()))
        write(box, box.start(30))
    del box.drafts[size:]


def _fields(box: Mailbox) -> dict[str, str]:
    rng = box.rng
    return {
        "project": rng.choice(box.cast.projects),
        "person": box.colleague().name,
        "city": rng.choice(box.cast.cities),
        "day": rng.choice(THINGS["weekdays"][:5]),
        "count": str(rng.randint(2, 14)),
        "floor": str(rng.randint(1, 9)),
        "nth": rng.choice(NOISE["ordinals"]),
    }


def _note(box: Mailbox, on: datetime, subject: str, text: str) -> Draft:
    sender = box.cast.owner if box.chance(0.15) else box.colleague()
    return box.write(subject, text, on, sender)


def _status(box: Mailbox, on: datetime) -> None:
    fields = _fields(box)
    projects = box.rng.sample(box.cast.projects, 2)
    texts = [box.rng.choice(NOISE["status"]).format_map(fields | {"project": project}) for project in projects]
    _note(box, on, f"Weekly status, week {on.isocalendar().week}", "\n".join(texts))


def _small_talk(box: Mailbox, on: datetime) -> None:
    fields = _fields(box)
    draft = _note(box, on, *_filled(box.rng.choice(NOISE["small_talk"]), fields))
    if box.chance(0.3):
        answerer = box.cast.owner if draft.sender is not box.cast.owner else box.colleague()
        box.tell("thanks", fields, box.later(on, 0, 2) + timedelta(hours=11), sender=answerer, answers=draft)


def _discussion(box: Mailbox, on: datetime) -> None:
    fields = _fields(box)
    subject, *texts = (text.format_map(fields) for text in box.rng.choice(NOISE["discussions"]))
    pair = [box.cast.owner, box.colleague()]
    box.rng.shuffle(pair)
    draft = box.write(subject, texts[0], on, pair[0], to=pair[1])
    for number, text in enumerate(texts[1 : box.rng.randint(2, len(texts))], start=1):
        on = box.later(on, 1, 2)
        draft = box.write(f"RE: {subject}", text, on, pair[number % 2], box.quotation(draft), to=pair[1 - number % 2])


def _forwarded_news(box: Mailbox, on: datetime) -> None:
    name, _ = box.rng.choice(NOISE["newsletters"])
    headline = box.rng.choice(NOISE["headlines"]).format_map(_fields(box))
    header = f"---------- Forwarded message ----------\nFrom: {name}\nSubject: {headline}"
    below = f"{header}\n\nRead the full article on our site."
    text = box.rng.choice(NOISE["forwards"]).format_map(_fields(box))
    box.write(f"FW: {headline}", text, on, box.colleague(), below)


def _notice(box: Mailbox, on: datetime) -> None:
    subject, text = _filled(box.rng.choice(NOISE["notices"]), _fields(box))
    desk = Person("IT", "Desk", f"it@{box.cast.owner.address.partition('@')[2]}", "IT")
    box.drafts.append(
        _plain(on, desk, box.cast.owner, subject, f"Dear colleagues,\n\n{text}\n\nIT Desk, {long_date(on.date())}")
    )


def _newsletter(box: Mailbox, on: datetime) -> None:
    name, address = box.rng.choice(NOISE["newsletters"])
    lines = [f"* {headline.format_map(_fields(box))}" for headline in box.rng.sample(NOISE["headlines"], 5)]
    body = "\n".join(
        (f"{name}, {long_date(on.date())}", "", "In this issue:", *lines, "", "Read the full articles on our site.",
         f"You receive this mail because {box.cast.owner.address} is on our list. Unsubscribe at any time.")
    )  # fmt: skip
    box.drafts.append(_plain(on, Person(name, "", address, ""), box.cast.owner, lines[0][2:], body))


def _automatic_reply(box: Mailbox, on: datetime) -> None:
    away, deputy = box.rng.sample(box.cast.colleagues, 2)
    until = short_date(box.later(on, 1, 12).date())
    text = f"I am out of the office until {until}. In urgent cases please write to {deputy.address}."
    box.drafts.append(_plain(on, away, box.cast.owner, f"Automatic reply: {away.name}", f"{text}\n\n{away.name}"))


def _sent_twice(box: Mailbox, on: datetime) -> None:
    draft = _note(box, on, *_filled(box.rng.choice(NOISE["small_talk"]), _fields(box)))
    again = draft.own.replace("\n\n", "\n\nSending this again, it came back the first time.\n\n", 1)
    box.drafts.append(replace(draft, sent=draft.sent + timedelta(hours=box.rng.randint(1, 20)), own=again, body=again))


def _filled(templates: list[str], fields: dict[str, str]) -> tuple[str, str]:
    subject, text = templates
    return subject.format_map(fields), text.format_map(fields)


def _plain(on: datetime, sender: Person, to: Person, subject: str, body: str) -> Draft:
    return Draft(on, sender, (to,), (), subject, "", body, body)
