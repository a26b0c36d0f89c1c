"""Checks the arguments of a search and turns them into the database's own form.

Every function raises `ToolInputError` with a text that the model can act on.

The limits bound what one search costs, and the cost is counted in mails rather than in words: one stop word in an inbox
of thousands can cost more than twenty rare words. The database knows in about how many mails each common word is. A
search over more than `MAX_SEARCH_MAILS` of them is refused, and the error names the words.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import unquote

from email_env.errors import ToolInputError
from email_env.search import cjk
from judges.common.text import is_utf8, shown

MAX_KEYWORDS = 12
MAX_KEYWORD_CHARS = 200
MAX_SEARCH_WORDS = 24
MAX_RESULTS = 10
MAX_OFFSET = 1_000
MAX_SNIPPET_WORDS = 64
MAX_PERSON_CHARS = 400
MAX_NAME_WORDS = 6
MIN_BEGINNING = 3  # characters before an asterisk
MAX_PEOPLE = 5000  # of a domain

WHO_MARK = "\ue000"
"""Begins every token of the column `who`. The index takes it for a letter, and it is removed from keywords, so no
keyword matches a person. Otherwise every search would have to name the other columns, which cost 17 % of its time (mean
over 1,500 searches of 51,345 mails)."""

NAME_COLUMNS = {"f": "sender_names", "t": "recipient_names"}
"""The columns of the index with the names of sender and recipients, as `name_words` makes them."""

COMMON_MAILS = 1_000
"""A word in more mails than this is common: the database knows their number, and a search pays for reading them."""
MAX_SEARCH_MAILS = 2_000_000
"""A search may read at most so many mails, summed over its common words."""
MAX_RANKED_MAILS = 200_000
"""A ranking may read at most so many mails to learn how telling its keywords are."""
_PHRASE_READS = 20  # finding where the words of a phrase meet costs this many times more than reading one of them

_MARKS = "\u0300\u036f"  # of Latin, Greek and Cyrillic letters
_LETTERS_WITH_MARKS = "йїўѓќЙЇЎЃЌ"  # nobody writes them without
_OTHER_FORMS = re.compile("[\uff01-\uff5e\ufb00-\ufb06]")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_BESIDE_NAME = re.compile(r"\([^)]*\)|[/@].*")
_PATH = re.compile(r"(?:\w+:)?(IMCEAEX-)?(?:[/_]O=.*[/_])?CN=([^/,@<>]+)", re.IGNORECASE)
_NOTES = re.compile(r"\s*+(?:CN=)?+([^/@<>]++)/[^@<>]*+@[^@<>.]++", re.IGNORECASE)
_ADDRESS = re.compile(
    r"(?:.*[<[(])?['\"\s]*+(?:(?:mailto|smtp):)?+([^\s<>()[\]\",;]*@[^\s<>()[\]\",;]*)[]>)'\"\s]*+", re.IGNORECASE
)
_ELIDED = re.compile(r"(?<!\w)[^\W\d_]['\u2019]\w\w")  # O'Brien, d'Arc
_RUN = re.compile(r"[^\W_]+\*?")
_DOMAIN = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_ASCII_WORD = re.compile("[a-z0-9]+")
_JOINED = {"all": " AND ", "any": " OR "}


@dataclass(slots=True)
class Phrase:
    """A keyword.

    Attributes:
        quoted: the form that MATCH takes; nothing that the caller wrote in it is syntax.
        words: the words in the form of the index.
        address: the keyword, where it is an address or a domain.
        is_open: whether the last word is the beginning of words.
    """

    quoted: str
    words: tuple[str, ...]
    address: str = ""
    is_open: bool = False

    def mails(self, common: Mapping[str, int]) -> int:
        """How many mails the index reads for the common words of the phrase."""
        return sum(self._mails(common))

    def ranking_mails(self, common: Mapping[str, int]) -> int:
        """About how many mails it reads to learn how telling the phrase is: few where one of the words is rare."""
        rarest = min(self._mails(common))
        return rarest if len(self.words) == 1 else rarest * _PHRASE_READS

    def _mails(self, common: Mapping[str, int]) -> list[int]:
        """How many mails have each of its words, as far as those are common."""
        mails = [common.get(word, 0) for word in self.words]
        if self.is_open:
            mails[-1] = sum(count for word, count in common.items() if word.startswith(self.words[-1]))
        return mails


def phrases(keywords: Sequence[str]) -> list[Phrase]:
    """The keywords as phrases."""
    if isinstance(keywords, str):
        keywords = [keywords]
    if not isinstance(keywords, list | tuple):
        raise ToolInputError(f'keywords must be a list of words or phrases, e.g. ["budget"]; got {shown(keywords)}.')
    if len(keywords) > MAX_KEYWORDS:
        raise ToolInputError(f"At most {MAX_KEYWORDS} keywords, got {len(keywords)}. Use the few most telling words.")
    found: list[Phrase] = []
    for keyword in keywords:
        if not isinstance(keyword, str):
            raise ToolInputError(f"Each keyword must be a string, got {shown(keyword)}.")
        if len(keyword) > MAX_KEYWORD_CHARS:
            raise ToolInputError(
                f"A keyword may have {MAX_KEYWORD_CHARS} characters, got {len(keyword)}: {shown(keyword)}."
                " Use single words or short phrases."
            )
        if not storable(keyword):
            raise ToolInputError(f"Keyword {shown(keyword)} holds characters that no mail has. Use plain words.")
        words = index_words(keyword)
        if not words:
            raise ToolInputError(f"Keyword {shown(keyword)} has no letters or digits. Use words from the mail.")
        text = index_text(keyword.replace('"', '""').replace(WHO_MARK, " "))
        is_open = keyword.endswith("*") and len(words[-1]) >= MIN_BEGINNING
        quoted = f'"{text}" *' if is_open else _with_name(f'"{text}"', words, keyword)
        found.append(Phrase(quoted, words, _address(keyword), is_open))
    count = sum([len(phrase.words) for phrase in found])
    if count > MAX_SEARCH_WORDS:  # a word of Chinese has about two characters, of which each counts as a word here
        count -= sum([cjk.is_cjk(word) for phrase in found for word in phrase.words]) / 2
    if count > MAX_SEARCH_WORDS:
        raise ToolInputError(f"At most {MAX_SEARCH_WORDS} words over all keywords, got {count:g}. Use fewer.")
    return found


def _with_name(quoted: str, words: tuple[str, ...], keyword: str) -> str:
    """The phrase, or the name that it gives with an initial or behind the surname: `Ward, Kim S.` is "kim ward" too.

    `O'Brien` is "brien", but only in the names: elsewhere a single word would say less than the keyword.
    """
    if len(words) == 1 or (min(map(len, words)) > 1 and "," not in keyword and "(" not in keyword):
        return quoted
    name = tuple(name_words(keyword))
    if len(name) == 1 and _ELIDED.search(keyword):
        return f'({quoted} OR {{{" ".join(NAME_COLUMNS.values())}}} : "{name[0]}")'
    return f'({quoted} OR "{" ".join(name)}")' if len(name) > 1 and name != words else quoted


def joined(phrases: Sequence[Phrase], match: str) -> str:
    """The phrases as one FTS expression that requires "all" of them or "any" one."""
    return _JOINED[match].join(phrase.quoted for phrase in phrases)


def affordable(phrases: Sequence[Phrase], common: Mapping[str, int]) -> list[Phrase]:
    """The phrases, the rarest first, since the index skips ahead by the first one.

    Raises:
        ToolInputError: they would read more than `MAX_SEARCH_MAILS`.
    """
    costs = [(phrase.mails(common), at) for at, phrase in enumerate(phrases)]
    if sum([cost for cost, _ in costs]) > MAX_SEARCH_MAILS:
        words = dict.fromkeys(word for phrase in phrases for word in phrase.words if word in common)
        most = ", ".join(sorted(words, key=lambda word: -common[word])[:8])
        raise ToolInputError(f"Too many words that very many mails have: {most}. Leave out the least telling ones.")
    return [phrases[at] for _, at in sorted(costs)]


def who(letter: str, person: int | str) -> str:
    """The token of a person in the column `who`: as participant (p), sender (f) or recipient (t)."""
    return f"{WHO_MARK}{letter}{person}"


def similar(keyword: str) -> list[str]:
    """What to try for a keyword that no mail has: words that begin so or like its singular, a plural, addresses."""
    word = keyword.rstrip("*").lower()
    ends = (("", "*"), ("s", "*"), ("es", "*"), ("ies", "*"), ("y", "ies"))
    forms = [word.removesuffix(end) + other for end, other in ends if word.endswith(end)]
    return [*forms, f"@{word}", f"{word}@"] if domain(f"@{word}") else forms


def domain(text: str) -> str:
    """The domain that `@bank.com`, `*@bank.com` or `bank.com` is, and `bank.*` of `@bank`; "" where it is none."""
    name = text.removeprefix("*").removeprefix("@").lower()
    if not _DOMAIN.fullmatch(name) or ("." not in name and name == text.lower()):
        return ""
    return name if "." in name else f"{name}.*"


def name_words(name: str) -> list[str]:
    """The words of a name as they are indexed: first name first, without initials and what stands beside a name.

    >>> name_words("Ward, Kim S. (Houston)")
    ['kim', 'ward']
    """
    last, comma, first = _BESIDE_NAME.sub("", name).partition(",")
    words = index_words(f"{first} {last}" if comma else last)
    return [word for word in words if len(word) > 1 or not word.isascii()]


def path_name(text: str) -> str:
    """The name in an X.500 path, as Exchange and Notes have it; "" where a text is none.

    They are `/O=X/OU=Y/CN=RECIPIENTS/CN=AREED`, which Exchange also packs into the address of a gateway
    (`IMCEAEX-_O=X_OU=Y_CN=RECIPIENTS_CN=AREED@x.com`), and `CN=Ann Reed/OU=Y/O=X` or `Ann Reed/Y/X@X`.
    """
    if "=" not in text and "/" not in text:
        return ""
    if (short := _NOTES.fullmatch(text)) and " " in short[1].strip():
        return short[1].strip()
    path = _PATH.match(text)
    if not path or ("@" in text) != bool(path[1]):
        return ""
    return (unquote(path[2].replace("+", "%")) if path[1] else path[2]).strip()


def name_address(name: str) -> str:
    """The address that stands for whom a mail tells the name alone: `ann.reed` for `Reed, Ann`."""
    words = name.split()
    return (words[0] if len(words) == 1 else ".".join(name_words(name) or index_words(name))).lower()


def telling(phrases: Sequence[Phrase], common: Mapping[str, int]) -> list[Phrase]:
    """The phrases that a ranking uses: all but those of the most common words."""
    chosen: list[Phrase] = []
    left = MAX_RANKED_MAILS
    for phrase in sorted(phrases, key=lambda phrase: phrase.ranking_mails(common)):
        left -= phrase.ranking_mails(common)
        if left >= 0:
            chosen.append(phrase)
    return chosen


def split_words(keywords: Sequence[str]) -> list[str]:
    """The words of all keywords, each once, with an asterisk behind it, and without single letters.

    A run of Chinese characters stays one.
    """
    words = [word for keyword in keywords for word in _RUN.findall(unicodedata.normalize("NFC", keyword))]
    return list(dict.fromkeys(word for word in words if len(word) > 1 or not word.isascii()))


def index_words(text: str) -> tuple[str, ...]:
    """Runs of letters and digits, without case and accents, as the index's tokenizer makes them."""
    if text.isascii():
        return tuple(_ASCII_WORD.findall(text.lower()))
    plain = "".join(map(_folded, index_text(text)))
    return tuple("".join(char if unicodedata.category(char)[0] in "LN" else " " for char in plain).split())


def index_text(text: str) -> str:
    """The text as it is indexed: its letters without accents, and separators between words of Chinese.

    The index's tokenizer takes one accent off a Latin letter. It knows neither `ё`, `ή` and `ł` nor the two of `ệ`.
    Letters and digits of the width of a Chinese character, and those that PDFs join (`ﬁ`), are as a keyboard has them.
    """
    return text if text.isascii() else cjk.separated(text).translate(_PLAIN_LETTERS)


class _PlainLetters(dict[int, str]):
    """The letter without accents for every character; filled as it is asked."""

    def __missing__(self, key: int) -> str:
        char = chr(key)
        if char not in _LETTERS_WITH_MARKS:
            letter, *marks = unicodedata.normalize("NFD", char)
            plain = unicodedata.normalize("NFKC", char) if _OTHER_FORMS.match(char) else ""
            if marks and all(_MARKS[0] <= mark <= _MARKS[1] for mark in marks):
                char = letter
            elif plain.isalnum():  # what is none may be a quotation mark
                char = plain
        self[key] = char
        return char


_PLAIN_LETTERS = _PlainLetters(zip(map(ord, "łŁøØđĐıħĦ"), "lLoOdDihH", strict=True))


def _folded(char: str) -> str:
    if cjk.is_cjk(char):
        return char
    if unicodedata.category(char) == "Mn" and not _MARKS[0] <= char <= _MARKS[1]:
        return " "  # the marks of other scripts are blanks for the index
    folded = char.casefold()
    kept = folded if len(folded) == 1 else char.lower()  # the index keeps the sharp s
    return "".join(part for part in kept if unicodedata.category(part) != "Mn")


def _address(text: str) -> str:
    """The address or `@domain` that a text is, or that stands in brackets behind the name; "" where there is none."""
    if path := path_name(text.rpartition("<")[2].strip().removesuffix(">").strip()):
        return name_address(path)
    found = _ADDRESS.fullmatch(text)
    return found[1].strip("'").lower() if found else ""


def person(value: str, name: str) -> tuple[str, str]:
    """A person from a name, an address, or `Name <address>`; the words of a name may stand in any order.

    Returns:
        What may be an address or a domain, and the form of a name that MATCH takes in the column of names; "" where it
        is an address for sure.
    """
    if isinstance(value, str) and storable(value) and len(value) <= MAX_PERSON_CHARS:
        if address := _address(value):
            return address, ""
        if words := name_words(value.replace(WHO_MARK, " "))[:MAX_NAME_WORDS]:
            near = " ".join(f'"{word}"' for word in words)
            return value.strip().lower(), f"NEAR({near}, {len(words)})"
    raise ToolInputError(
        f"{name} must be a person's name or email address such as anna.keller@example.com, got {shown(value)}."
    )


def iso_day(value: str, name: str) -> str:
    """A day as `YYYY-MM-DD`."""
    day = value.strip() if isinstance(value, str) else ""
    try:
        date.fromisoformat(day if _ISO_DATE.fullmatch(day) else "")
    except ValueError:
        raise ToolInputError(f"{name} must be a date like 2001-05-14, got {shown(value)}.") from None
    return day


def whole_number(value: int, name: str, most: int, *, least: int = 1) -> int:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ToolInputError(f"{name} must be a whole number from {least} to {most}, got {shown(value)}.")
    return value


def bare_message_id(message_id: str) -> str:
    """A Message-ID without surrounding blanks and angle brackets, as the database stores it."""
    return message_id.strip().removeprefix("<").removesuffix(">").strip()


def storable(text: str) -> bool:
    """Whether SQLite can hold the text: no NUL, no half of a surrogate pair."""
    return is_utf8(text) and "\x00" not in text
