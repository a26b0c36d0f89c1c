"""Stories about people: phone numbers, trips, visits to customers, leave, new staff."""

from datetime import date, datetime, timedelta

from email_env.demo.cast import Person
from email_env.demo.mailbox import Mailbox, Topic
from email_env.demo.texts import THINGS
from email_env.demo.values import Value, code_value, date_value, person_value
from email_env.demo.writer import Draft


def has_phone(box: Mailbox, person: Person) -> bool:
    """Make sure that a mail tells this colleague's phone number; False if the mailbox is to be silent about it."""
    topic = ("phone", person.name)
    if not box.claim(*topic):
        return any(assertion.topic == topic for assertion in box.ledger)
    _write_phone(box, person, box.start(300))
    return True


def _write_phone(box: Mailbox, person: Person, on: datetime) -> Draft:
    number = box.fresh(lambda: code_value(f"555-{box.rng.randint(1000, 9999)}"))
    fields = {"person": person.name, "phone": number.text}
    draft = box.tell("phone", fields, on, topic=("phone", person.name), states={"number": number})
    box.surround("phone", fields, draft, decoys=(0, 1, 1))
    return draft


def phone(box: Mailbox) -> None:
    """A colleague's phone number, sometimes replaced later."""
    topic = box.pick("phone", [person.name for person in box.cast.colleagues])
    person = box.cast.colleague(topic[1])
    first = _write_phone(box, person, box.start(400))
    new = _write_phone(box, person, box.later(first.sent, 100, 350)) if box.chance(0.35) else None
    box.ask_around("phone_number", {"person": person.name, "last": person.last}, (topic, "number"), new)


def trip(box: Mailbox) -> None:
    """One or two trips of the same colleague: flight and hotel in separate mails, the flight sometimes changed."""
    person = box.colleague()
    for _ in range(box.rng.choice((1, 2, 2))):
        topic = box.pick("trip", [person.name], box.cast.cities)
        fields, changed = write_trip(box, topic, person, box.start(80))
        part = box.rng.choice(("code", "date"))
        box.ask_around(f"flight_{part}", fields, (topic, part), changed)
        box.ask("hotel_name", fields, (topic, "hotel"), style=box.rng.choice(("easy", "medium")))


def write_trip(box: Mailbox, topic: Topic, person: Person, on: datetime) -> tuple[dict[str, str], Draft | None]:
    """Write the mails of a trip; returns the fields and the mail that changed the flight, if any."""
    desk = box.cast.travel_desk
    fields = {"person": person.name, "last": person.last, "city": topic[2]}

    def flight(text: str, sent: datetime) -> Draft:
        leaves = box.fresh_date(sent, 10, 35)
        code = box.fresh(lambda: _booking_code(box))
        values = {**fields, "date": leaves.text, "code": code.text}
        return box.tell(text, values, sent, sender=desk, topic=topic, states={"code": code, "date": leaves})

    first = flight("flight", on)
    hotel = box.rng.choice(THINGS["hotels"])
    states = {"hotel": Value(hotel, (hotel.removeprefix("Hotel "), f"the {hotel}"))}
    sender = desk if box.chance(0.6) else None
    sent = box.later(on, 1, 4)
    box.tell("hotel", {**fields, "hotel": hotel}, sent, sender=sender, topic=topic, states=states)
    box.surround("travel", fields, first, decoys=(0, 1))
    return fields, flight("flight_changed", box.later(sent, 3, 6)) if box.chance(0.35) else None


def _booking_code(box: Mailbox) -> Value:
    letters = "".join(box.rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(2))
    return code_value(f"{letters}{box.rng.randint(100, 999)}")


def visit(box: Mailbox) -> None:
    """A colleague visits a customer: the trip's mails name the colleague only."""
    topic = box.pick("visit", [firm.name for firm in box.cast.customers])
    person = box.colleague()
    journey = box.pick("trip", [person.name], box.cast.cities)
    firm = box.cast.customer(topic[1])
    on = box.start(100)
    fields = {"customer": firm.name, "stem": firm.stem, "person": person.name, "city": journey[2]}
    box.tell("visit", fields, on, topic=topic, states={"name": person_value(person)})
    fields |= write_trip(box, journey, person, box.later(on, 1, 12))[0]
    box.ask("visit_code", fields, (topic, "name"), (journey, "code"), style="hard")
    box.ask("visit_hotel", fields, (topic, "name"), (journey, "hotel"), style="hard")


def cover(box: Mailbox) -> None:
    """A colleague's leave and who covers; the cover may change; the cover's phone number is in another mail."""
    topic = box.pick("cover", [person.name for person in box.cast.colleagues])
    person = box.cast.colleague(topic[1])
    on = box.start(100)
    away = on.date() + timedelta(days=40)
    back = date_value(date(away.year, away.month, box.rng.randint(15, 28)))
    deputy = first = box.colleague(person)
    fields = {"person": person.name, "first": person.first, "deputy": deputy.name}
    fields |= {"month": THINGS["months"][away.month - 1], "back": back.text}
    draft = box.tell("cover", fields, on, topic=topic, states={"name": person_value(deputy), "back": back})
    box.surround("cover", {**fields, "deputy": box.colleague(person, first).name}, draft, decoys=(0, 1))
    change = None
    if box.chance(0.4):
        deputy = box.colleague(person, first)
        fields["deputy"] = deputy.name
        sent = box.later(on, 3, 9)
        change = box.tell("cover_changed", fields, sent, topic=topic, states={"name": person_value(deputy)})
    box.ask_around("cover_name", fields, (topic, "name"), change)
    if has_phone(box, deputy):
        box.ask("cover_phone", fields, (topic, "name"), (("phone", deputy.name), "number"), style="hard")


def hire(box: Mailbox) -> None:
    """Interviews with several applicants, one of them hired."""
    topic = box.pick("hire", THINGS["positions"])
    hired, *others = box.rng.sample(box.cast.applicants, 3)
    on = box.start(120)
    for applicant in box.rng.sample([hired, *others], 2):
        box.tell("hire_decoy", {"position": topic[1], "person": applicant.name}, on)
        on = box.later(on, 1, 6)
    starts = box.fresh_date(on, 25, 80)
    fields = {"position": topic[1], "person": hired.name, "date": starts.text}
    states = {"name": person_value(hired), "start": starts}
    draft = box.tell("hire", fields, on, topic=topic, states=states)
    box.surround("hire", {"position": topic[1], "person": others[0].name}, draft, decoys=(0, 0, 1))
    styles = box.rng.sample(("easy", "medium"), 2)
    box.ask("hire_name", fields, (topic, "name"), style=styles[0])
    box.ask("hire_start", fields, (topic, "start"), style=styles[1])
