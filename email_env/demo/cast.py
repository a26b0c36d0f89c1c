"""The people and things of one mailbox: owner, colleagues, customers, suppliers, projects, offices.

Within a mailbox no first name, last name or stem of a company occurs twice, so "Lena", "Vogt" and "Lena Vogt" mean the
same person.
"""

import random
from dataclasses import dataclass

from email_env.demo.texts import NAMES, THINGS


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """Somebody who writes or receives mail."""

    first: str
    last: str
    address: str
    department: str

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}".strip()


@dataclass(frozen=True, slots=True)
class Firm:
    """A customer or supplier with the person who writes for it."""

    name: str
    stem: str
    contact: Person


@dataclass(frozen=True, slots=True)
class Cast:
    """Everybody and everything the mails of one inbox are about."""

    company: str
    owner: Person
    colleagues: tuple[Person, ...]
    applicants: tuple[Person, ...]
    customers: tuple[Firm, ...]
    suppliers: tuple[Firm, ...]
    projects: tuple[str, ...]
    sites: tuple[str, ...]
    cities: tuple[str, ...]
    travel_desk: Person

    def colleague(self, name: str) -> Person:
        """The colleague of this first and last name."""
        return next(person for person in self.colleagues if person.name == name)

    def customer(self, name: str) -> Firm:
        """The customer of this name."""
        return next(firm for firm in self.customers if firm.name == name)


def draw_cast(rng: random.Random, split: str, company_number: int) -> Cast:
    """Draw the cast of one inbox.

    Args:
        rng: Source of every choice.
        split: "train", "validation" or "test": whose names are used.
        company_number: Which of the split's companies owns the inbox (one inbox each).
    """
    names = NAMES[split]
    company = names["companies"][company_number]
    domain = company.lower() + ".com"
    first, last = list(names["first"]), list(names["last"])
    rng.shuffle(first)
    rng.shuffle(last)

    def person(at: str, department: str) -> Person:
        given, family = first.pop(), last.pop()
        return Person(given, family, f"{given}.{family}@{at}".lower(), department)

    def firm(stem: str) -> Firm:
        name = f"{stem} {rng.choice(THINGS['trades'])}"
        return Firm(name, stem, person(name.replace(" ", "").lower() + ".com", "Customer desk"))

    stems = rng.sample(names["stems"], 14)
    cities = rng.sample(THINGS["cities"], len(THINGS["cities"]))
    owner, *colleagues = [person(domain, rng.choice(THINGS["departments"])) for _ in range(13)]
    return Cast(
        company=company,
        owner=owner,
        colleagues=tuple(colleagues),
        applicants=tuple(person("mailhost.net", "Applicant") for _ in range(8)),
        customers=tuple(firm(stem) for stem in stems[:7]),
        suppliers=tuple(firm(stem) for stem in stems[7:]),
        projects=tuple(rng.sample(names["projects"], 10)),
        sites=tuple(cities[:4]),
        cities=tuple(cities[4:14]),
        travel_desk=Person("Travel", "Desk", f"travel@{domain}", "Travel"),
    )
