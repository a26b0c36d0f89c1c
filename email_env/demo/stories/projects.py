"""Stories about projects: meetings, budgets, deadlines, releases, leads, and the events of every year."""

from datetime import datetime

from email_env.demo.mailbox import Mailbox, Topic
from email_env.demo.stories.people import has_phone
from email_env.demo.texts import SYNONYMS, THINGS
from email_env.demo.values import (
    Value,
    code_value,
    money_value,
    person_value,
    room_value,
    short_date,
    time_value,
    weekday_value,
)
from email_env.demo.writer import Draft


def meeting(box: Mailbox) -> None:
    """A meeting of a project: day, time and room; at times moved to another day."""
    topic = box.pick("meeting", box.cast.projects, SYNONYMS["events"])
    draft, fields = write_meeting(box, topic, box.start())
    parts = box.rng.sample(("day", "time", "room"), 2)
    if box.chance(0.45):
        moved = _move_meeting(box, topic, draft, fields)
        box.ask("meeting_day", fields, (topic, "day"), difficulty="medium", after=moved.sent)
        box.ask(f"meeting_{parts[0]}", fields, (topic, parts[0]), before=moved.sent)
    else:
        box.ask(f"meeting_{parts[0]}", fields, (topic, parts[0]))
        box.ask(f"meeting_{parts[1]}", _paraphrased(box, fields), (topic, parts[1]), difficulty="medium")


def write_meeting(box: Mailbox, topic: Topic, on: datetime, same_as: Topic = ()) -> tuple[Draft, dict[str, str]]:
    """Write the invitation, naming the room or saying that it is the one of another meeting."""
    _, project, event = topic
    day = box.later(on, 8, 24).date()
    time = time_value(box.rng.randint(8, 16), box.rng.choice((0, 15, 30, 45)))
    named = box.chance(0.5)
    room = room_value(box.rng.choice(THINGS["rooms"]) if named else f"Room {box.rng.randint(101, 420)}")
    fields = {
        "project": project,
        "event": event,
        "meeting": f"{project} {event}",
        "day": weekday_value(day).text,
        "date": short_date(day),
        "time": time.text,
        "room": f"the {room.text}" if named else room.text,
    }
    states = {"day": weekday_value(day), "time": time, "room": room}
    text = "meeting"
    if same_as:
        _, fields["other_project"], fields["other_event"] = same_as
        states["room"] = Value(f"as {fields['other_project']} {fields['other_event']}")
        text = "meeting_same_room"
    draft = box.tell(text, fields, on, topic=topic, states=states)
    box.surround("meeting", fields, draft)
    return draft, fields


def _move_meeting(box: Mailbox, topic: Topic, draft: Draft, fields: dict[str, str]) -> Draft:
    sent = box.later(draft.sent, 3, 6)
    day = box.later(sent, 9, 30).date()
    while weekday_value(day).text == fields["day"]:
        day = box.later(sent, 9, 30).date()
    changed = {**fields, "day": weekday_value(day).text, "date": short_date(day)}
    states = {"day": weekday_value(day)}
    if box.chance(0.5):
        return box.tell("meeting_thread", changed, sent, topic=topic, states=states, answers=draft)
    return box.tell("meeting_moved", changed, sent, topic=topic, states=states)


def _paraphrased(box: Mailbox, fields: dict[str, str]) -> dict[str, str]:
    event = box.synonym(SYNONYMS["events"][fields["event"]])
    what = f"{event} of {fields['project']}" if box.chance(0.5) else f"{fields['project']} {event}"
    return {**fields, "meeting": what}


def same_room(box: Mailbox) -> None:
    """A meeting in the room of another meeting: two mails to find."""
    first, second = (box.pick("meeting", box.cast.projects, SYNONYMS["events"]) for _ in range(2))
    on = box.start(90)
    write_meeting(box, first, on)
    _, fields = write_meeting(box, second, box.later(on, 2, 12), same_as=first)
    box.ask("same_room", fields, (second, "room"), (first, "room"), style="hard")
    box.ask("meeting_time", fields, (second, "time"))


def budget(box: Mailbox) -> None:
    """An approved budget, sometimes changed later."""
    topic = box.pick("budget", box.cast.projects, SYNONYMS["purposes"])
    draft, fields = _write_budget(box, topic, box.start(120))
    cut = None
    if box.chance(0.4):
        amount = _amount(box)
        sent = box.later(draft.sent, 15, 60)
        cut = box.tell("budget_cut", {**fields, "amount": amount.text}, sent, topic=topic, states={"amount": amount})
    box.ask_around("budget_amount", fields, (topic, "amount"), cut)


def _write_budget(box: Mailbox, topic: Topic, on: datetime) -> tuple[Draft, dict[str, str]]:
    _, project, purpose = topic
    amount, asked = _amount(box), _amount(box)
    synonym = box.synonym(SYNONYMS["purposes"][purpose])
    fields = {"project": project, "purpose": purpose, "purpose_synonym": synonym}
    fields |= {"amount": amount.text, "asked": asked.text}
    draft = box.tell("budget", fields, on, topic=topic, states={"amount": amount})
    box.surround("budget", fields, draft)
    return draft, fields


def _amount(box: Mailbox) -> Value:
    return box.fresh(lambda: money_value(box.rng.randrange(4_000, 95_000, 50)))


def budget_compare(box: Mailbox) -> None:
    """The same sort of budget for two projects: which is larger?"""
    purpose = box.rng.choice(list(SYNONYMS["purposes"]))
    first, second = (box.pick("budget", box.cast.projects, [purpose]) for _ in range(2))
    on = box.start(120)
    for topic in (first, second):
        _write_budget(box, topic, box.later(on, 0, 40))
    fields = {"project": first[1], "other_project": second[1], "purpose": purpose}
    winner = Value(box.best((first, second), "amount", max)[1])
    box.ask("budget_compare", fields, (first, "amount"), (second, "amount"), style="hard", answer=winner)
    box.ask("budget_amount", fields, (first, "amount"))


def deadline(box: Mailbox) -> None:
    """A document with a due date, sometimes put off."""
    topic = box.pick("deadline", box.cast.projects, SYNONYMS["documents"])
    draft, fields = _write_deadline(box, topic, box.start(100))
    moved = None
    if box.chance(0.4):
        sent = box.later(draft.sent, 4, 15)
        due = box.fresh_date(sent, 25, 80)
        moved = box.tell("deadline_moved", {**fields, "date": due.text}, sent, topic=topic, states={"date": due})
    box.ask_around("deadline_date", fields, (topic, "date"), moved)


def _write_deadline(box: Mailbox, topic: Topic, on: datetime) -> tuple[Draft, dict[str, str]]:
    _, project, document = topic
    due = box.fresh_date(on, 10, 60)
    synonym = box.synonym(SYNONYMS["documents"][document])
    fields = {"project": project, "document": document, "document_synonym": synonym, "date": due.text}
    draft = box.tell("deadline", fields, on, topic=topic, states={"date": due})
    box.surround("deadline", fields, draft)
    return draft, fields


def deadline_compare(box: Mailbox) -> None:
    """The same document for two projects: which is due first?"""
    document = box.rng.choice(list(SYNONYMS["documents"]))
    first, second = (box.pick("deadline", box.cast.projects, [document]) for _ in range(2))
    on = box.start(120)
    for topic in (first, second):
        _write_deadline(box, topic, box.later(on, 0, 6))
    fields = {"project": first[1], "other_project": second[1], "document": document}
    winner = Value(box.best((first, second), "date", min)[1])
    box.ask("deadline_compare", fields, (first, "date"), (second, "date"), style="hard", answer=winner)
    box.ask("deadline_date", fields, (second, "date"))


def release(box: Mailbox) -> None:
    """Two versions of a project go live one after the other; either may be postponed."""
    picked = box.pick("release", box.cast.projects)
    project, number, on = picked[1], box.rng.randint(1, 8), box.start(260)
    for minor in box.rng.sample(range(1, 9), 2):
        version = f"{number}.{minor}"
        topic = ("release", project, version)
        live = box.fresh_date(on, 15, 40)
        fields = {"project": project, "version": version, "date": live.text}
        draft = box.tell("release", fields, on, topic=topic, states={"date": live})
        box.surround("release", fields, draft, decoys=(0, 1, 1))
        moved = None
        if box.chance(0.5):
            sent = box.later(on, 4, 12)
            live = box.fresh_date(sent, 30, 60)
            moved = box.tell("release_moved", {**fields, "date": live.text}, sent, topic=topic, states={"date": live})
            box.ask("release_date", fields, (topic, "date"), style="medium", after=moved.sent)
        box.ask("release_date", fields, (topic, "date"), before=moved.sent if moved else None)
        on = box.later(on, 50, 130)


def lead(box: Mailbox) -> None:
    """Who leads a project; the lead may change; the lead's phone number is in another mail."""
    topic = box.pick("lead", box.cast.projects)
    leader, successor = box.rng.sample(box.cast.colleagues, 2)
    on = box.start(400)
    fields = {"project": topic[1], "person": leader.name}
    draft = box.tell("lead", fields, on, topic=topic, states={"name": person_value(leader)})
    box.surround("lead", {"project": topic[1], "person": box.colleague(leader, successor).name}, draft)
    change = None
    if box.chance(0.5):
        leader = successor
        fields["person"] = leader.name
        sent = box.later(on, 90, 360)
        change = box.tell("lead", fields, sent, topic=topic, states={"name": person_value(leader)})
    box.ask_around("lead_name", fields, (topic, "name"), change)
    if has_phone(box, leader):
        box.ask("lead_phone", fields, (topic, "name"), (("phone", leader.name), "number"), style="hard")


def annual(box: Mailbox) -> None:
    """An event of every year, each time in another city."""
    picked = box.pick("annual", THINGS["annual_events"])
    event, years = picked[1], range(2021, 2025)
    drafts: dict[int, Draft] = {}
    for year, city in zip(years, box.rng.sample(box.cast.cities, 4), strict=True):
        on = box.working_hour(datetime(year, box.rng.randint(2, 5), box.rng.randint(1, 28)))
        date = box.fresh_date(on, 60, 150)
        fields = {"event": event, "year": str(year), "city": city, "date": date.text}
        topic = ("annual", event, str(year))
        drafts[year] = box.tell("annual", fields, on, topic=topic, states={"city": code_value(city), "date": date})
        box.surround("annual", fields, drafts[year], decoys=(0, 1))

    for year in box.rng.sample(years, 2):
        box.ask("annual_city", {"event": event, "year": str(year)}, (("annual", event, str(year)), "city"))
    year = box.rng.randint(2022, 2024)
    last = str(year - 1)
    fields, claim = {"event": event, "year": last}, (("annual", event, last), "city")
    # A paraphrase says "last year's", so it is asked in the year after.
    box.ask("annual_city", fields, claim, style="medium", after=drafts[year].sent, before=datetime(year + 1, 1, 1))
