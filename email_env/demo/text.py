"""The notation of the mail templates, and the phrases around every statement.

`{P}` is a project, `{N}` and `{M}` are people, `{C}` a customer, `{V}` a supplier; the other names explain themselves.
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


OPENERS = (
    "Thanks for your patience with this.", "A short note before I leave for the day.", "As promised on Monday, here is what I know.",
    "I just came out of the talk with the others.", "You asked me about this in the corridor.", "Sorry for the late answer.",
    "Just so that everybody has it in writing.", "I hope the week started well for you.", "Some news that you were waiting for.",
    "We talked it over this morning.", "Here is the point from our call.", "It took a while, but now it is settled.",
)  # fmt: skip
CONTEXTS = (
    "Let me know if that does not work for you.", "I will keep the file on the share up to date.",
    "Please pass it on to whoever else needs to know.", "If anything is unclear, come by my desk or drop me a line.",
    "No need to answer, this is only for your records.", "I have told the others already, so no further action is needed.",
    "We can go through the details when we see each other.", "It was not easy to get everybody to agree, but I think the result is good.",
    "Please put it in your calendar or your notes, people keep asking me.", "Thank you for all the work you have put into this.",
    "I know that this is not ideal for everyone, but we had little choice.", "The usual rules apply, there is nothing special to prepare.",
    "Should something change, you will hear from me first.", "Could you confirm briefly that you have seen this?",
)  # fmt: skip
TEMPTATIONS = (
    "By the way, I will write to you about the {P} budget another time.", "By the way, {N} asked about the {P} review again.",
    "Separately, the {P} report still needs a second reader.", "Separately, {N} would like to talk about {P} next week.",
    "On another matter, do you know if {N} has the phone list?", "On another matter, the lead of {P} sends greetings.",
)  # fmt: skip
CLOSINGS = ("Best regards,", "Regards,", "Thanks,", "Cheers,", "Best,", "Many thanks,")
