"""Questions that the mailbox does not answer: nothing was ever written, it is still open, or it was written later.

The right answer is "I don't know". The mails around such a question look like those around any other.
"""

from datetime import timedelta

from email_env.demo.mailbox import FIRST_DAY, Mailbox
from email_env.demo.stories.projects import write_meeting
from email_env.demo.texts import SYNONYMS, THINGS
from email_env.demo.values import person_value


def never_written(box: Mailbox) -> None:
    """Something no mail states, though decoys speak of it."""
    colleague = box.colleague()
    firms = {firm.name: firm.stem for firm in box.cast.customers}
    choose = box.rng.choice
    options = {
        "phone": ("phone_number", {"person": [colleague.name]}),
        "contract": (
            choose(("contract_end", "contract_value", "contract_signer")),
            {"customer": firms, "type": THINGS["contracts"]},
        ),
        "door": ("door_code", {"site": box.cast.sites, "place": THINGS["places"]}),
        "meeting": (
            choose(("meeting_day", "meeting_time", "meeting_room")),
            {"project": box.cast.projects, "event": SYNONYMS["events"]},
        ),
        "budget": ("budget_amount", {"project": box.cast.projects, "purpose": SYNONYMS["purposes"]}),
    }
    story = choose(list(options))
    kind, choices = options[story]
    topic = box.pick(story, *choices.values())
    on = box.start()
    fields = dict(zip(choices, topic[1:], strict=True)) | {"meeting": " ".join(topic[1:])}
    fields |= {"last": colleague.last, "stem": firms.get(topic[1], "")}
    fields["asked"] = f"${box.rng.randrange(4000, 90_000, 50):,}"
    decoy = None
    if box.chance(0.6):
        decoy = box.tell(f"{story}_decoy", {"person": box.colleague().name, **fields}, on)
    claim = (topic, kind.split("_")[1])
    box.ask(kind, fields, claim, difficulty="medium", after=on, missing=True, open_mail=decoy)


def still_open(box: Mailbox) -> None:
    """A mail that speaks of the matter and says that nothing is decided."""
    if box.chance(0.5):
        topic = box.pick("meeting", box.cast.projects, SYNONYMS["events"])
        kind, text, names = box.rng.choice(("meeting_day", "meeting_room")), "meeting_open", ("project", "event")
    else:
        topic = box.pick("budget", box.cast.projects, SYNONYMS["purposes"])
        kind, text, names = "budget_amount", "budget_open", ("project", "purpose")
    fields = dict(zip(names, topic[1:], strict=True)) | {"meeting": " ".join(topic[1:])}
    mail = box.tell(text, fields, box.start())
    claim = (topic, kind.split("_")[1])
    box.ask(kind, fields, claim, difficulty="hard", after=mail.sent, missing=True, open_mail=mail)


def not_yet(box: Mailbox) -> None:
    """A meeting that is fixed only after the day of the question."""
    topic = box.pick("meeting", box.cast.projects, SYNONYMS["events"])
    on = box.start(120) + timedelta(days=40)
    draft, fields = write_meeting(box, topic, box.working_hour(on))
    part = box.rng.choice(("day", "time", "room"))
    early = max(FIRST_DAY, draft.sent - timedelta(days=30))
    kind, claim = f"meeting_{part}", (topic, part)
    box.ask(kind, fields, claim, difficulty="medium", after=early, before=draft.sent, missing=True)
    box.ask(kind, fields, claim)


def lead_without_phone(box: Mailbox) -> None:
    """The lead of a project is known, the lead's phone number is not."""
    topic = box.pick("lead", box.cast.projects)
    silent = box.pick("phone", [person.name for person in box.cast.colleagues])
    person = box.cast.colleague(silent[1])
    fields = {"project": topic[1], "person": person.name}
    draft = box.tell("lead", fields, box.start(), topic=topic, states={"name": person_value(person)})
    box.surround("lead", {"project": topic[1], "person": box.colleague(person).name}, draft)
    box.ask("lead_phone", fields, (topic, "name"), (silent, "number"), style="hard", missing=True)
