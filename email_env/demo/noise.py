"""Mail that nobody asks about: newsletters, weekly status, lunch, IT notices, automatic replies, and mails sent twice.

Much of it speaks of the same projects, people and topics as the mails that matter, and states nothing a
question may be about.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from email_env.demo.cast import Person
from email_env.demo.mailbox import Mailbox
from email_env.demo.values import long_date, short_date
from email_env.demo.writer import Draft

_STATUS = (
    "{P} is on track. The report is being written, and the budget was not touched this week.",
    "On {P} we closed {count} points. The next review will be prepared by {N}.",
    "{P}: the team is complete, the test bench is free again, and {N} looks after the open points.",
    "Little news on {P}. {N} is at a customer, so the manual has to wait.",
    "{P} was quiet this week. We talked about the kickoff of the next phase and about travel rules.",
)
_SMALL_TALK = (
    ("Lunch on {day}?", "Shall we have lunch on {day}? {N} knows a new place near the {city} office."),
    ("Thank you", "Thank you for your help with {P} last week. It made things a lot easier for {N} and me."),
    ("Parking", "The car park is closed on {day}. {N} suggests that we come by train."),
    (
        "Cake in the kitchen",
        "{N} has a birthday today. There is cake in the kitchen, first come, first served.",
    ),
    ("Lost umbrella", "Somebody left a black umbrella in the lift. {N} keeps it at the front desk."),
    ("Photos", "The photos of the team from {P} are on the share. {N} took most of them."),
    ("Coffee machine", "The coffee machine is out of order until {day}. {N} has called the service."),
    ("Question about {P}", "Do you remember who kept the minutes for {P}? {N} says it was you."),
    ("Welcome {N}", "{N} sits next to you from {day}. Please say hello and show the way to the archive."),
    ("Expenses", "Please hand in your receipts by {day}. {N} in finance waits for the last ones."),
    (
        "Travel rules",
        "The new travel rules are out: book early, take the train where you can. {N} answers questions.",
    ),
    (
        "Visitors from {city}",
        "We have visitors from {city} on {day}. Could you and {N} have lunch with them?",
    ),
)
_DISCUSSIONS = (
    (
        "{P}: minutes", "Who writes the minutes for {P} next time?", "I did it twice in a row, somebody else please.",
        "Then I ask {N}, it is only a page.", "Fine with me, {N} writes faster than I do anyway.",
    ),
    (
        "{P}: budget talks", "Finance wants to talk about the {P} budget before the summer. Are you in?",
        "I would rather let {N} do it, the numbers are all there.", "{N} agreed, so you are free.",
    ),
    (
        "Workshop or course?", "Do we need a workshop on the new tool for {P}?",
        "A short course would do, if you ask me.",
        "{N} thinks the same. I drop it for now.",
    ),
    (
        "{city} office", "How many of us work in {city} now?", "I lost count, {N} keeps the list.",
        "Thanks, I ask {N} then.", "Tell me what comes out, I am curious too.",
    ),
    (
        "Report for {P}", "Could you read the report on {P} once more?",
        "Yes, but only the first half, I have to leave early.",
        "That helps already. {N} reads the rest.",
    ),
    (
        "{N}", "Have you seen {N} today? I wanted to talk about {P}.", "On the phone all morning, I think.",
        "All right, I try again after lunch.",
    ),
)  # fmt: skip
_NOTICES = (
    (
        "Maintenance on {day}",
        "The mail server will be down on {day} evening for two hours. Please save your work before you leave.",
    ),
    (
        "Password",
        "Your password expires in {count} days. Please change it in time, the help desk does not ask for it by mail.",
    ),
    (
        "Printer on floor {floor}",
        "The printer on floor {floor} was replaced. The driver installs itself when you print for the first time.",
    ),
)
_HEADLINES = (
    "Steel prices fall for the {nth} month in a row", "Five ways to run shorter meetings",
    "Why travel budgets are under pressure again", "{city}: new trade fair opens its doors",
    "How warehouses save energy in winter", "Survey: every {nth} firm looks for engineers",
    "Contracts: what changes next year", "Freight from {city} takes longer again",
    "What buyers should know about supply risks", "The quiet return of the phone call",
    "Safety at work: lessons from {city}", "Hotels in {city} raise their prices",
)  # fmt: skip
_NEWSLETTERS = (
    ("Trade Weekly", "news@tradeweekly.example"),
    ("Logistics Digest", "digest@logisticsdigest.example"),
    ("Office Insider", "hello@officeinsider.example"),
)
_ORDINALS = ("second", "third", "fourth", "fifth", "sixth")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


def fill(box: Mailbox, size: int) -> None:
    """Add noise until the mailbox holds `size` mails; the stories must have left room."""
    makers = (
        _status,
        _small_talk,
        _discussion,
        _notice,
        _newsletter,
        _forwarded_news,
        _automatic_reply,
        _sent_twice,
    )
    assert len(box.drafts) <= size, f"the stories alone wrote {len(box.drafts)} mails, more than {size}"
    while len(box.drafts) < size:
        box.rng.choices(makers, weights=(5, 4, 4, 1.5, 3, 2, 1.5, 1.5))[0](box, box.start(30))
    del box.drafts[size:]


def _fields(box: Mailbox) -> dict[str, str]:
    rng = box.rng
    return {
        "P": rng.choice(box.cast.projects), "N": box.colleague().name, "city": rng.choice(box.cast.cities),
        "day": rng.choice(_DAYS),
        "count": str(rng.randint(2, 14)), "floor": str(rng.randint(1, 9)), "nth": rng.choice(_ORDINALS),
    }  # fmt: skip


def _note(box: Mailbox, on: datetime, subject: str, text: str) -> Draft:
    sender = box.cast.owner if box.chance(0.15) else box.colleague()
    return box.write(subject, text, on, sender)


def _status(box: Mailbox, on: datetime) -> None:
    fields = _fields(box)
    texts = [
        box.rng.choice(_STATUS).format(**{**fields, "P": project}) for project in box.rng.sample(box.cast.projects, 2)
    ]
    _note(box, on, f"Weekly status, week {on.isocalendar().week}", "\n".join(texts))


def _small_talk(box: Mailbox, on: datetime) -> None:
    fields = _fields(box)
    draft = _note(box, on, *_filled(box.rng.choice(_SMALL_TALK), fields))
    if box.chance(0.3):
        answerer = box.cast.owner if draft.sender is not box.cast.owner else box.colleague()
        box.tell("thanks", fields, box.later(on, 0, 2) + timedelta(hours=11), sender=answerer, answers=draft)


def _discussion(box: Mailbox, on: datetime) -> None:
    fields = _fields(box)
    subject, *texts = (text.format(**fields) for text in box.rng.choice(_DISCUSSIONS))
    pair = [box.cast.owner, box.colleague()]
    box.rng.shuffle(pair)
    draft = box.write(subject, texts[0], on, pair[0], to=pair[1])
    for number, text in enumerate(texts[1 : box.rng.randint(2, len(texts))], start=1):
        on = box.later(on, 1, 2)
        draft = box.write(f"RE: {subject}", text, on, pair[number % 2], box.quotation(draft), to=pair[1 - number % 2])


def _forwarded_news(box: Mailbox, on: datetime) -> None:
    name, _ = box.rng.choice(_NEWSLETTERS)
    headline = box.rng.choice(_HEADLINES).format(**_fields(box))
    header = f"---------- Forwarded message ----------\nFrom: {name}\nSubject: {headline}"
    below = f"{header}\n\nRead the full article on our site."
    text = box.rng.choice(
        ("Did you see this? It may matter for {P}.", "For your information, {P} might be affected.")
    ).format(**_fields(box))
    box.write(f"FW: {headline}", text, on, box.colleague(), below)


def _notice(box: Mailbox, on: datetime) -> None:
    subject, text = _filled(box.rng.choice(_NOTICES), _fields(box))
    desk = Person("IT", "Desk", f"it@{box.cast.owner.address.partition('@')[2]}", "IT")
    box.drafts.append(
        _plain(on, desk, box.cast.owner, subject, f"Dear colleagues,\n\n{text}\n\nIT Desk, {long_date(on.date())}")
    )


def _newsletter(box: Mailbox, on: datetime) -> None:
    name, address = box.rng.choice(_NEWSLETTERS)
    lines = [f"* {headline.format(**_fields(box))}" for headline in box.rng.sample(_HEADLINES, 5)]
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
    draft = _note(box, on, *_filled(box.rng.choice(_SMALL_TALK), _fields(box)))
    again = draft.own.replace("\n\n", "\n\nSending this again, it came back the first time.\n\n", 1)
    box.drafts.append(replace(draft, sent=draft.sent + timedelta(hours=box.rng.randint(1, 20)), own=again, body=again))


def _filled(templates: tuple[str, str], fields: dict[str, str]) -> tuple[str, str]:
    subject, text = templates
    return subject.format(**fields), text.format(**fields)


def _plain(on: datetime, sender: Person, to: Person, subject: str, body: str) -> Draft:
    return Draft(on, sender, (to,), (), subject, "", body, body)
