"""Addresses and names out of From, To, Cc and Bcc headers, and out of Enron's X-To and X-cc, as real mail has them.

The stdlib's parser rejects forms that are common in old mail (`k..allen@enron.com`, `e-mail <.bob@enron.com>`,
`<walker"."blair@enron.com>`). This one accepts whatever can serve as the name of a mailbox, and never raises. It does
not check whether an address could receive mail.

Exchange also writes a name alone, or an X.500 path. Such a person's address is the name (`email_env.search.query`).
"""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import repeat

from email_env.ingest.headers import ENCODED_WORD, readable
from email_env.search.query import name_address, path_name

_MAX_CHARS = 500  # of an address, and of a name: some steps cost more than the length of these
_BRACKETS = rf"{ENCODED_WORD}|<[^<>]*+>|\((?:[^()<>]|\([^()<>]*+\))*+\)"
_ENCLOSED = (rf'"[^"]*+"|{_BRACKETS}', _BRACKETS)
"""What a comma inside of separates nothing, by whether a quote has no other: none counts then."""
_ENCLOSURE = tuple(map(re.compile, _ENCLOSED))
_PART, _PIECE = (
    [re.compile(rf'(?:[^{marks}"=<(]++|{enclosed}|[^{marks}])++') for enclosed in _ENCLOSED] for marks in (",;", ";")
)
_ANGLE = re.compile(r"<[^<>]*>")
_COMMENT = re.compile(r'("[^"]*+")|\(((?:[^()]|\([^()]*+\))*+)\)')  # none in quotes, which stay
_SQUARE = re.compile(r"(?<=\s)\[([^][<>@\s]+@[^][<>@\s]+)\]\Z")  # Ann Reed [mailto:ann@x.com], as Outlook shows it
_JUNK = str.maketrans("", "", '<>"(),;\x00')
_SURNAME = re.compile(r"[^\s@]+(?: (?:jr|sr|i{1,3}|iv)\.?)?", re.IGNORECASE)
_NAME = re.compile(r"[^,]+, [^\W\d_a-z][^,]*")
_ADDRESS = re.compile(r"[^/@]+@[^/@]+\.[^/@]+")  # unlike Kim Ward/ET&S/Enron@ENRON
_BEFORE = re.compile(r"\A.*:(?=[^@:]+@)")  # `mailto:`, `SMTP:`, the name of a group, or a route, as `@a.com,@b.com:`
_NOBODY = re.compile(r"<?(?:undisclosed|unlisted)[- ]recipients?[\s:;]*+(?:@[\w.-]+)?[\s;>]*+", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{3,}")


def parse_mailboxes(header: str) -> dict[str, str]:
    """The lower-case addresses of a header in order, each once, with their display names, "" where there is none."""
    found: dict[str, str] = {}
    for part in _mailboxes(header) if header else ():
        address, name = parse_mailbox(part)
        if address:
            found[address] = found.get(address) or name
    return found


def listed_names(x_header: str, addresses: Collection[str]) -> list[tuple[str, str]]:
    """(address, display name) of those `addresses` whose name an X-To or X-cc header tells.

    Such a header lists names in the order of the addresses: `Kim Ward, Ward, Kim S. </O=ENRON/CN=KWARD>, <kim@x.com>`.
    A name counts where its address stands beside it, where there is but one of both, or where both lists are equally
    long and the two share letters.
    """
    entries = _rejoined(_split(x_header))
    if len(entries) == len(addresses):
        named = map(_named, entries, addresses, repeat(len(addresses) == 1))
    else:
        named = map(_named, entries) if "@" in x_header else ()
    return [pair for pair in named if pair[1] and pair[0] in addresses]


@lru_cache(maxsize=1 << 16)
def _named(entry: str, address: str = "", sure: bool = False) -> tuple[str, str]:
    """(address, name) of an entry of X-To: the address beside it, else that at its place, where it looks `sure`."""
    if "@" in entry:
        angle = _ANGLE.search(entry)  # Notes has its own `<IMCEANOTES-...@x.com>` behind the address, which it quotes
        own, name = parse_mailbox(entry[: angle.end()] if angle else entry)
        if _ADDRESS.fullmatch(own):
            return own, name
    name = display_name(entry)
    return (address, name) if sure or _alike(name, address) else ("", "")


def _mailboxes(header: str) -> list[str]:
    """The mailboxes of a header, their names still encoded; some senders encode the whole mailbox.

    Exchange puts semicolons between them, and a comma is part of a name alone: `Reed, Ann; Lane, Bob`, `Reed, Ann`.
    """
    found: list[str] = []
    pieces = _split(header, _PIECE) if ";" in header else [header]
    for piece in pieces:
        is_one = "@" not in piece and "<" not in piece
        if is_one and len(pieces) == 1:
            is_one = _NAME.fullmatch(piece) is not None and _is_surname(piece.partition(",")[0])
        parts: list[str] = []
        for part in [piece] if is_one else _split(piece):
            shown = part if "@" in part else readable(part)
            parts += _split(shown) if shown != part and "@" in shown else [part]
        found += _rejoined(parts)
    return found


def _rejoined(parts: Iterable[str]) -> list[str]:
    """`Ward, Kim <...>` is one mailbox, although a comma separates mailboxes too."""
    whole: list[str] = []
    for part in parts:
        if "<" in part and whole and "<" not in whole[-1] and _is_surname(whole[-1]):
            whole[-1] += f", {part}"
        else:
            whole.append(part)
    return whole


def _is_surname(part: str) -> bool:
    """Whether it may be the surname of the next part; in small letters it is an address without an @, as `kay`."""
    is_name = not part.islower() or part.startswith(("=?", "'"))
    return is_name and _SURNAME.fullmatch(part) is not None


def _alike(name: str, address: str) -> bool:
    """Whether the beginning of one of the name's words is in the address, as in `pallen@x.com` of Phillip Allen."""
    local = address.partition("@")[0]
    return any(word[:4] in local for word in _WORD.findall(name.lower()))


def parse_sender(header: str) -> tuple[str, str]:
    """The first mailbox of a From header as (address, display name)."""
    header = header if "@" in header else readable(header)
    if header.count("@") > 1:
        header = next((part for part in _mailboxes(header) if "@" in part), header)
    return parse_mailbox(header)


@lru_cache(maxsize=1 << 16)  # the same people are listed again and again
def parse_mailbox(part: str) -> tuple[str, str]:
    """One mailbox as (address, display name); either may be "".

    >>> parse_mailbox('"Keller, Anna" <Anna.Keller@Example.com>')
    ('anna.keller@example.com', 'Keller, Anna')
    """
    part = _SQUARE.sub(r"<\1>", part.strip().removesuffix("<MAILER-DAEMON>") or part)  # readpst's for a name alone
    if _NOBODY.fullmatch(part):
        return "", ""
    enclosures = _ENCLOSURE[part.count('"') % 2].finditer(part)
    angles = [match for match in enclosures if match[0][0] == "<"] or [*_ANGLE.finditer(part)]
    if angles:
        angle = next((match for match in reversed(angles) if "@" in match[0]), angles[-1])
        address, before = angle[0][1:-1], part[: angle.start()]
    else:
        address, before = part, ""
    name, path = before, path_name(address.strip('"'))
    if "(" in part and not path:
        address = _COMMENT.sub(r"\1", address)
        comment = next((comment[2] for comment in _COMMENT.finditer(part) if comment[2]), "")
        if "@" in comment and "@" not in address:  # Ann Reed (ann@x.com)
            address, name = comment, before or address
        elif not _COMMENT.sub(r"\1", before).strip():
            name = comment
    said = readable(path or address.strip() or before)
    words = said.translate(_JUNK).strip("'").split()
    if len(words) == 3 and words[1] in ("at", "@") and "." in words[2]:  # archives of lists hide addresses so
        words = ["@".join(words[::2])]
    with_at = [word for word in words if "@" in word]
    if with_at:
        address = _BEFORE.sub("", with_at[-1], count=1)
    elif len(words) == 1:
        address = words[0] if not words[0].endswith(":") else ""
    else:  # a name alone, before which that of a group may stand, as in "undisclosed recipients:"
        alone = said.rpartition(":")[2].strip(" ;,'\"")
        address, name = name_address(alone), before or alone or name
    address = address.strip("'").lower()
    return address if len(address) <= _MAX_CHARS else "", display_name(readable(name))


def display_name(text: str) -> str:
    """A person's name without quotes, directory paths (`</O=ENRON/...>`) and addresses in angle brackets."""
    name = " ".join(text.partition("<")[0].replace('"', " ").split()).strip("' ")
    person, at, _ = name.partition("@")
    if at and " " not in person:
        return ""
    return person[:_MAX_CHARS].strip()  # of Stan Horton, Chairman@ENRON the name


def _split(header: str, form: Sequence[re.Pattern[str]] = _PART) -> list[str]:
    """Splits at commas and semicolons that are outside quotes, angle brackets, comments and encoded words."""
    parts = map(str.strip, form[header.count('"') % 2].findall(header))
    return [part for part in parts if part]
