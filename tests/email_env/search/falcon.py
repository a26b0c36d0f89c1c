"""Six mails about the falcon and its budget, and a search of them."""

from tests.email_env.mails import ANNA, BEN, CARO, DAN, mail

MAILS = (
    mail("m1", "Falcon budget", "The Falcon budget is 40,000 dollars. Meet on Friday.", cc=(CARO,)),
    mail("m2", "Re: Falcon budget", "No, 50,000.", from_addr=BEN, to=(ANNA,), sent_at="2001-05-15T23:59:59Z"),
    mail("m3", "Lunch", "Budget of the falcon.", to=(BEN, DAN), sent_at="2001-05-16T00:00:00Z"),
    mail(
        "m4", "Café", "Über naïve p3 f1 budgets", from_addr=DAN, to=(CARO,), bcc=(BEN,), sent_at="2001-07-01T00:00:00Z"
    ),
    mail("m5", "Secret budget", "Only for Caro: falcon.", to=(CARO,), sent_at="2001-05-17T00:00:00Z"),
    mail("m6", "Old", "A falcon of old.", sent_at="0001-01-01T00:00:00Z", date_ok=False),
)


def ids(db, keywords, inbox=BEN, until="2001-12-31", **options):
    return [hit.message_id for hit in db.search(inbox=inbox, keywords=keywords, until=until, **options)]
