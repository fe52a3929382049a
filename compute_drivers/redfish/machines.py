"""Parses the machines file: controllers, credentials and hardware of a host's machines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from compute_drivers.options import option, parse
from conductor.core.errors import DriverError, Invalid

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]{1,248}")
TABLE = "machine"
PASSWORDS = ("password", "pass", "secret")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine of the file.

    Attributes:
        bmc: URL of the controller.
        system: Path of the machine on a controller that has several.
        verify: False accepts any certificate, and plain HTTP.
        ca_file: Certificates of the accepted authorities.
        vcpus, memory_mb, disk_gb: Replace what the controller reports.
    """

    name: str = option()
    bmc: str = option()
    username: str = option()
    password_file: Path = option()
    system: str = option("")
    verify: bool = option(True)
    ca_file: Path | None = option(None)
    vcpus: int | None = option(None, least=1)
    memory_mb: int | None = option(None, least=1)
    disk_gb: int | None = option(None, least=1)

    def password(self) -> str:
        """Read the password from its file each time; it is kept nowhere. Raises DriverError."""
        try:
            return self.password_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise DriverError(f"The password file of machine {self.name} cannot be read: {why}.") from None


def read(path: Path) -> dict[str, Machine]:
    """Return the machines by name. Raises Invalid, naming machine and field."""
    try:
        found = tomllib.loads(path.read_text()).get(TABLE)
    except OSError as error:
        raise Invalid(f"Option redfish.machines_file: {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"Option redfish.machines_file: {path} is no TOML: {error}.") from None
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise Invalid(f"Option redfish.machines_file: {path} names no machines; begin each with [[{TABLE}]].")
    machines: dict[str, Machine] = {}
    for number, given in enumerate(found, 1):
        machine = _machine(number, given)
        address = _address_of(machine)
        same = [one.name for one in machines.values() if one.name == machine.name or _address_of(one) == address]
        if same:
            raise Invalid(f"Machine {machine.name} is the same as {same[0]}: name and place must be its own.")
        machines[machine.name] = machine
    return machines


def _machine(number: int, given: Mapping[str, Any]) -> Machine:
    what = f"redfish machine {given.get('name') or number}"
    if any(name in given for name in PASSWORDS):
        raise Invalid(f"The {what} has its password in the file; put it into a file of its own, as password_file.")
    machine = parse(Machine, given, what)
    if not NAME.fullmatch(machine.name):
        raise Invalid(f"The {what}: name must be letters, digits, dots, dashes and underscores, at most 63.")
    _check_address(what, machine)
    return machine


def _check_address(what: str, machine: Machine) -> None:
    """Raises Invalid for an unusable URL, and for plain HTTP without `verify = false`: credentials are sent there."""
    try:
        address = urlsplit(machine.bmc)
        is_usable = address.scheme in ("http", "https") and bool(address.hostname) and (address.port or 1) > 0
    except ValueError:
        is_usable = False
    if not is_usable or address.username or address.query or address.path.strip("/"):
        raise Invalid(f"The {what}: bmc must be like https://192.0.2.17, without user, path or query.")
    if address.scheme == "http" and machine.verify:
        raise Invalid(f"The {what}: bmc is not encrypted; use https, or say verify = false.")
    if machine.ca_file and not machine.verify:
        raise Invalid(f"The {what}: ca_file is nothing to verify = false; leave one of them out.")
    if machine.system and not machine.system.startswith("/"):
        raise Invalid(f"The {what}: system must be a path such as /redfish/v1/Systems/1.")


def _address_of(machine: Machine) -> tuple[str, str]:
    return machine.bmc.rstrip("/").lower(), machine.system.rstrip("/")
