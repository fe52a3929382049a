"""Parses `postgresql://user:password@host:port/name`, the address and credentials of a PostgreSQL database."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

FORM = "postgresql://user:password@host:port/name"
SCHEMES = ("postgresql", "postgres")
DEFAULT_PORT = 5432
NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
# Options of a URL beyond the address, by libpq's names. `host` is the folder of a local socket.
PARAMETERS = ("host", "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")


class BadDatabaseUrl(ValueError):
    """An invalid URL. The message leaves the URL out, because it has a password."""


@dataclass(frozen=True, kw_only=True)
class DatabaseUrl:
    """A server and a database name, or the prefix of several databases' names."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    def named(self, name: str) -> DatabaseUrl:
        return replace(self, name=name)


def parse(text: str) -> DatabaseUrl:
    """Parse a URL. Raises BadDatabaseUrl with a message that reveals no secret."""
    parts = _split(text)
    name = unquote(parts.path.removeprefix("/"))
    if not name:
        raise BadDatabaseUrl(f"the URL names no database; it looks like {FORM}")
    if not NAME.fullmatch(name):
        raise BadDatabaseUrl("the database's name may have lower-case letters, digits and _ only (48 at most)")
    parameters = _parameters(parts.query)
    host = parameters.pop("host", "") or parts.hostname or ""
    if not host:
        raise BadDatabaseUrl(f"the URL names no host; it looks like {FORM}")
    return DatabaseUrl(
        host=unquote(host),
        port=_port(parts),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        name=name,
        parameters=tuple(sorted(parameters.items())),
    )


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
    except ValueError:
        raise BadDatabaseUrl(f"the URL cannot be read; it looks like {FORM}") from None
    if parts.scheme not in SCHEMES or not text.partition("://")[1]:
        raise BadDatabaseUrl(f"the URL does not begin with postgresql://; it looks like {FORM}")
    if parts.fragment:
        raise BadDatabaseUrl("the URL has a #: write %23 for one in a password")
    return parts


def _port(parts: SplitResult) -> int:
    try:
        return parts.port or DEFAULT_PORT
    except ValueError:  # also raised for an unescaped / or : in a password
        raise BadDatabaseUrl("the port is not a number (1 to 65535); in a password write %2F for / and %3A for :")


def _parameters(query: str) -> dict[str, str]:
    found = dict(parse_qsl(query, keep_blank_values=True))
    for name in found:
        if name not in PARAMETERS:
            raise BadDatabaseUrl(f"a parameter is not one of {', '.join(PARAMETERS)}")
    return found
