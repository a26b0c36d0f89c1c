"""The notation of the mail templates, and the phrases around every statement.

`{P}` is a project, `{N}` and `{M}` are people, `{C}` a customer, `{V}` a supplier; the other names explain
themselves.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MailText:
    """Templates of one sort of mail: a subject and a sentence are drawn independently."""

    subjects: tuple[str, ...]
    sentences: tuple[str, ...]


def mail_text(subjects: str, *sentences: str) -> MailText:
    """Subjects separated by `|`, and sentences."""
    return MailText(tuple(part.strip() for part in subjects.split("|")), sentences)


@dataclass(frozen=True, slots=True)
class Tone:
    """The words around a statement: a first sentence, and sentences after it."""

    openers: tuple[str, ...]
    contexts: tuple[str, ...]


_NEUTRAL_OPENERS = (
    "A short note before I leave for the day.",
    "You asked me about this in the corridor.",
    "Sorry for the late answer.",
    "I hope the week started well for you.",
    "I just came out of a talk with the others.",
    "Here is the point from our call.",
)
_NEUTRAL_CONTEXTS = (
    "If anything is unclear, come by my desk or drop me a line.",
    "Please pass it on to whoever else needs to know.",
    "We can go through the details when we see each other.",
    "Thank you for all the work you have put into this.",
    "Could you confirm briefly that you have seen this?",
    "Should something change, you will hear from me first.",
    "I am in the office until the end of the week, so just come over.",
    "Feel free to show this to the others in the team.",
    "There is no hurry on your side, next week is early enough.",
)
CHAT = Tone(_NEUTRAL_OPENERS, _NEUTRAL_CONTEXTS)
STATEMENT = Tone(
    (
        *_NEUTRAL_OPENERS,
        "Thanks for your patience with this.",
        "As promised on Monday, here is what I know.",
        "Some news that you were waiting for.",
        "Just so that everybody has it in writing.",
        "We talked it over this morning.",
        "It took a while, but now it is settled.",
    ),
    (
        *_NEUTRAL_CONTEXTS,
        "No need to answer, this is only for your records.",
        "Please put it in your notes, people keep asking me.",
        "I have told the others already, so no further action is needed.",
        "I will keep the file on the share up to date.",
        "It was not easy to get everybody to agree, but I think the result is good.",
        "I know that this is not ideal for everyone, but we had little choice.",
    ),
)
DESK = Tone(
    (
        "Thank you for your message.",
        "Please find the details below.",
        "We are pleased to confirm the following.",
        "This is an update on your request.",
    ),
    (
        "Please check the details and tell us within two days if something is wrong.",
        "For questions, please answer to this mail.",
        "Our team is there for you from Monday to Friday.",
        "Please keep this message for your records.",
        "We thank you for the good work together.",
    ),
)
PARAGRAPHS = (
    "I also want to say that the last weeks were hard for many of us. There was a lot of work on a few "
    "shoulders, and I have seen how much patience it took. Let us try to plan the next round with a little "
    "more air in it.",
    "For those who were not there: we had a long talk about how we share such news. Some would like one list "
    "for everything, others prefer single mails. For the time being I send single mails, and we look at it "
    "again in the autumn.",
    "One more thing about the share: please do not rename the folders, some tools find their files by the old "
    "names. If you need a new folder, put it below the others and tell the rest of us.",
)
TEMPTATIONS = (
    "By the way, I will write to you about the {P} budget another time.",
    "By the way, {N} asked about the {P} review again.", "Separately, the {P} report still needs a second reader.",
    "Separately, {N} would like to talk about {P} next week.",
    "On another matter, do you know if {N} has the phone list?",
    "On another matter, the lead of {P} sends greetings.",
)  # fmt: skip
CLOSINGS = ("Best regards,", "Regards,", "Thanks,", "Cheers,", "Best,", "Many thanks,")
