"""Addresses of a group service: `scheme://host:port,host:port/path`."""

from __future__ import annotations

import re
from dataclasses import dataclass

URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<hosts>[^/?#@]+)(?P<path>/[^?#]*)?")
HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Addresses:
    """The servers of one service, and the path of its members."""

    hosts: tuple[tuple[str, int], ...]
    path: str


def parse(url: str, *, port: int, path: str) -> Addresses:
    """Parse a URL. `port` and `path` are defaults. The URL was validated when the environment was read."""
    found = URL.fullmatch(url)
    hosts = [HOST.fullmatch(part) for part in found["hosts"].split(",")] if found else []
    if found is None or not all(hosts):
        raise ValueError("not an address of a group")
    given = (found["path"] or "").rstrip("/")
    return Addresses(
        tuple((host["name"].strip("[]"), int(host["port"] or port)) for host in hosts if host), given or path
    )
