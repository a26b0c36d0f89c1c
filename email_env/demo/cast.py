"""The people and things of one mailbox: owner, colleagues, customers, suppliers, projects, offices.

Within a mailbox no first name, last name or company stem occurs twice, so that "Lena", "Vogt" and "Lena
Vogt" mean the same person.
"""

import random
from dataclasses import dataclass

from email_env.demo.names import CITIES, DEPARTMENTS, POOLS, TRADES


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


def draw_cast(rng: random.Random, split: str, company_number: int) -> Cast:
    """Draw the cast of one inbox.

    Args:
        rng: Source of every choice.
        split: "train", "validation" or "test": whose name pools are used.
        company_number: Which of the split's companies owns the inbox (one inbox each).
    """
    pools = POOLS[split]
    company = pools.companies[company_number]
    domain = company.lower() + ".com"
    first, last = list(pools.first), list(pools.last)
    rng.shuffle(first)
    rng.shuffle(last)

    def person(at: str, department: str) -> Person:
        given, family = first.pop(), last.pop()
        return Person(given, family, f"{given}.{family}@{at}".lower(), department)

    def firm(stem: str) -> Firm:
        name = f"{stem} {rng.choice(TRADES)}"
        return Firm(name, stem, person(name.replace(" ", "").lower() + ".com", "Customer desk"))

    stems = rng.sample(pools.stems, 14)
    cities = rng.sample(CITIES, len(CITIES))
    owner, *colleagues = [person(domain, rng.choice(DEPARTMENTS)) for _ in range(13)]
    return Cast(
        company=company,
        owner=owner,
        colleagues=tuple(colleagues),
        applicants=tuple(person("mailhost.net", "Applicant") for _ in range(8)),
        customers=tuple(firm(stem) for stem in stems[:7]),
        suppliers=tuple(firm(stem) for stem in stems[7:]),
        projects=tuple(rng.sample(pools.projects, 10)),
        sites=tuple(cities[:4]),
        cities=tuple(cities[4:14]),
        travel_desk=Person("Travel", "Desk", f"travel@{domain}", "Travel"),
    )
