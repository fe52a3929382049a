"""Environment variables of Novella. Only this module reads them: each is parsed and checked once."""

from __future__ import annotations

import difflib
import functools
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from portal import environment_values as kind
from portal import extras, machine_names, places
from portal.database_urls import BadDatabaseUrl, DatabaseUrl
from portal.database_urls import parse as parse_database_url
from portal.environment_values import SHORTEST_SECRET_KEY

PREFIX = "NOVELLA_"
SECRET_KEY_FILE = "secret_key"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
ALL_INTERFACES = ("0.0.0.0", "::")
ONE_DATABASE = PREFIX + "DATABASE_URL_"  # and the name of a database: NOVELLA_DATABASE_URL_CELL1


# Variables that are given together or not at all.
_PAIRS = (
    ("OIDC_ISSUER", "OIDC_CLIENT_ID"),
    ("SMTP_URL", "MAIL_FROM"),
    ("TLS_CERT", "TLS_KEY"),
    ("OVN_NORTHBOUND", "OVN_SOUTHBOUND"),
    ("OVN_PRIVATE_KEY", "OVN_CERTIFICATE"),
    ("OVN_CERTIFICATE", "OVN_CA_CERTIFICATE"),
)


class InvalidEnvironment(ValueError):
    """An invalid variable, in one line with its name, its error and the accepted values."""


def _variable(parse: Callable[[str], Any], default: str = "", *, is_secret: bool = False) -> Any:
    """Declare a field of `Environment`: the parser of its text, and the default text (empty: derived)."""
    return field(repr=not is_secret, metadata={"parse": parse, "default": default})


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The parsed environment variables. Field `port` is the variable `NOVELLA_PORT`, and so on."""

    host: str = _variable(kind.host, "127.0.0.1")
    port: int = _variable(kind.integer("a port number", 1, 65535), "8000")
    data: Path = _variable(kind.directory)
    cells: tuple[str, ...] = _variable(kind.cells, "cell1,cell2")
    database_url: DatabaseUrl | None = _variable(parse_database_url, is_secret=True)
    database_urls: Mapping[str, DatabaseUrl] = field(default_factory=dict, repr=False)  # of individual databases
    secret_key: str = _variable(kind.secret, is_secret=True)
    audit_key: str = _variable(kind.secret, is_secret=True)
    public_url: str = _variable(kind.public_url)
    allowed_hosts: tuple[str, ...] = _variable(kind.hosts)
    trusted_proxies: tuple[kind.Network, ...] = _variable(kind.networks)
    tls_cert: Path | None = _variable(kind.directory)
    tls_key: Path | None = _variable(kind.directory)
    debug: bool = _variable(kind.boolean, "off")
    log_level: str = _variable(kind.choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", fold=str.upper), "INFO")
    virt_type: str = _variable(kind.choice("auto", "kvm", "qemu"), "auto")
    real_host: str = _variable(kind.choice("auto", "on", "off"), "auto")
    local_network: str = _variable(kind.choice("auto", "ovn", "user"), "auto")
    simulated_hosts: int = _variable(kind.integer("a number of hosts per cell", 0, 10_000), "8")
    hosts_file: Path | str = _variable(kind.directory)
    simulated_latency_seconds: float = _variable(kind.seconds(0, 600), "1")
    lease_seconds: float = _variable(kind.seconds(0.5, 3600), "10")
    sweep_seconds: float = _variable(kind.seconds(0.1, 3600), "2")
    heartbeat_seconds: float = _variable(kind.seconds(0.2, 600), "5")
    conductor_seconds: float = _variable(kind.seconds(0, 86_400), "0")
    host_down_seconds: float = _variable(kind.seconds(1, 3600), "30")
    first_report_seconds: float = _variable(kind.seconds(0, 3600), "5")
    command_seconds: float = _variable(kind.seconds(1, 30 * 86_400), "14400")
    shutdown_seconds: float = _variable(kind.seconds(0, 3600), "60")
    reclaim_seconds: float = _variable(kind.seconds(0, 10 * 365 * 86_400), "0")
    reconcile_seconds: float = _variable(kind.seconds(0, 86_400), "60")
    kept_free_gb: int = _variable(kind.integer("GiB that stay free", 0, 1 << 20), "1")
    request_seconds: float = _variable(kind.seconds(1, 3600), "60")
    interface_seconds: float = _variable(kind.seconds(0, 3600), "30")
    image_transfers: int = _variable(kind.integer("a number of transfers", 2, 256), "16")
    project_image_transfers: int = _variable(kind.integer("a number of transfers", 1, 256), "4")
    transfer_bytes_per_second: int = _variable(kind.integer("bytes per second", 0, 1 << 30), "16384")
    transfer_seconds: float = _variable(kind.seconds(60, 864_000), "86400")
    lists_skip_unresponsive_cells: bool = _variable(kind.boolean, "on")
    shared_subnet_percent: int = _variable(kind.integer("a percentage", 1, 100), "25")
    requests_per_minute: int = _variable(kind.integer("a number of requests", 0, 1_000_000), "0")
    changes_per_minute: int = _variable(kind.integer("a number of requests", 0, 1_000_000), "0")
    cors_origins: tuple[str, ...] = _variable(kind.origins)
    token_recheck_seconds: float = _variable(kind.seconds(0, 60), "1")
    admin_project: str = _variable(kind.label_or_off, "admin")
    session_seconds: float = _variable(kind.seconds(60, 365 * 86_400), "43200")
    band: str = _variable(kind.label)
    band_colour: str = _variable(kind.choice("blue", "green", "amber", "red", "violet", "grey"), "blue")
    second_person: bool = _variable(kind.boolean, "off")
    second_person_seconds: float = _variable(kind.seconds(60, 30 * 86_400), "3600")
    sign_in_failures: int = _variable(kind.integer("a number of failures", 0, 1000), "5")
    sign_in_seconds: float = _variable(kind.seconds(1, 86_400), "300")
    sign_in_failures_per_address: int = _variable(kind.integer("a number of failures", 0, 1_000_000), "30")
    sign_in_failures_per_account: int = _variable(kind.integer("a number of failures", 0, 1_000_000), "60")
    lockout_failures: int = _variable(kind.integer("a number of wrong passwords", 0, 1000), "0")
    lockout_seconds: float = _variable(kind.seconds(1, 365 * 86_400), "1800")
    oidc_issuer: str = _variable(kind.issuer)
    oidc_client_id: str = _variable(kind.label)
    oidc_client_secret: str = _variable(str, is_secret=True)
    oidc_name: str = _variable(kind.label, "single sign-on")
    oidc_scopes: tuple[str, ...] = _variable(kind.scopes, "openid profile email")
    oidc_claim: str = _variable(kind.label, "groups")
    oidc_roles: tuple[tuple[str, str, str], ...] = _variable(kind.roles)
    broker_url: str = _variable(kind.url("amqp", "amqps", "redis", "rediss"), is_secret=True)
    compute_queues: str = _variable(kind.choice("shared", "per-host"))
    console_listen: tuple[str, int] | None = _variable(kind.console_listen, "127.0.0.1:0")
    console_address: str = _variable(kind.host)
    console_token_seconds: float = _variable(kind.seconds(5, 86_400), "600")
    console_session_seconds: float = _variable(kind.seconds(0, 30 * 86_400), "14400")
    keep_workflows_days: int = _variable(kind.integer("a number of days", 0, 36_500), "90")
    keep_events_days: int = _variable(kind.integer("a number of days", 0, 36_500), "30")
    keep_decisions_days: int = _variable(kind.integer("a number of days", 0, 36_500), "30")
    keep_snapshots_days: int = _variable(kind.integer("a number of days", 0, 36_500), "7")
    scheduler: str = _variable(kind.choice("in-process", "service"), "in-process")
    scheduler_seconds: float = _variable(kind.seconds(0.5, 600), "5")
    scheduler_calls: int = _variable(kind.integer("a number of calls", 1, 10_000), "12")
    decision_sample: float = _variable(kind.share, "1")
    snapshot_hosts: int = _variable(kind.integer("a number of hosts", 0, 1_000_000), "10000")
    keep_consoles_days: int = _variable(kind.integer("a number of days", 0, 36_500), "7")
    keep_metrics_days: int = _variable(kind.integer("a number of days", 0, 36_500), "1")
    keep_audit_days: int = _variable(kind.integer("a number of days", 0, 36_500), "0")
    keep_deliveries_days: int = _variable(kind.integer("a number of days", 0, 36_500), "7")
    keep_findings_days: int = _variable(kind.integer("a number of days", 0, 36_500), "90")
    membership_url: str = _variable(kind.group_url)
    ovn_northbound: str = _variable(kind.ovsdb_remotes)
    ovn_southbound: str = _variable(kind.ovsdb_remotes)
    ovn_private_key: Path | None = _variable(kind.readable_file)
    ovn_certificate: Path | None = _variable(kind.readable_file)
    ovn_ca_certificate: Path | None = _variable(kind.readable_file)
    ovn_failover_milliseconds: int = _variable(kind.integer("milliseconds", 300, 60_000), "600")
    channel_url: str = _variable(kind.url("redis", "rediss"), is_secret=True)
    resize_confirm_seconds: float = _variable(kind.seconds(0, 10 * 365 * 86_400), "0")
    allow_resize_to_same_host: bool = _variable(kind.boolean, "on")
    shelved_offload_seconds: float = _variable(kind.seconds(-1, 10 * 365 * 86_400), "0")
    notification_webhooks: tuple[str, ...] = _variable(kind.urls("https", "http"), is_secret=True)
    notification_secret: str = _variable(kind.secret, is_secret=True)
    notification_url: str = _variable(kind.url("amqp", "amqps"), is_secret=True)
    notification_private_targets: bool = _variable(kind.boolean, "off")
    smtp_url: str = _variable(kind.url("smtp", "smtp+starttls", "smtps"), is_secret=True)
    mail_from: str = _variable(kind.mail_address)
    image_dir: Path = _variable(kind.directory)
    crash_at: str = _variable(kind.failpoint)
    message_faults: Mapping[str, float] | str = _variable(kind.message_faults)
    given: frozenset[str] = field(default_factory=frozenset, repr=False)  # the variables that are set

    def database_of(self, name: str) -> DatabaseUrl | None:
        """Return the URL of the database `name` ("api", "cell0", a cell); None for a file in the data folder."""
        if name in self.database_urls:
            return self.database_urls[name]
        return self.database_url.named(f"{self.database_url.name}_{name}") if self.database_url else None

    @property
    def data_dir(self) -> Path:
        """Absolute path of the directory that holds every file that Novella writes."""
        return self.data


def variable_names() -> tuple[str, ...]:
    """Return every known variable, in the order of the fields."""
    return tuple(PREFIX + item.name.upper() for item in _single())


def load(variables: Mapping[str, str]) -> Environment:
    """Parse `variables`; an empty value counts as not set. Creates and stores a secret key when none is given.

    Raises InvalidEnvironment for an invalid value, and for an unknown `NOVELLA_` variable.
    """
    values = {item.name: _parsed(variables, item.name, item.metadata) for item in _single()}
    values["data"] = values["data"] or kind.directory(places.default_data_dir(variables))
    values["database_url"] = values["database_url"] or None
    databases = [f"{ONE_DATABASE}{name.upper()}" for name in ("api", "cell0", *values["cells"])]
    _refuse_unknown(variables, (*variable_names(), *databases))
    values["database_urls"] = {
        name.removeprefix(ONE_DATABASE).lower(): _value(name, variables[name], parse_database_url)
        for name in databases
        if variables.get(name, "").strip()
    }
    values["allowed_hosts"] = _allowed_hosts(values["host"], values["public_url"], values["allowed_hosts"] or ())
    values["compute_queues"] = values["compute_queues"] or ("per-host" if values["broker_url"] else "shared")
    if values["scheduler"] == "service" and not values["broker_url"]:
        raise InvalidEnvironment(f"{PREFIX}SCHEDULER: schedulers are called over a broker; give {PREFIX}BROKER_URL")
    for path in ("tls_cert", "tls_key", "ovn_private_key", "ovn_certificate", "ovn_ca_certificate"):
        values[path] = values[path] or None
    for several in ("notification_webhooks", "cors_origins", "oidc_roles", "trusted_proxies"):
        values[several] = values[several] or ()
    if values["notification_webhooks"] and not values["notification_secret"]:
        raise InvalidEnvironment(f"{PREFIX}NOTIFICATION_SECRET: webhooks are signed; give the key to sign them with")
    for pair in _PAIRS:
        lone, missing = sorted(pair, key=lambda name: not values[name.lower()])
        if bool(values[lone.lower()]) != bool(values[missing.lower()]):
            raise InvalidEnvironment(f"{PREFIX}{lone}: give {PREFIX}{missing} with it, or neither of them")
    if "ssl:" in f"{values['ovn_northbound']},{values['ovn_southbound']}" and not values["ovn_private_key"]:
        raise InvalidEnvironment(f"{PREFIX}OVN_PRIVATE_KEY: servers of OVN with ssl: need it, and its certificate")
    values["image_dir"] = values["image_dir"] or values["data"] / "images"
    values["secret_key"] = values["secret_key"] or _kept_secret_key(values["data"])
    values["audit_key"] = values["audit_key"] or values["secret_key"]
    _refuse_missing_clients(values)
    given = frozenset(name for name, text in variables.items() if name.startswith(PREFIX) and text.strip())
    return Environment(**values, given=given)


@functools.cache
def current() -> Environment:
    """Return this process's environment, parsed at the first call."""
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
    except (kind.InvalidValue, BadDatabaseUrl) as refused:
        raise InvalidEnvironment(f"{variable}: {refused}") from None


def _single() -> list[Field[Any]]:
    """Return the fields that are one variable each."""
    return [item for item in fields(Environment) if item.metadata]


def _refuse_unknown(variables: Mapping[str, str], known: Sequence[str]) -> None:
    for name in sorted(variables):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0)
            raise InvalidEnvironment(f"{name}: no such variable; the nearest known one is {near[0]}")


def _refuse_missing_clients(values: Mapping[str, Any]) -> None:
    """Raise InvalidEnvironment for a service whose client library is not installed."""
    for url in (values["database_url"], *values["database_urls"].values()):
        _refuse_missing("DATABASE_URL", "postgresql" if url else "")
    for name in ("broker_url", "channel_url", "membership_url", "notification_url"):
        _refuse_missing(name.upper(), urlsplit(values[name]).scheme)
    _refuse_missing("OIDC_ISSUER", "openid" if values["oidc_issuer"] else "")
    _refuse_missing("OVN_NORTHBOUND", "ovn" if values["ovn_northbound"] else "")


def _refuse_missing(variable: str, kind_of_service: str) -> None:
    extra = extras.missing(kind_of_service)
    if extra:
        raise InvalidEnvironment(f"{PREFIX}{variable}: a client is missing; run: pip install 'novella[{extra}]'")


def _allowed_hosts(host: str, public_url: str, named: Sequence[str]) -> tuple[str, ...]:
    """Return the host names that requests may use: the configured ones, and that of the public URL.

    Without configured ones also loopback, the served address, and, if the server listens on every interface without a
    public URL, all names of this machine.
    """
    public = (re.sub(r":[0-9]+$", "", urlsplit(public_url).netloc),) if public_url else ()
    if named:
        return tuple(dict.fromkeys((*named, *public)))
    if host in ALL_INTERFACES:
        served = () if public else machine_names.every_name()
    else:
        served = (f"[{host}]" if ":" in host else host,)
    return tuple(dict.fromkeys((*LOOPBACK_NAMES, *served, *public)))


def _kept_secret_key(data_dir: Path) -> str:
    """Return the key in `data_dir`, created at the first start so that sessions survive a restart."""
    path = data_dir / SECRET_KEY_FILE
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _write_once(path, secrets.token_urlsafe(48))
        key = path.read_text().strip()
    except OSError as error:
        raise InvalidEnvironment(f"{PREFIX}DATA: cannot use {data_dir}: {error.strerror}") from None
    if len(key) < SHORTEST_SECRET_KEY:
        raise InvalidEnvironment(f"{PREFIX}DATA: {path} holds no usable key; remove it to have a new one made")
    return key


def _write_once(path: Path, text: str) -> None:
    """Write a private file atomically; of several concurrent processes, one wins."""
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
