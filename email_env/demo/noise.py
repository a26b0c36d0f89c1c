"""Mail that nobody asks about: newsletters, weekly status, lunch, IT notices, automatic replies, and mails sent twice.

Much of it speaks of the same projects, people and topics as the mails that matter, and states nothing a question may be about.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from email_env.demo.cast import Person
from email_env.demo.mailbox import Draft, Mailbox

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
    ("Cake in the kitchen", "{N} has a birthday today. There is cake in the kitchen, first come, first served."),
    ("Lost umbrella", "Somebody left a black umbrella in the lift. {N} keeps it at the front desk."),
    ("Photos", "The photos of the team from {P} are on the share. {N} took most of them."),
    ("Coffee machine", "The coffee machine is out of order until {day}. {N} has called the service."),
    ("Question about {P}", "Do you remember who kept the minutes for {P}? {N} says it was you."),
    ("Welcome {N}", "{N} sits next to you from {day}. Please say hello and show the way to the archive."),
    ("Expenses", "Please hand in your receipts by {day}. {N} in finance waits for the last ones."),
    ("Travel rules", "The new travel rules are out: book early, take the train where you can. {N} answers questions."),
    ("Visitors from {city}", "We have visitors from {city} on {day}. Could you and {N} have lunch with them?"),
)
_NOTICES = (
    ("Maintenance on {day}", "The mail server will be down on {day} evening for two hours. Please save your work before you leave."),
    ("Password", "Your password expires in {count} days. Please change it in time, the help desk does not ask for it by mail."),
    ("Printer on floor {floor}", "The printer on floor {floor} was replaced. The driver installs itself when you print for the first time."),
)
_HEADLINES = (
    "Steel prices fall for the {nth} month in a row", "Five ways to run shorter meetings", "Why travel budgets are under pressure again",
    "{city}: new trade fair opens its doors", "How warehouses save energy in winter", "Survey: every {nth} firm looks for engineers",
    "Contracts: what changes next year", "Freight from {city} takes longer again", "What buyers should know about supply risks",
    "The quiet return of the phone call", "Safety at work: lessons from {city}", "Hotels in {city} raise their prices",
)  # fmt: skip
_NEWSLETTERS = (("Trade Weekly", "news@tradeweekly.example"), ("Logistics Digest", "digest@logisticsdigest.example"), ("Office Insider", "hello@officeinsider.example"))
_ORDINALS = ("second", "third", "fourth", "fifth", "sixth")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


def fill(box: Mailbox, size: int) -> None:
    """Add noise until the mailbox holds `size` mails; a mailbox that is larger already stays as it is."""
    quiet = list(box.drafts)
    answering = {id(assertion.draft) for assertion in box.ledger}
    repeatable = [draft for draft in quiet if id(draft) not in answering]
    makers = (_status, _small_talk, _notice, _newsletter, _away, _repeat)
    while len(box.drafts) < size:
        maker = box.rng.choices(makers, weights=(6, 8, 2, 4, 1.5, 1))[0]
        if maker is not _repeat:
            maker(box, box.start(1))
        elif repeatable:
            _repeat(box, repeatable.pop(box.rng.randrange(len(repeatable))).sent, repeatable)


def _fields(box: Mailbox) -> dict[str, str]:
    rng = box.rng
    return {
        "P": rng.choice(box.cast.projects), "N": box.colleague().name, "city": rng.choice(box.cast.cities), "day": rng.choice(_DAYS),
        "count": str(rng.randint(2, 14)), "floor": str(rng.randint(1, 9)), "nth": rng.choice(_ORDINALS),
    }  # fmt: skip
