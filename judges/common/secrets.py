"""Keys stay out of what is printed, hashed or written: parameters are left out by name, texts blanked by value.

A text is blanked where it arrives: a server's error and a judge's answer may repeat a key.
"""

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

_SECRET_NAME = re.compile(
    r"(^|[_-])(key|token|secret|password|passwd|credentials?|authorization|auth|headers?|cookie)s?$|^(aws|azure|vertex)_",
    re.IGNORECASE,
)
_SECRET_VARIABLE = re.compile(r"(_KEY|_TOKEN|_SECRET|_PASSWORD|_KEY_ID)$")
_USER_OF_URL = re.compile(r"(?<=://)[\w.~%!$&'()*+,;=:@-]*@")
_SHORTEST_SECRET_CHARS = 8
"""Shorter values are words like "EMPTY" or "none"; blanking them would blank ordinary text."""


def without_secrets(value: Any) -> Any:
    """Parameters without those whose name says that they carry a secret, at any depth.

    Numbers are kept: ``max_tokens`` is no secret.
    """
    if isinstance(value, Mapping):
        return {
            str(name): without_secrets(item)
            for name, item in value.items()
            if isinstance(item, (int, float)) or not _SECRET_NAME.search(str(name))
        }
    if isinstance(value, (list, tuple)):
        return [without_secrets(item) for item in value]
    return value


def secrets_in(params: Any, is_secret: bool = False) -> Iterator[str]:
    """The texts in parameters that are secret by name, at any depth; of ``Bearer KEY`` also the key alone."""
    if isinstance(params, Mapping):
        for name, item in params.items():
            yield from secrets_in(item, is_secret or bool(_SECRET_NAME.search(str(name))))
    elif isinstance(params, (list, tuple)):
        for item in params:
            yield from secrets_in(item, is_secret)
    elif isinstance(params, str) and is_secret:
        yield params
        yield params.partition(" ")[2]


def secrets_of_url(url: str) -> Iterator[str]:
    """The password of a URL, encoded and not, and the values of its query."""
    users = url.partition("://")[2].rpartition("@")[0]
    for text in (users, users.partition(":")[2]):
        yield text
        yield unquote(text)
    for _, value in parse_qsl(url.partition("?")[2]):
        yield value


def without_credentials(url: str) -> str:
    """A URL without the user, password, query and fragment it may carry."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(not readable)"
    if not parts.netloc:  # without "//", a password stands where urlsplit sees a scheme and a path
        return re.split("[?#]", url)[0].rpartition("@")[2]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def split_users(url: str) -> tuple[str, dict[str, str]]:
    """A URL without user and password, and the header that carries them (RFC 7617).

    HTTP clients may refuse them in a URL.
    """
    parts = urlsplit(url)
    users, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    encoded = base64.b64encode(unquote(users).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {encoded}"}


def without_users(text: str) -> str:
    """A text without the users and passwords of the URLs in it."""
    return _USER_OF_URL.sub("", text)


def blank_secrets(text: str, *secrets: str | None) -> str:
    """A text with the given secrets, and those of the environment, replaced by ``[key]``; also as JSON writes them."""
    values = [*secrets, *(value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name))]
    for value in sorted({v for v in values if v and len(v) >= _SHORTEST_SECRET_CHARS}, key=len, reverse=True):
        for form in dict.fromkeys((value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])):
            text = text.replace(form, "[key]")
    return text
