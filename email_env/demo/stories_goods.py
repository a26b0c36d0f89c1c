"""Stories about goods, money and contracts: orders, tickets, contracts, offers, requests, door codes."""

from datetime import datetime, timedelta

from email_env.demo.cast import Firm
from email_env.demo.mailbox import Mailbox, Topic
from email_env.demo.names import CAUSES, CONTRACTS, GOODS, JOBS, PLACES, PROBLEMS, PRODUCTS
from email_env.demo.texts_goods import FORWARDED_CHANGE, FORWARDED_REQUEST
from email_env.demo.values import (
    Value,
    cause_value,
    code_value,
    date_value,
    firm_value,
    money_value,
    person_value,
)
from email_env.demo.writer import Draft


def _firm(firms: tuple[Firm, ...], name: str) -> Firm:
    return next(firm for firm in firms if firm.name == name)


def order(box: Mailbox) -> None:
    """An order of goods for an office; the supplier's delivery mails name the order number only."""
    topic = box.pick("order", tuple(GOODS), box.cast.sites)
    if topic:
        _, goods, site = topic
        supplier = box.rng.choice(box.cast.suppliers)
        number = box.fresh(lambda: code_value(f"PO-{box.rng.randint(1000, 9999)}"))
        total = box.fresh(lambda: money_value(box.rng.randrange(1_500, 40_000, 10)))
        fields = {
            "goods": goods, "goods2": box.synonym(GOODS[goods]), "site": site, "V": supplier.name,
            "number": number.text,
            "amount": total.text, "count": str(box.rng.randint(6, 60)),
        }  # fmt: skip
        on = box.start(120)
        draft = box.tell("order", fields, on, topic=topic, states={"number": number, "total": total})
        box.surround("order", fields, draft)
        parcel, sent = ("parcel", number.text), on
        for text in ("delivery", "delivery_late")[: 2 if box.chance(0.4) else 1]:
            sent = box.later(sent, 4, 12)
            value = box.fresh_date(sent, 5, 40)
            values = {**fields, "date": value.text}
            box.tell(text, values, sent, sender=supplier.contact, topic=parcel, states={"date": value})
        part = box.rng.choice(("number", "total"))
        box.ask(f"order_{part}", fields, (topic, part), style=box.rng.choice(("easy", "medium")))
        box.ask("order_delivery", fields, (topic, "number"), (parcel, "date"), style="hard")


def ticket(box: Mailbox) -> None:
    """A customer's complaint; the mail that closes the ticket names its number only."""
    topic = box.pick("ticket", [firm.name for firm in box.cast.customers], tuple(PROBLEMS))
    if topic:
        firm = _firm(box.cast.customers, topic[1])
        number = box.fresh(lambda: code_value(f"T{box.rng.randint(10_000, 99_999)}"))
        cause = cause_value(box.rng.choice(CAUSES))
        credit = box.fresh(lambda: money_value(box.rng.randrange(300, 9_000, 10)))
        fields = {
            "C": firm.name, "stem": firm.stem, "problem": topic[2], "problem2": box.synonym(PROBLEMS[topic[2]]),
            "city": box.rng.choice(box.cast.cities), "number": number.text, "cause": cause.text, "amount": credit.text,
        }  # fmt: skip
        on = box.start(100)
        draft = box.tell("ticket", fields, on, topic=topic, states={"number": number})
        box.surround("ticket", fields, draft)
        closed = ("closed", number.text)
        states = {"cause": cause, "credit": credit}
        box.tell("ticket_closed", fields, box.later(on, 4, 25), topic=closed, states=states)
        part = box.rng.choice(("cause", "credit"))
        box.ask(f"ticket_{part}", fields, (topic, "number"), (closed, part), style="hard")
        box.ask("ticket_number", fields, (topic, "number"), style=box.rng.choice(("easy", "medium")))


def contract(box: Mailbox) -> None:
    """A contract with a customer, sometimes extended."""
    topic = box.pick("contract", [firm.name for firm in box.cast.customers], CONTRACTS)
    if topic:
        draft, fields = _write_contract(box, topic, box.start(300))
        extended = None
        if box.chance(0.4):
            sent = box.later(draft.sent, 60, 200)
            end = _end_of_contract(box, sent, 3)
            changed = {**fields, "end": end.text}
            extended = box.tell("contract_extended", changed, sent, topic=topic, states={"end": end})
            box.ask("contract_end", fields, (topic, "end"), difficulty="medium", after=extended.sent)
        parts = box.rng.sample(("end", "value", "signer"), 2)
        for part, style in zip(parts, ("easy", "medium"), strict=True):
            box.ask(
                f"contract_{part}",
                fields,
                (topic, part),
                style=style,
                before=extended.sent if extended else None,
            )


def _write_contract(box: Mailbox, topic: Topic, on: datetime) -> tuple[Draft, dict[str, str]]:
    firm, signer = _firm(box.cast.customers, topic[1]), box.colleague()
    end = _end_of_contract(box, on, 1)
    amount = box.fresh(lambda: money_value(box.rng.randrange(12_000, 400_000, 500)))
    fields = {
        "C": firm.name, "stem": firm.stem, "T": topic[2], "N": signer.name, "end": end.text, "amount": amount.text,
    }  # fmt: skip
    states = {"end": end, "value": amount, "signer": person_value(signer)}
    draft = box.tell("contract", fields, on, topic=topic, states=states)
    box.surround("contract", {**fields, "N": box.colleague(signer).name}, draft)
    return draft, fields


def _end_of_contract(box: Mailbox, moment: datetime, years: int) -> Value:
    span = (365 * years, 365 * (years + 2))
    return box.fresh(lambda: date_value((moment + timedelta(days=box.rng.randint(*span))).date(), with_year=True))


def contract_compare(box: Mailbox) -> None:
    """Contracts of the same sort with two customers: which one runs longer?"""
    names = [firm.name for firm in box.cast.customers]
    sort = box.rng.choice(CONTRACTS)
    first, second = box.pick("contract", names, (sort,)), box.pick("contract", names, (sort,))
    if first and second:
        on = box.start(120)
        for topic in (first, second):
            _write_contract(box, topic, box.later(on, 0, 60))
        longest = max((first, second), key=lambda topic: box.stated(topic, "end").rank)
        fields = {"C": first[1], "C2": second[1], "T": sort, "stem": _firm(box.cast.customers, first[1]).stem}
        winner = firm_value(_firm(box.cast.customers, longest[1]))
        box.ask("contract_compare", fields, (first, "end"), (second, "end"), style="hard", answer=winner)
        box.ask("contract_value", fields, (first, "value"))


def offers(box: Mailbox) -> None:
    """Offers of three suppliers for a job, a decision, and at times a change of mind."""
    picked = box.pick("decision", tuple(JOBS), box.cast.sites)
    if picked:
        _, job, site = picked
        suppliers = box.rng.sample(box.cast.suppliers, 3)
        fields = {"job": job, "job2": box.synonym(JOBS[job]), "site": site}
        on = box.start(120)
        drafts: list[Draft] = []
        for supplier in suppliers:
            price = box.fresh(lambda: money_value(box.rng.randrange(1_200, 30_000, 10)))
            values = {**fields, "V": supplier.name, "amount": price.text}
            quote = ("quote", supplier.name, job, site)
            drafts.append(box.tell("quote", values, box.later(on, 0, 9), topic=quote, states={"price": price}))
        box.surround("quote", fields, drafts[0])
        chosen, rejected, other = suppliers
        texts = (("decision", rejected), ("decision_changed", chosen)) if box.chance(0.4) else (("decision", chosen),)
        sent = on + timedelta(days=12)
        for text, supplier in texts:
            sent = box.later(sent, 2, 6)
            values = {**fields, "V": supplier.name}
            box.tell(text, values, sent, topic=picked, states={"vendor": firm_value(supplier)})
        style = "easy" if len(texts) == 1 else "medium"
        box.ask("decision_name", fields, (picked, "vendor"), style=style)
        asked = {**fields, "V": other.name, "stem": other.stem}
        claim = (("quote", other.name, job, site), "price")
        box.ask("quote_price", asked, claim, style=box.rng.choice(("easy", "medium")))
        won = (("quote", chosen.name, job, site), "price")
        box.ask("decision_price", {**fields, "V": chosen.name}, (picked, "vendor"), won, style="hard")
        pair = (chosen, other) if box.chance(0.5) else (other, chosen)
        claims = [(("quote", firm.name, job, site), "price") for firm in pair]
        cheaper = min(pair, key=lambda firm: box.stated(("quote", firm.name, job, site), "price").rank)
        asked = {**fields, "V": pair[0].name, "V2": pair[1].name}
        box.ask("quote_compare", asked, *claims, style="hard", answer=firm_value(cheaper))


def request(box: Mailbox) -> None:
    """A customer's request, forwarded; the customer may correct the number."""
    picked = box.pick("request", [firm.name for firm in box.cast.customers])
    if picked:
        firm, product = _firm(box.cast.customers, picked[1]), box.rng.choice(PRODUCTS)
        on = box.start(100)
        count = box.fresh(lambda: code_value(str(box.rng.randrange(110, 990, 10))))
        needed = box.fresh_date(on, 20, 60)
        fields = {
            "C": firm.name, "stem": firm.stem, "product": product, "count": count.text, "date": needed.text,
        }  # fmt: skip

        def forward(text: str, wording: tuple[str, ...], sent: datetime, states: dict[str, Value]) -> Draft:
            message = (
                f"---------- Forwarded message ----------\nFrom: {firm.contact.name}, {firm.name}\n\n"
                f"{box.rng.choice(wording).format_map(fields)}\n{firm.contact.name}"
            )
            return box.tell(text, fields, sent, topic=picked, states=states, forwards=message)

        draft = forward("request", FORWARDED_REQUEST, on, {"count": count, "date": needed})
        box.surround("request", fields, draft)
        changed = None
        if box.chance(0.4):
            count = box.fresh(lambda: code_value(str(box.rng.randrange(110, 990, 10))))
            fields["count"] = count.text
            changed = forward("request_changed", FORWARDED_CHANGE, box.later(on, 3, 8), {"count": count})
            box.ask("request_count", fields, (picked, "count"), difficulty="medium", after=changed.sent)
        parts = box.rng.sample(("count", "date"), 2)
        for part, style in zip(parts, ("easy", "medium"), strict=True):
            box.ask(
                f"request_{part}",
                fields,
                (picked, part),
                style=style,
                before=changed.sent if changed else None,
            )


def door(box: Mailbox) -> None:
    """The code of a door, changed every few months."""
    topic = box.pick("door", box.cast.sites, PLACES)
    if topic:
        fields = {"site": topic[1], "place": topic[2]}
        on = box.start(500)
        drafts: list[Draft] = []
        for _ in range(box.rng.choice((1, 2, 3))):
            code = box.fresh(lambda: code_value(str(box.rng.randint(1000, 9999))))
            values = {**fields, "code": code.text}
            drafts.append(box.tell("door", values, on, topic=topic, states={"code": code}))
            on = box.later(on, 60, 180)
        box.surround("door", fields, drafts[0])
        box.ask("door_code", fields, (topic, "code"), before=drafts[1].sent if drafts[1:] else None)
        box.ask("door_code", fields, (topic, "code"), style="medium")
