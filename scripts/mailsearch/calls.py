"""Random tool calls, from sound to hostile: what a model might write, and what only an attacker would."""

from __future__ import annotations

import random
from typing import Any

from email_env.tools.actions import ToolCall

HOSTILE = (
    "",
    " ",
    "?!*",
    '"',
    '""" OR "',
    "'; DROP TABLE emails; --",
    "' OR 1=1 --",
    "who : p1",
    "p1 f2 t3",
    "{subject body} : x",
    "NEAR(the of, 2)",
    "subject:the*",
    "^the",
    "-the",
    "the AND",
    "AND OR NOT",
    "a\x00b",
    "\ud83d",
    "\udc00\ud800",
    "\u202e\u0000\ufffe",
    "🦅" * 30,
    "ß" * 90,
    "x" * 5_000,
    "the " * 40,
    "a-b-c-d-e-f-g",
    "%s%n{0}",
    "../../etc/passwd",
    "<b>the</b>",
    "NaN",
    "2001-02-30",
    "0000-00-00",
    "9999-12-31",
    "0001-01-01",
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    7,
    10**40,
    1.5,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    {"a": []},
)


class Caller:
    """An endless stream of calls.

    Args:
        generator: where all chance comes from.
        words: words of the mail.
        addresses: addresses of the mail.
        message_ids: ids of the mail, of any inbox.
    """

    def __init__(
        self, generator: random.Random, words: list[str], addresses: list[str], message_ids: list[str]
    ) -> None:
        self.generator = generator
        self.words = words
        self.addresses = addresses
        self.message_ids = message_ids
        self.found: tuple[str, ...] = ()
        """Ids that a search has shown; set by who plays the calls, and read by some of the next ones."""

    def call(self) -> ToolCall:
        """The next call; about half are sound."""
        pick = self.generator.random()
        if pick < 0.6:
            return ToolCall("search_inbox", self._search())
        if pick < 0.9:
            known = self.found if self.found and self.generator.random() < 0.5 else self.message_ids
            arguments = {"message_id": self._either(self.generator.choice(known), 0.3)}
            if self.generator.random() < 0.1:
                arguments["offset"] = self._either(self.generator.randint(0, 2000), 0.2)
            return ToolCall("read_email", arguments)
        if pick < 0.97:
            sources = [self._either(self.generator.choice(self.message_ids), 0.2) for _ in range(self._count(3))]
            answer = self._either("Thursday", 0.3)
            return ToolCall("return_final_answer", {"answer": answer, "sources": self._either(sources, 0.2)})
        return ToolCall(self._text(), {self._text(): self._anything()})

    def _search(self) -> dict[str, Any]:
        generator = self.generator
        keywords: Any = [self._either(self._phrase(), 0.08) for _ in range(self._count(5))]
        arguments: dict[str, Any] = {"keywords": self._either(keywords, 0.06)}
        for name, sound in (
            ("from_addr", self._person),
            ("to_addr", self._person),
            ("sent_after", self._day),
            ("sent_before", self._day),
            ("max_results", lambda: generator.randint(1, 10)),
            ("offset", lambda: generator.randint(0, 30)),
        ):
            if generator.random() < 0.2:
                arguments[name] = self._either(sound(), 0.15)
        if generator.random() < 0.05:
            del arguments["keywords"]
        if generator.random() < 0.03:
            arguments[generator.choice(("max_result", "message_id", self._text()))] = 1
        return arguments

    def _person(self) -> str:
        address = self.generator.choice(self.addresses)
        name = address.partition("@")[0].replace(".", " ")
        return self.generator.choice((address, name, f"{name} <{address}>"))

    def _phrase(self) -> str:
        return " ".join(self.generator.choice(self.words) for _ in range(self.generator.choice((1, 1, 1, 2, 3))))

    def _day(self) -> str:
        year, month, day = (self.generator.randint(*span) for span in ((1998, 2026), (1, 12), (1, 28)))
        return f"{year}-{month:02}-{day:02}"

    def _count(self, most: int) -> int:
        if self.generator.random() < 0.03:
            return self.generator.choice((0, 13, 60))
        return min(self.generator.randint(1, most), self.generator.randint(1, most))

    def _either(self, sound: Any, odds: float) -> Any:
        return self._anything() if self.generator.random() < odds else sound

    def _anything(self) -> Any:
        return self.generator.choice(_VALUES) if self.generator.random() < 0.4 else self._text()

    def _text(self) -> str:
        if self.generator.random() < 0.7:
            return self.generator.choice(HOSTILE)
        return "".join(chr(self.generator.randrange(0x110000)) for _ in range(self.generator.randrange(12)))
