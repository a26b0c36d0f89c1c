"""Stories about projects: meetings, budgets, deadlines, releases, leads, and the events of every year.

A story claims its topic, writes the mails that state it with decoys around them, and asks about it. Where a
later mail changes something, a question is asked before the change or after it; only what the change
restates is asked after it.
"""

from datetime import date, datetime

from email_env.demo.mailbox import Mailbox, Topic
from email_env.demo.names import ANNUAL, DOCUMENTS, EVENTS, PURPOSES, ROOMS
from email_env.demo.stories_people import has_phone
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
    topic = box.pick("meeting", box.cast.projects, tuple(EVENTS))
    if topic:
        draft, fields = write_meeting(box, topic, box.start())
        kinds = box.rng.sample(("meeting_day", "meeting_time", "meeting_room"), 2)
        if box.chance(0.45):
            moved = _move_meeting(box, topic, draft, fields)
            box.ask("meeting_day", fields, (topic, "day"), difficulty="medium", after=moved.sent)
            box.ask(kinds[0], fields, (topic, kinds[0][8:]), before=moved.sent)
        else:
            box.ask(kinds[0], fields, (topic, kinds[0][8:]))
            box.ask(kinds[1], _paraphrased(box, fields), (topic, kinds[1][8:]), difficulty="medium")


def write_meeting(box: Mailbox, topic: Topic, on: datetime, same_as: Topic = ()) -> tuple[Draft, dict[str, str]]:
    """Write the invitation, naming the room or saying that it is the one of another meeting."""
    _, project, event = topic
    day = box.later(on, 8, 24).date()
    time = time_value(box.rng.randint(8, 16), box.rng.choice((0, 15, 30, 45)))
    named = box.chance(0.5)
    room = room_value(box.rng.choice(ROOMS) if named else f"Room {box.rng.randint(101, 420)}")
    fields = {
        "P": project, "E": event, "what": f"{project} {event}", "day": weekday_value(day).text, "date": short_date(day),
        "time": time.text, "room": f"the {room.text}" if named else room.text,
    }  # fmt: skip
    states = {"day": weekday_value(day), "time": time, "room": room}
    text = "meeting"
    if same_as:
        _, fields["P2"], fields["E2"] = same_as
        states["room"] = Value(f"as {fields['P2']} {fields['E2']}")
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
    event = box.synonym(EVENTS[fields["E"]])
    what = f"{event} of {fields['P']}" if box.chance(0.5) else f"{fields['P']} {event}"
    return {**fields, "what": what}


def same_room(box: Mailbox) -> None:
    """A meeting in the room of another meeting: two mails to find."""
    first = box.pick("meeting", box.cast.projects, tuple(EVENTS))
    second = box.pick("meeting", box.cast.projects, tuple(EVENTS))
    if first and second:
        on = box.start(90)
        write_meeting(box, first, on)
        _, fields = write_meeting(box, second, box.later(on, 2, 12), same_as=first)
        box.ask("same_room", fields, (second, "room"), (first, "room"), style="hard")
        box.ask("meeting_time", fields, (second, "time"))


def budget(box: Mailbox) -> None:
    """An approved budget, sometimes changed later."""
    topic = box.pick("budget", box.cast.projects, tuple(PURPOSES))
    if topic:
        draft, fields = _write_budget(box, topic, box.start(120))
        cut = None
        if box.chance(0.4):
            amount = box.fresh(lambda: money_value(box.rng.randrange(4_000, 95_000, 50)))
            sent = box.later(draft.sent, 15, 60)
            cut = box.tell(
                "budget_cut", {**fields, "amount": amount.text}, sent, topic=topic, states={"amount": amount}
            )
            box.ask("budget_amount", fields, (topic, "amount"), difficulty="medium", after=cut.sent)
        box.ask("budget_amount", fields, (topic, "amount"), before=cut.sent if cut else None)
        box.ask("budget_amount", fields, (topic, "amount"), style="medium")


def _write_budget(box: Mailbox, topic: Topic, on: datetime) -> tuple[Draft, dict[str, str]]:
    _, project, purpose = topic
    amount = box.fresh(lambda: money_value(box.rng.randrange(4_000, 95_000, 50)))
    asked = box.fresh(lambda: money_value(box.rng.randrange(4_000, 95_000, 50)))
    synonym = box.synonym(PURPOSES[purpose])
    fields = {"P": project, "U": purpose, "U2": synonym, "amount": amount.text, "asked": asked.text}
    draft = box.tell("budget", fields, on, topic=topic, states={"amount": amount})
    box.surround("budget", fields, draft)
    return draft, fields


def budget_compare(box: Mailbox) -> None:
    """The same sort of budget for two projects."""
    purpose = box.rng.choice(tuple(PURPOSES))
    first = box.pick("budget", box.cast.projects, (purpose,))
    second = box.pick("budget", box.cast.projects, (purpose,))
    if first and second:
        on = box.start(120)
        for topic in (first, second):
            _write_budget(box, topic, box.later(on, 0, 40))
        ranks = {topic: box.stated(topic, "amount").rank for topic in (first, second)}
        fields = {"P": first[1], "P2": second[1], "U": purpose}
        winner = Value(max(ranks, key=lambda topic: ranks[topic])[1])
        box.ask("budget_compare", fields, (first, "amount"), (second, "amount"), style="hard", answer=winner)
        box.ask("budget_amount", fields, (first, "amount"))


def deadline(box: Mailbox) -> None:
    """A document with a due date, sometimes put off."""
    topic = box.pick("deadline", box.cast.projects, tuple(DOCUMENTS))
    if topic:
        draft, fields = _write_deadline(box, topic, box.start(100))
        moved = None
        if box.chance(0.4):
            sent = box.later(draft.sent, 4, 15)
            value = box.fresh_date(sent, 25, 80)
            moved = box.tell(
                "deadline_moved", {**fields, "date": value.text}, sent, topic=topic, states={"date": value}
            )
            box.ask("deadline_date", fields, (topic, "date"), difficulty="medium", after=moved.sent)
        box.ask("deadline_date", fields, (topic, "date"), before=moved.sent if moved else None)
        box.ask("deadline_date", fields, (topic, "date"), style="medium")


def _write_deadline(box: Mailbox, topic: Topic, on: datetime) -> tuple[Draft, dict[str, str]]:
    _, project, document = topic
    value = box.fresh_date(on, 10, 60)
    fields = {"P": project, "D": document, "D2": box.synonym(DOCUMENTS[document]), "date": value.text}
    draft = box.tell("deadline", fields, on, topic=topic, states={"date": value})
    box.surround("deadline", fields, draft)
    return draft, fields


def deadline_compare(box: Mailbox) -> None:
    """The same document for two projects: which is due first?"""
    document = box.rng.choice(tuple(DOCUMENTS))
    first = box.pick("deadline", box.cast.projects, (document,))
    second = box.pick("deadline", box.cast.projects, (document,))
    if first and second:
        on = box.start(120)
        for topic in (first, second):
            _write_deadline(box, topic, box.later(on, 0, 6))
        ranks = {topic: box.stated(topic, "date").rank for topic in (first, second)}
        fields = {"P": first[1], "P2": second[1], "D": document}
        winner = Value(min(ranks, key=lambda topic: ranks[topic])[1])
        box.ask("deadline_compare", fields, (first, "date"), (second, "date"), style="hard", answer=winner)
        box.ask("deadline_date", fields, (second, "date"))


def release(box: Mailbox) -> None:
    """Two versions of a project go live one after the other; the second may be postponed."""
    picked = box.pick("release", box.cast.projects)
    if picked:
        project, number, on = picked[1], box.rng.randint(1, 8), box.start(260)
        for minor in box.rng.sample(range(1, 9), 2):
            version = f"{number}.{minor}"
            topic = ("release", project, version)
            value = box.fresh_date(on, 15, 40)
            fields = {"P": project, "v": version, "date": value.text}
            draft = box.tell("release", fields, on, topic=topic, states={"date": value})
            box.surround("release", fields, draft, decoys=(0, 1, 1))
            moved = None
            if box.chance(0.5):
                sent = box.later(on, 4, 12)
                value = box.fresh_date(sent, 30, 60)
                changed = {**fields, "date": value.text}
                moved = box.tell("release_moved", changed, sent, topic=topic, states={"date": value})
                box.ask("release_date", fields, (topic, "date"), style="medium", after=moved.sent)
            box.ask("release_date", fields, (topic, "date"), before=moved.sent if moved else None)
            on = box.later(on, 50, 130)


def lead(box: Mailbox) -> None:
    """Who leads a project; the lead may change; the lead's phone number is in another mail."""
    topic = box.pick("lead", box.cast.projects)
    if topic:
        first, second = box.rng.sample(box.cast.colleagues, 2)
        on = box.start(400)
        fields = {"P": topic[1], "N": first.name}
        draft = box.tell("lead", fields, on, topic=topic, states={"name": person_value(first)})
        box.surround("lead", {"P": topic[1], "N": box.colleague(first, second).name}, draft)
        change = None
        if box.chance(0.5):
            fields["N"] = second.name
            moment = box.later(on, 90, 360)
            change = box.tell("lead", fields, moment, topic=topic, states={"name": person_value(second)})
            box.ask("lead_name", fields, (topic, "name"), difficulty="medium", after=change.sent)
        box.ask("lead_name", fields, (topic, "name"), before=change.sent if change else None)
        box.ask("lead_name", fields, (topic, "name"), style="medium")
        current = second if change else first
        if has_phone(box, current):
            box.ask("lead_phone", fields, (topic, "name"), (("phone", current.name), "number"), style="hard")


def annual(box: Mailbox) -> None:
    """An event of every year, each time in another city."""
    picked = box.pick("annual", ANNUAL)
    if picked:
        event = picked[1]
        drafts: dict[int, Draft] = {}
        for year, city in zip(range(2021, 2025), box.rng.sample(box.cast.cities, 4), strict=True):
            on = box.working_hour(datetime(year, box.rng.randint(2, 5), box.rng.randint(1, 28)))
            value = box.fresh_date(on, 60, 150)
            fields = {"A": event, "year": str(year), "city": city, "date": value.text}
            topic = ("annual", event, str(year))
            drafts[year] = box.tell("annual", fields, on, topic=topic, states={"city": code_value(city), "date": value})
            box.surround("annual", fields, drafts[year], decoys=(0, 1))
        for year in box.rng.sample(range(2021, 2025), 2):
            box.ask("annual_city", {"A": event, "year": str(year)}, (("annual", event, str(year)), "city"))
        year = box.rng.randint(2022, 2024)
        last = str(year - 1)
        box.ask(
            "annual_city",
            {"A": event, "year": last},
            (("annual", event, last), "city"),
            style="medium",
            after=drafts[year].sent,
            before=datetime.combine(date(year + 1, 1, 1), datetime.min.time()),
        )
