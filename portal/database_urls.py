"""`postgresql://user:password@host:port/name` → where a PostgreSQL database is and how to sign in to it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

FORM = "postgresql://user:password@host:port/name"
SCHEMES = ("postgresql", "postgres")
USUAL_PORT = 5432
NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
# What a URL may say beyond the address; libpq's own names. `host` is the folder of a local socket.
PARAMETERS = ("host", "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs")


class BadDatabaseUrl(ValueError):
    """What is wrong with a URL, without the URL: it holds a password."""


@dataclass(frozen=True, kw_only=True)
class DatabaseUrl:
    """One server and a name on it: of one database, or what the names of several begin with."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    def named(self, name: str) -> DatabaseUrl:
        return replace(self, name=name)


def parse(text: str) -> DatabaseUrl:
    """Raises BadDatabaseUrl, in words that can be shown to anybody."""
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
        return parts.port or USUAL_PORT
    except ValueError:  # also what follows an unescaped / or : in a password
        raise BadDatabaseUrl("the port is not a number (1 to 65535); in a password write %2F for / and %3A for :")


def _parameters(query: str) -> dict[str, str]:
    found = dict(parse_qsl(query, keep_blank_values=True))
    for name in found:
        if name not in PARAMETERS:
            raise BadDatabaseUrl(f"a parameter is not one of {', '.join(PARAMETERS)}")
    return found
