"""Every environment variable that Novella knows: read, checked and typed once, here and nowhere else."""

from __future__ import annotations

import difflib
import functools
import ipaddress
import math
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from portal.database_urls import BadDatabaseUrl, DatabaseUrl
from portal.database_urls import parse as parse_database_url

PREFIX = "NOVELLA_"
PROJECT_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY_FILE = "secret_key"
SHORTEST_SECRET_KEY = 32
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
ALL_INTERFACES = ("0.0.0.0", "::")
HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*\.?")
CELL_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
NOT_FOR_CELLS = ("api", "cell0", "default")
ONE_DATABASE = PREFIX + "DATABASE_URL_"  # and the name of a database: NOVELLA_DATABASE_URL_CELL1
ALLOWED_HOST = re.compile(r"\*|\.?[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")


class InvalidEnvironment(ValueError):
    """One line that names the variable, what is wrong with it and what it may be."""


class _Refused(ValueError):
    """What is wrong with a value, without the variable's name."""


def _choice(*allowed: str, fold: Callable[[str], str] = str.lower) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if fold(text) not in allowed:
            raise _Refused(f'"{text}" is not one of {", ".join(allowed)}')
        return fold(text)

    return parse


def _integer(what: str, lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not lowest <= int(text) <= highest:
            raise _Refused(f'"{text}" is not {what} ({lowest} to {highest})')
        return int(text)

    return parse


def _seconds(lowest: float, highest: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not lowest <= value <= highest:  # false for NaN too
            raise _Refused(f'"{text}" is not a number of seconds ({lowest:g} to {highest:g})')
        return value

    return parse


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:  # false for NaN too
        raise _Refused(f'"{text}" is not a share (0 to 1)')
    return value


def _boolean(text: str) -> bool:
    known = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
    if text.lower() not in known:
        raise _Refused(f'"{text}" is neither on nor off')
    return known[text.lower()]


def _host(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        # Digits and dots alone are a mistyped address, never a name.
        if HOST_NAME.fullmatch(text) and len(text) <= 253 and not re.fullmatch(r"[0-9.]+", text):
            return text
    raise _Refused(f'"{text}" is neither an IP address nor a host name')


def _hosts(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not ALLOWED_HOST.fullmatch(name):
            raise _Refused(f'"{name}" is not a host name (names separated by commas, or *)')
    return names


def _directory(text: str) -> Path:
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise _Refused(f'"{text}" begins with the home of a user who is not known') from None
    return path if path.is_absolute() else PROJECT_DIR / path


def _secret(text: str) -> str:
    if len(text) < SHORTEST_SECRET_KEY:
        raise _Refused(f"the key is shorter than {SHORTEST_SECRET_KEY} characters")
    return text


def _url(*schemes: str) -> Callable[[str], str]:
    """A URL may hold a password: what is wrong with it is said without it."""

    def parse(text: str) -> str:
        scheme = text.partition("://")[0].lower()
        if scheme not in schemes or "://" not in text:
            raise _Refused(f"the URL does not begin with {' or '.join(f'{name}://' for name in schemes)}")
        try:
            parts = urlsplit(text)
            has_place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            has_place = False
        if not has_place:
            raise _Refused(f"the URL names no host, or no possible port ({scheme}://user:password@host:port/…)")
        return text

    return parse


GROUP_HOST = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?"
GROUP_URL = re.compile(rf"[a-z][a-z0-9+.-]*://{GROUP_HOST}(,{GROUP_HOST})*(/[A-Za-z0-9._/-]*)?")


def _group_url(text: str) -> str:
    """Which schemes there are is the plugins' to say."""
    if not GROUP_URL.fullmatch(text):
        raise _Refused("the URL is not one of a group service (zookeeper://host:port,host:port/path)")
    return text


def _urls(*schemes: str) -> Callable[[str], tuple[str, ...]]:
    parse = _url(*schemes)
    return lambda text: tuple(parse(part.strip()) for part in text.split(",") if part.strip())


def _console_listen(text: str) -> tuple[str, int] | None:
    """ "127.0.0.1:0": an address of this machine and a port, where 0 takes a free one; "off" for no consoles."""
    if text.lower() == "off":
        return None
    host, _, port = text.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise _Refused(f'"{text}" is neither off nor an address with a port (127.0.0.1:0)')
    return _host(host.removeprefix("[").removesuffix("]")), int(port)


def _origins(text: str) -> tuple[str, ...]:
    """Origins of web pages, as browsers name them: a scheme and a host, no path."""
    origins = tuple(part.strip().rstrip("/").lower() for part in text.split(",") if part.strip())
    for origin in origins:
        if not re.fullmatch(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?|\*", origin):
            raise _Refused(f'"{origin}" is not an origin (https://host:port, separated by commas, or *)')
    return origins


def _failpoint(text: str) -> str:
    if not re.fullmatch(r"@?[A-Za-z0-9_.:/-]+", text):
        raise _Refused(f'"{text}" is not the name of a failpoint, nor @ and a file')
    return text


MESSAGE_FAULTS = ("lose", "repeat", "delay")


def _message_faults(text: str) -> Mapping[str, float]:
    """ "lose=0.05,repeat=0.1": the share of messages that each of MESSAGE_FAULTS happens to."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        if name not in MESSAGE_FAULTS or not re.fullmatch(r"0?\.[0-9]+|0|1", share):
            raise _Refused(f'"{part}" is not one of {", ".join(MESSAGE_FAULTS)} with a share from 0 to 1: lose=0.05')
        shares[name] = float(share)
    return shares


def _cells(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not CELL_NAME.fullmatch(name) or name in NOT_FOR_CELLS:
            raise _Refused(f'"{name}" is not the name of a cell (a letter, then letters, digits and _, in lower case)')
    if len(set(names)) != len(names):
        raise _Refused("a cell is named twice")
    return names


def _label(text: str) -> str:
    if len(text) > 40 or not text.isprintable():
        raise _Refused("the text is not one line of at most 40 characters")
    return text


def _variable(parse: Callable[[str], Any], default: str = "", *, is_secret: bool = False) -> Any:
    """A field of `Environment`: how its text is parsed, and the text that stands for "not set" (empty: derived)."""
    return field(repr=not is_secret, metadata={"parse": parse, "default": default})


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the operator's shell says. Field `port` is the variable `NOVELLA_PORT`, and so on."""

    host: str = _variable(_host, "127.0.0.1")
    port: int = _variable(_integer("a port number", 1, 65535), "8000")
    data: Path = _variable(_directory, "var")
    cells: tuple[str, ...] = _variable(_cells, "cell1,cell2")
    database_url: DatabaseUrl | None = _variable(parse_database_url, is_secret=True)
    database_urls: Mapping[str, DatabaseUrl] = field(default_factory=dict, repr=False)  # of single databases
    secret_key: str = _variable(_secret, is_secret=True)
    allowed_hosts: tuple[str, ...] = _variable(_hosts)
    debug: bool = _variable(_boolean, "off")
    log_level: str = _variable(_choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", fold=str.upper), "INFO")
    virt_type: str = _variable(_choice("auto", "kvm", "qemu"), "auto")
    real_host: str = _variable(_choice("auto", "on", "off"), "auto")
    simulated_hosts: int = _variable(_integer("a number of hosts per cell", 0, 10_000), "8")
    simulated_latency_seconds: float = _variable(_seconds(0, 600), "1")
    lease_seconds: float = _variable(_seconds(0.5, 3600), "10")
    sweep_seconds: float = _variable(_seconds(0.1, 3600), "2")
    heartbeat_seconds: float = _variable(_seconds(0.2, 600), "5")
    host_down_seconds: float = _variable(_seconds(1, 3600), "30")
    shutdown_seconds: float = _variable(_seconds(0, 3600), "60")
    reclaim_seconds: float = _variable(_seconds(0, 10 * 365 * 86_400), "0")
    reconcile_seconds: float = _variable(_seconds(0, 86_400), "60")
    request_seconds: float = _variable(_seconds(1, 3600), "60")
    requests_per_minute: int = _variable(_integer("a number of requests", 0, 1_000_000), "0")
    changes_per_minute: int = _variable(_integer("a number of requests", 0, 1_000_000), "0")
    cors_origins: tuple[str, ...] = _variable(_origins)
    token_recheck_seconds: float = _variable(_seconds(0, 60), "1")
    session_seconds: float = _variable(_seconds(60, 365 * 86_400), "43200")
    band: str = _variable(_label)
    band_colour: str = _variable(_choice("blue", "green", "amber", "red", "violet", "grey"), "blue")
    lockout_failures: int = _variable(_integer("a number of wrong passwords", 0, 1000), "0")
    lockout_seconds: float = _variable(_seconds(1, 365 * 86_400), "1800")
    broker_url: str = _variable(_url("amqp", "amqps", "redis", "rediss"), is_secret=True)
    compute_queues: str = _variable(_choice("shared", "per-host"))
    console_listen: tuple[str, int] | None = _variable(_console_listen, "127.0.0.1:0")
    console_address: str = _variable(_host)
    console_token_seconds: float = _variable(_seconds(5, 86_400), "600")
    console_session_seconds: float = _variable(_seconds(0, 30 * 86_400), "14400")
    keep_workflows_days: int = _variable(_integer("a number of days", 0, 36_500), "90")
    keep_events_days: int = _variable(_integer("a number of days", 0, 36_500), "30")
    keep_decisions_days: int = _variable(_integer("a number of days", 0, 36_500), "30")
    keep_snapshots_days: int = _variable(_integer("a number of days", 0, 36_500), "7")
    decision_sample: float = _variable(_share, "1")
    snapshot_hosts: int = _variable(_integer("a number of hosts", 0, 1_000_000), "10000")
    keep_consoles_days: int = _variable(_integer("a number of days", 0, 36_500), "7")
    keep_audit_days: int = _variable(_integer("a number of days", 0, 36_500), "0")
    keep_deliveries_days: int = _variable(_integer("a number of days", 0, 36_500), "7")
    keep_findings_days: int = _variable(_integer("a number of days", 0, 36_500), "90")
    membership_url: str = _variable(_group_url)
    channel_url: str = _variable(_url("redis", "rediss"), is_secret=True)
    resize_confirm_seconds: float = _variable(_seconds(0, 10 * 365 * 86_400), "0")
    allow_resize_to_same_host: bool = _variable(_boolean, "on")
    shelved_offload_seconds: float = _variable(_seconds(-1, 10 * 365 * 86_400), "0")
    notification_webhooks: tuple[str, ...] = _variable(_urls("https", "http"), is_secret=True)
    notification_secret: str = _variable(_secret, is_secret=True)
    notification_url: str = _variable(_url("amqp", "amqps"), is_secret=True)
    notification_private_targets: bool = _variable(_boolean, "off")
    image_dir: Path = _variable(_directory)
    crash_at: str = _variable(_failpoint)
    message_faults: Mapping[str, float] | str = _variable(_message_faults)
    given: frozenset[str] = field(default_factory=frozenset, repr=False)  # the variables that say something

    def database_of(self, name: str) -> DatabaseUrl | None:
        """Where the database `name` ("api", "cell0", a cell) is; None for a file in the data folder."""
        if name in self.database_urls:
            return self.database_urls[name]
        return self.database_url.named(f"{self.database_url.name}_{name}") if self.database_url else None

    @property
    def data_dir(self) -> Path:
        """Absolute path of the directory that holds every file that Novella writes."""
        return self.data


def variable_names() -> tuple[str, ...]:
    """Every variable that is known, in the order of the fields."""
    return tuple(PREFIX + item.name.upper() for item in _single())


def load(variables: Mapping[str, str]) -> Environment:
    """Parse `variables`; an empty value counts as not set. Makes and keeps a secret key when none is given.

    Raises InvalidEnvironment for a value that cannot be, and for a `NOVELLA_` variable that nobody knows.
    """
    values = {item.name: _parsed(variables, item.name, item.metadata) for item in _single()}
    values["database_url"] = values["database_url"] or None
    databases = [f"{ONE_DATABASE}{name.upper()}" for name in ("api", "cell0", *values["cells"])]
    _refuse_unknown(variables, (*variable_names(), *databases))
    values["database_urls"] = {
        name.removeprefix(ONE_DATABASE).lower(): _value(name, variables[name], parse_database_url)
        for name in databases
        if variables.get(name, "").strip()
    }
    values["allowed_hosts"] = values["allowed_hosts"] or _allowed_by_default(values["host"])
    values["compute_queues"] = values["compute_queues"] or ("per-host" if values["broker_url"] else "shared")
    for several in ("notification_webhooks", "cors_origins"):
        values[several] = values[several] or ()
    if values["notification_webhooks"] and not values["notification_secret"]:
        raise InvalidEnvironment(f"{PREFIX}NOTIFICATION_SECRET: webhooks are signed; give the key to sign them with")
    values["image_dir"] = values["image_dir"] or values["data"] / "images"
    values["secret_key"] = values["secret_key"] or _kept_secret_key(values["data"])
    given = frozenset(name for name, text in variables.items() if name.startswith(PREFIX) and text.strip())
    return Environment(**values, given=given)


@functools.cache
def current() -> Environment:
    """This process's environment, parsed at the first call."""
    return load(os.environ)


def _parsed(variables: Mapping[str, str], name: str, metadata: Mapping[str, Any]) -> Any:
    variable = PREFIX + name.upper()
    text = variables.get(variable, "").strip() or metadata["default"]
    if not text:
        return ""
    return _value(variable, text, metadata["parse"])


def _value(variable: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text.strip())
    except (_Refused, BadDatabaseUrl) as refused:
        raise InvalidEnvironment(f"{variable}: {refused}") from None


def _single() -> list[Field[Any]]:
    """The fields that are one variable each."""
    return [item for item in fields(Environment) if item.metadata]


def _refuse_unknown(variables: Mapping[str, str], known: Sequence[str]) -> None:
    for name in sorted(variables):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0)
            raise InvalidEnvironment(f"{name}: no such variable; the nearest known one is {near[0]}")


def _allowed_by_default(host: str) -> tuple[str, ...]:
    """Loopback and the address served; anything when every interface is served, as its names are unknown here."""
    if host in ALL_INTERFACES:
        return ("*",)
    shown = f"[{host}]" if ":" in host else host
    return LOOPBACK_NAMES if shown in LOOPBACK_NAMES else (*LOOPBACK_NAMES, shown)


def _kept_secret_key(data_dir: Path) -> str:
    """The key in `data_dir`, made at the first start: sessions must outlive a restart."""
    path = data_dir / SECRET_KEY_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _write_once(path, secrets.token_urlsafe(48))
        key = path.read_text().strip()
    except OSError as error:
        raise InvalidEnvironment(f"{PREFIX}DATA: cannot use {data_dir}: {error.strerror}") from None
    if len(key) < SHORTEST_SECRET_KEY:
        raise InvalidEnvironment(f"{PREFIX}DATA: {path} holds no usable key; remove it to have a new one made")
    return key


def _write_once(path: Path, text: str) -> None:
    """Write a private file that appears whole or not at all; of several processes at once, one wins."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text + "\n")
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
