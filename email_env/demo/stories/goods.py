"""Stories about goods, money and contracts: orders, tickets, contracts, offers, requests, door codes."""

from datetime import datetime, timedelta

from email_env.demo.mailbox import Mailbox, Topic
from email_env.demo.texts import MAILS, SYNONYMS, THINGS
from email_env.demo.values import Value, cause_value, code_value, date_value, firm_value, money_value, person_value
from email_env.demo.writer import Draft


def order(box: Mailbox) -> None:
    """An order of goods for an office; the supplier's delivery mails name the order number only."""
    topic = box.pick("order", SYNONYMS["goods"], box.cast.sites)
    _, goods, site = topic
    supplier = box.rng.choice(box.cast.suppliers)
    number = box.fresh(lambda: code_value(f"PO-{box.rng.randint(1000, 9999)}"))
    total = box.fresh(lambda: money_value(box.rng.randrange(1_500, 40_000, 10)))
    fields = {"goods": goods, "goods_synonym": box.synonym(SYNONYMS["goods"][goods]), "site": site}
    fields |= {"supplier": supplier.name, "number": number.text, "amount": total.text}
    fields["count"] = str(box.rng.randint(6, 60))
    on = box.start(120)
    draft = box.tell("order", fields, on, topic=topic, states={"number": number, "total": total})
    box.surround("order", fields, draft)
    parcel, sent = ("parcel", number.text), on
    for text in ("delivery", "delivery_late")[: 2 if box.chance(0.4) else 1]:
        sent = box.later(sent, 4, 12)
        date = box.fresh_date(sent, 5, 40)
        values = {**fields, "date": date.text}
        box.tell(text, values, sent, sender=supplier.contact, topic=parcel, states={"date": date})
    part = box.rng.choice(("number", "total"))
    box.ask(f"order_{part}", fields, (topic, part), style=box.rng.choice(("easy", "medium")))
    box.ask("order_delivery", fields, (topic, "number"), (parcel, "date"), style="hard")


def ticket(box: Mailbox) -> None:
    """A customer's complaint; the mail that closes the ticket names its number only."""
    topic = box.pick("ticket", [firm.name for firm in box.cast.customers], SYNONYMS["problems"])
    firm, problem = box.cast.customer(topic[1]), topic[2]
    number = box.fresh(lambda: code_value(f"T{box.rng.randint(10_000, 99_999)}"))
    cause = cause_value(box.rng.choice(THINGS["causes"]))
    credit = box.fresh(lambda: money_value(box.rng.randrange(300, 9_000, 10)))
    fields = {"customer": firm.name, "stem": firm.stem}
    fields |= {"problem": problem, "problem_synonym": box.synonym(SYNONYMS["problems"][problem])}
    fields |= {"number": number.text, "cause": cause.text, "amount": credit.text}
    fields["city"] = box.rng.choice(box.cast.cities)
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
    topic = box.pick("contract", [firm.name for firm in box.cast.customers], THINGS["contracts"])
    draft, fields = _write_contract(box, topic, box.start(300))
    extended = None
    if box.chance(0.4):
        sent = box.later(draft.sent, 60, 200)
        end = _end_of_contract(box, sent, 3)
        extended = box.tell("contract_extended", {**fields, "end": end.text}, sent, topic=topic, states={"end": end})
        box.ask("contract_end", fields, (topic, "end"), difficulty="medium", after=extended.sent)
    _ask_two(box, "contract", fields, topic, ("end", "value", "signer"), extended)


def _ask_two(
    box: Mailbox, story: str, fields: dict[str, str], topic: Topic, parts: tuple[str, ...], change: Draft | None
) -> None:
    """An easy and a medium question about two of the parts, before the change."""
    for part, style in zip(box.rng.sample(parts, 2), ("easy", "medium"), strict=True):
        box.ask(f"{story}_{part}", fields, (topic, part), style=style, before=change.sent if change else None)


def _write_contract(box: Mailbox, topic: Topic, on: datetime) -> tuple[Draft, dict[str, str]]:
    firm, signer = box.cast.customer(topic[1]), box.colleague()
    end = _end_of_contract(box, on, 1)
    amount = box.fresh(lambda: money_value(box.rng.randrange(12_000, 400_000, 500)))
    fields = {"customer": firm.name, "stem": firm.stem, "type": topic[2]}
    fields |= {"person": signer.name, "end": end.text, "amount": amount.text}
    states = {"end": end, "value": amount, "signer": person_value(signer)}
    draft = box.tell("contract", fields, on, topic=topic, states=states)
    box.surround("contract", {**fields, "person": box.colleague(signer).name}, draft)
    return draft, fields


def _end_of_contract(box: Mailbox, moment: datetime, years: int) -> Value:
    span = (365 * years, 365 * (years + 2))
    return box.fresh(lambda: date_value((moment + timedelta(days=box.rng.randint(*span))).date(), with_year=True))


def contract_compare(box: Mailbox) -> None:
    """Contracts of the same sort with two customers: which one runs longer?"""
    names = [firm.name for firm in box.cast.customers]
    sort = box.rng.choice(THINGS["contracts"])
    first, second = (box.pick("contract", names, [sort]) for _ in range(2))
    on = box.start(120)
    for topic in (first, second):
        _write_contract(box, topic, box.later(on, 0, 60))
    fields = {"customer": first[1], "other_customer": second[1], "type": sort}
    fields["stem"] = box.cast.customer(first[1]).stem
    winner = firm_value(box.cast.customer(box.best((first, second), "end", max)[1]))
    box.ask("contract_compare", fields, (first, "end"), (second, "end"), style="hard", answer=winner)
    box.ask("contract_value", fields, (first, "value"))


def offers(box: Mailbox) -> None:
    """Offers of three suppliers for a job, a decision, and at times a change of mind."""
    picked = box.pick("decision", SYNONYMS["jobs"], box.cast.sites)
    _, job, site = picked
    suppliers = box.rng.sample(box.cast.suppliers, 3)
    quotes = {firm.name: ("quote", firm.name, job, site) for firm in suppliers}
    fields = {"job": job, "job_synonym": box.synonym(SYNONYMS["jobs"][job]), "site": site}
    on = box.start(120)
    drafts: list[Draft] = []
    for name, quote in quotes.items():
        price = box.fresh(lambda: money_value(box.rng.randrange(1_200, 30_000, 10)))
        values = {**fields, "supplier": name, "amount": price.text}
        drafts.append(box.tell("quote", values, box.later(on, 0, 9), topic=quote, states={"price": price}))
    box.surround("quote", fields, drafts[0])
    chosen, rejected, other = suppliers
    texts = (("decision", rejected), ("decision_changed", chosen)) if box.chance(0.4) else (("decision", chosen),)
    sent = on + timedelta(days=12)
    for text, supplier in texts:
        sent = box.later(sent, 2, 6)
        values = {**fields, "supplier": supplier.name}
        box.tell(text, values, sent, topic=picked, states={"vendor": firm_value(supplier)})
    box.ask("decision_name", fields, (picked, "vendor"), style="easy" if len(texts) == 1 else "medium")
    asked = {**fields, "supplier": other.name, "stem": other.stem}
    box.ask("quote_price", asked, (quotes[other.name], "price"), style=box.rng.choice(("easy", "medium")))
    claims = (picked, "vendor"), (quotes[chosen.name], "price")
    box.ask("decision_price", {**fields, "supplier": chosen.name}, *claims, style="hard")
    pair = (chosen.name, other.name) if box.chance(0.5) else (other.name, chosen.name)
    topics = [quotes[name] for name in pair]
    cheaper = box.best(topics, "price", min)[1]
    answer = firm_value(chosen if cheaper == chosen.name else other)
    asked = {**fields, "supplier": pair[0], "other_supplier": pair[1]}
    box.ask("quote_compare", asked, *((topic, "price") for topic in topics), style="hard", answer=answer)


def request(box: Mailbox) -> None:
    """A customer's request, forwarded; the customer may correct the number."""
    topic = box.pick("request", [firm.name for firm in box.cast.customers])
    firm, product = box.cast.customer(topic[1]), box.rng.choice(THINGS["products"])
    on = box.start(100)
    count = box.fresh(lambda: code_value(str(box.rng.randrange(110, 990, 10))))
    needed = box.fresh_date(on, 20, 60)
    fields = {"customer": firm.name, "stem": firm.stem, "product": product}
    fields |= {"count": count.text, "date": needed.text}

    def forward(text: str, sent: datetime, states: dict[str, Value]) -> Draft:
        message = (
            f"---------- Forwarded message ----------\nFrom: {firm.contact.name}, {firm.name}\n\n"
            f"{box.rng.choice(MAILS[text]['forwarded']).format_map(fields)}\n{firm.contact.name}"
        )
        return box.tell(text, fields, sent, topic=topic, states=states, forwards=message)

    draft = forward("request", on, {"count": count, "date": needed})
    box.surround("request", fields, draft)
    changed = None
    if box.chance(0.4):
        count = box.fresh(lambda: code_value(str(box.rng.randrange(110, 990, 10))))
        fields["count"] = count.text
        changed = forward("request_changed", box.later(on, 3, 8), {"count": count})
        box.ask("request_count", fields, (topic, "count"), difficulty="medium", after=changed.sent)
    _ask_two(box, "request", fields, topic, ("count", "date"), changed)


def door(box: Mailbox) -> None:
    """The code of a door, changed every few months."""
    topic = box.pick("door", box.cast.sites, THINGS["places"])
    fields = {"site": topic[1], "place": topic[2]}
    on = box.start(500)
    drafts: list[Draft] = []
    for _ in range(box.rng.choice((1, 2, 3))):
        code = box.fresh(lambda: code_value(str(box.rng.randint(1000, 9999))))
        drafts.append(box.tell("door", {**fields, "code": code.text}, on, topic=topic, states={"code": code}))
        on = box.later(on, 60, 180)
    box.surround("door", fields, drafts[0])
    box.ask("door_code", fields, (topic, "code"), before=drafts[1].sent if drafts[1:] else None)
    box.ask("door_code", fields, (topic, "code"), style="medium")
