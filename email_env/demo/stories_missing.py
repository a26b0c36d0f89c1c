"""Questions that the mailbox does not answer: nothing was ever written, it is still open, or it was written later.

The right answer is "I don't know". The mails around such a question look like those around any other.
"""

from datetime import timedelta

from email_env.demo.mailbox import FIRST_DAY, Mailbox
from email_env.demo.names import CONTRACTS, EVENTS, PLACES, PURPOSES
from email_env.demo.stories_projects import write_meeting
from email_env.demo.values import person_value


def never_written(box: Mailbox) -> None:
    """Something no mail states, though decoys speak of it."""
    colleague = box.colleague()
    firms = {firm.name: firm.stem for firm in box.cast.customers}
    options = {
        "phone": ("phone_number", "number", ((colleague.name,),)),
        "contract": (
            box.rng.choice(("contract_end", "contract_value", "contract_signer")),
            "",
            (tuple(firms), CONTRACTS),
        ),
        "door": ("door_code", "code", (box.cast.sites, PLACES)),
        "meeting": (
            box.rng.choice(("meeting_day", "meeting_time", "meeting_room")),
            "",
            (box.cast.projects, tuple(EVENTS)),
        ),
        "budget": ("budget_amount", "amount", (box.cast.projects, tuple(PURPOSES))),
    }
    story = box.rng.choice(tuple(options))
    kind, field, choices = options[story]
    topic = box.pick(story, *choices)
    if topic:
        on = box.start()
        names = {"phone": "N", "contract": "C T", "door": "site place", "meeting": "P E", "budget": "P U"}[
            story
        ].split()
        fields = dict(zip(names, topic[1:], strict=True))
        fields |= {
            "last": colleague.last,
            "stem": firms.get(topic[1], ""),
            "asked": f"${box.rng.randrange(4000, 90_000, 50):,}",
        }
        fields["what"] = " ".join(topic[1:])
        decoy = None
        if box.chance(0.6):
            extra = {"N": box.colleague().name, **fields}
            decoy = box.tell(f"{story}_decoy", extra, on)
        claim = (topic, field or kind.split("_")[1])
        box.ask(kind, fields, claim, difficulty="medium", after=on, missing=True, open_mail=decoy)


def still_open(box: Mailbox) -> None:
    """A mail that speaks of the matter and says that nothing is decided."""
    if box.chance(0.5):
        topic = box.pick("meeting", box.cast.projects, tuple(EVENTS))
        kind, text, names = box.rng.choice(("meeting_day", "meeting_room")), "meeting_open", ("P", "E")
    else:
        topic = box.pick("budget", box.cast.projects, tuple(PURPOSES))
        kind, text, names = "budget_amount", "budget_open", ("P", "U")
    if topic:
        fields = dict(zip(names, topic[1:], strict=True)) | {"what": " ".join(topic[1:])}
        mail = box.tell(text, fields, box.start())
        claim = (topic, kind.split("_")[1])
        box.ask(kind, fields, claim, difficulty="hard", after=mail.sent, missing=True, open_mail=mail)


def not_yet(box: Mailbox) -> None:
    """A meeting that is fixed only after the day of the question."""
    topic = box.pick("meeting", box.cast.projects, tuple(EVENTS))
    if topic:
        on = box.start(120) + timedelta(days=40)
        draft, fields = write_meeting(box, topic, box.working_hour(on))
        kind = box.rng.choice(("meeting_day", "meeting_time", "meeting_room"))
        early = max(FIRST_DAY, draft.sent - timedelta(days=30))
        claim = (topic, kind.split("_")[1])
        box.ask(kind, fields, claim, difficulty="medium", after=early, before=draft.sent, missing=True)
        box.ask(kind, fields, claim)


def lead_without_phone(box: Mailbox) -> None:
    """The lead of a project is known, the lead's phone number is not."""
    topic = box.pick("lead", box.cast.projects)
    silent = box.pick("phone", [person.name for person in box.cast.colleagues])
    if topic and silent:
        person = next(person for person in box.cast.colleagues if person.name == silent[1])
        fields = {"P": topic[1], "N": person.name}
        draft = box.tell("lead", fields, box.start(), topic=topic, states={"name": person_value(person)})
        box.surround("lead", {"P": topic[1], "N": box.colleague(person).name}, draft)
        box.ask("lead_phone", fields, (topic, "name"), (silent, "number"), style="hard", missing=True)
