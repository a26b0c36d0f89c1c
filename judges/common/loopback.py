"""Addresses of this machine, to which no proxy of the environment leads, whatever it says of others."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1", "0.0.0.0")  # the last is where many servers say that they listen


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host in LOOPBACK_HOSTS or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, or no URL
        return False


def without_proxy_to_loopback(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables in which no proxy leads to ``LOOPBACK_HOSTS``, nor to what they name already."""
    hosts = [host.strip() for name in ("no_proxy", "NO_PROXY") for host in environment.get(name, "").split(",")]
    hosts = ["*"] if "*" in hosts else [*hosts, *LOOPBACK_HOSTS]  # many clients know it in no list
    value = ",".join(dict.fromkeys(filter(None, hosts)))
    return {**environment, "no_proxy": value, "NO_PROXY": value}
