"""Parsers of environment variables: each returns the value of a text, or raises Refused."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from portal.places import base_of_relative_paths

SHORTEST_SECRET_KEY = 32
HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*\.?")
CELL_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
NOT_FOR_CELLS = ("api", "cell0", "default")
ALLOWED_HOST = re.compile(r"\*|\.?[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")


class InvalidValue(ValueError):
    """An invalid value. The message leaves the variable's name out."""


def choice(*allowed: str, fold: Callable[[str], str] = str.lower) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if fold(text) not in allowed:
            raise InvalidValue(f'"{text}" is not one of {", ".join(allowed)}')
        return fold(text)

    return parse


def integer(what: str, lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not lowest <= int(text) <= highest:
            raise InvalidValue(f'"{text}" is not {what} ({lowest} to {highest})')
        return int(text)

    return parse


def seconds(lowest: float, highest: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not lowest <= value <= highest:  # false for NaN too
            raise InvalidValue(f'"{text}" is not a number of seconds ({lowest:g} to {highest:g})')
        return value

    return parse


def share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:  # false for NaN too
        raise InvalidValue(f'"{text}" is not a share (0 to 1)')
    return value


def boolean(text: str) -> bool:
    known = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
    if text.lower() not in known:
        raise InvalidValue(f'"{text}" is neither on nor off')
    return known[text.lower()]


def host(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        # Digits and dots alone are a mistyped address, not a host name.
        if HOST_NAME.fullmatch(text) and len(text) <= 253 and not re.fullmatch(r"[0-9.]+", text):
            return text
    raise InvalidValue(f'"{text}" is neither an IP address nor a host name')


def hosts(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not ALLOWED_HOST.fullmatch(name):
            raise InvalidValue(f'"{name}" is not a host name (names separated by commas, or *)')
    return names


def directory(text: str) -> Path:
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise InvalidValue(f'"{text}" begins with the home of a user who is not known') from None
    return path if path.is_absolute() else base_of_relative_paths() / path


def readable_file(text: str) -> Path:
    path = directory(text)
    try:
        path.open("rb").close()
    except OSError as error:
        raise InvalidValue(f"{path} cannot be read: {error.strerror}") from None
    return path


def secret(text: str) -> str:
    if len(text) < SHORTEST_SECRET_KEY:
        raise InvalidValue(f"the key is shorter than {SHORTEST_SECRET_KEY} characters")
    return text


def url(*schemes: str) -> Callable[[str], str]:
    """Return a parser of URLs. Its errors leave the URL out, because it may have a password."""

    def parse(text: str) -> str:
        scheme = text.partition("://")[0].lower()
        if scheme not in schemes or "://" not in text:
            raise InvalidValue(f"the URL does not begin with {' or '.join(f'{name}://' for name in schemes)}")
        try:
            parts = urlsplit(text)
            has_place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            has_place = False
        if not has_place:
            raise InvalidValue(f"the URL names no host, or no possible port ({scheme}://user:password@host:port/…)")
        return text

    return parse


def mail_address(text: str) -> str:
    if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", text) or not text.isascii():
        raise InvalidValue(f'"{text}" is not an e-mail address (cloud@example.org)')
    return text


GROUP_HOST = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
GROUP_URL = re.compile(rf"[a-z][a-z0-9+.-]*://{GROUP_HOST}(,{GROUP_HOST})*(/[A-Za-z0-9._/-]*)?")


def group_url(text: str) -> str:
    """Return a URL with any scheme: plugins define the schemes."""
    if not GROUP_URL.fullmatch(text):
        raise InvalidValue("the URL is not one of a group service (zookeeper://host:port,host:port/path)")
    return text


OVSDB_REMOTE = re.compile(rf"((tcp|ssl):({GROUP_HOST})|unix:/[^,\s]+)")


def ovsdb_remotes(text: str) -> str:
    """Return addresses of the servers of one OVSDB database, as OVN's own programs take them."""
    for remote in text.split(","):
        if not OVSDB_REMOTE.fullmatch(remote):
            forms = "tcp:host:port, ssl:host:port or unix:/path, separated by commas"
            raise InvalidValue(f'"{remote}" is not a server of OVN ({forms})')
    return text


def urls(*schemes: str) -> Callable[[str], tuple[str, ...]]:
    parse = url(*schemes)
    return lambda text: tuple(parse(part.strip()) for part in text.split(",") if part.strip())


def console_listen(text: str) -> tuple[str, int] | None:
    """Parse "127.0.0.1:0": an address of this machine and a port, 0 for any free one; "off" for no consoles."""
    if text.lower() == "off":
        return None
    address, _, port = text.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise InvalidValue(f'"{text}" is neither off nor an address with a port (127.0.0.1:0)')
    return host(address.removeprefix("[").removesuffix("]")), int(port)


def origins(text: str) -> tuple[str, ...]:
    """Parse origins of web pages as browsers send them: scheme and host, without a path."""
    origins = tuple(part.strip().rstrip("/").lower() for part in text.split(",") if part.strip())
    for origin in origins:
        if not re.fullmatch(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?|\*", origin):
            raise InvalidValue(f'"{origin}" is not an origin (https://host:port, separated by commas, or *)')
    return origins


def failpoint(text: str) -> str:
    if not re.fullmatch(r"@?[A-Za-z0-9_.:/-]+", text):
        raise InvalidValue(f'"{text}" is not the name of a failpoint, nor @ and a file')
    return text


MESSAGE_FAULTS = ("lose", "repeat", "delay")


def message_faults(text: str) -> Mapping[str, float]:
    """Parse "lose=0.05,repeat=0.1": the share of messages with each of MESSAGE_FAULTS."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        if name not in MESSAGE_FAULTS or not re.fullmatch(r"0?\.[0-9]+|0|1", share):
            raise InvalidValue(
                f'"{part}" is not one of {", ".join(MESSAGE_FAULTS)} with a share from 0 to 1: lose=0.05'
            )
        shares[name] = float(share)
    return shares


def cells(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not CELL_NAME.fullmatch(name) or name in NOT_FOR_CELLS:
            raise InvalidValue(
                f'"{name}" is not the name of a cell (a letter, then letters, digits and _, in lower case)'
            )
    if len(set(names)) != len(names):
        raise InvalidValue("a cell is named twice")
    return names


def label(text: str) -> str:
    if len(text) > 40 or not text.isprintable():
        raise InvalidValue("the text is not one line of at most 40 characters")
    return text


def public_url(text: str) -> str:
    """Parse the URL of the cloud: scheme, host and optional port, by default that of the scheme."""
    parts = urlsplit(url("https", "http")(text))
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        raise InvalidValue(f'"{text}" is not a URL without a path (https://cloud.example.org)')
    name = host(parts.hostname or "")
    default = {"https": 443, "http": 80}[parts.scheme]
    port = f":{parts.port}" if parts.port not in (None, default) else ""
    return f"{parts.scheme}://{f'[{name}]' if ':' in name else name}{port}".lower()


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(text: str) -> tuple[Network, ...]:
    """Parse addresses and networks, separated by commas: 192.0.2.7, 10.0.0.0/8, ::1."""
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        try:
            found.append(ipaddress.ip_network(part))
        except ValueError:
            raise InvalidValue(f'"{part}" is neither an address nor a network (192.0.2.7, 10.0.0.0/8)') from None
    return tuple(found)


def label_or_off(text: str) -> str:
    """Return a name; empty for the word `off`."""
    return "" if text == "off" else label(text)


def issuer(text: str) -> str:
    """Return the URL of an OpenID issuer, which must use TLS unless it is on this machine."""
    parts = urlsplit(url("https", "http")(text))
    is_here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if (parts.scheme == "http" and not is_here) or parts.query or parts.fragment or parts.username:
        raise InvalidValue("the URL is not one of an issuer (https://host/path, as the provider writes it)")
    return text


def scopes(text: str) -> tuple[str, ...]:
    names = tuple(text.split())
    if "openid" not in names:
        raise InvalidValue(f'"{text}" lacks openid (words separated by spaces, such as openid profile email)')
    return names


ROLE = re.compile(r"(?P<value>.+)=(?P<project>[^=:]+):(?P<role>[^=:]+)")


def roles(text: str) -> tuple[tuple[str, str, str], ...]:
    """Parse "crew=shop:member,chiefs=admin:admin": project and role by value of the claim; `*` matches all."""
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        rule = ROLE.fullmatch(part)
        if rule is None:
            raise InvalidValue(f'"{part}" is not a value of the claim with a project and a role (crew=shop:member)')
        found.append((rule["value"].strip(), rule["project"].strip(), rule["role"].strip()))
    return tuple(found)
