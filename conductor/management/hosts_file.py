"""Operator's file of further hosts for the embedded default, validated before anything starts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from conductor import plugins
from conductor.compute.hosts import HostConfig
from conductor.management.compute_process import HOST_NAME

VARIABLE = "NOVELLA_HOSTS_FILE"
KEYS = ("name", "driver", "cell", "zone", "options")


def read(path: Path, data_dir: Path) -> tuple[HostConfig, ...]:
    """Return the hosts of the file in order. Raises CommandError naming the wrong part and the fix."""
    try:
        message = tomllib.loads(path.read_text())
    except OSError as error:
        raise CommandError(f"{VARIABLE}: {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{VARIABLE}: {path} is no TOML: {error}.") from None
    entries = message.get("host")
    if set(message) != {"host"} or not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise CommandError(f"{VARIABLE}: {path} holds nothing but tables [[host]], at least one.")
    hosts = tuple(_host(one, f"{VARIABLE}: host[{index}]", data_dir) for index, one in enumerate(entries))
    names = [one.host for one in hosts]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise CommandError(f"{VARIABLE}: host[{index}].name: {name} is there twice.")
    return hosts


def _host(message: Mapping[str, Any], where: str, data_dir: Path) -> HostConfig:
    for key in message:
        if key not in KEYS:
            raise CommandError(f"{where}: {key} is not known; there are {', '.join(KEYS)}.")
    name, driver = _text(message, "name", where), _text(message, "driver", where)
    cell, zone = _text(message, "cell", where, settings.CELLS[0]), _text(message, "zone", where, "nova")
    if not HOST_NAME.fullmatch(name):
        raise CommandError(f"{where}.name: a name has letters, digits, dots, dashes and underscores.")
    if cell not in settings.CELLS:
        raise CommandError(f"{where}.cell: there is no cell {cell[:60]}; there are {', '.join(settings.CELLS)}.")
    known = plugins.registry().drivers
    if driver not in known:
        raise CommandError(f"{where}.driver: there is no driver {driver[:60]}; there are {', '.join(sorted(known))}.")
    options = message.get("options", {})
    if not isinstance(options, dict):
        raise CommandError(f'{where}.options: a table is expected, such as options.state_dir = "/srv/novella".')
    journal = data_dir / "agents" / f"{name}.sqlite3"
    return HostConfig(
        host=name, cell=cell, driver=driver, availability_zone=zone, options=options, journal_path=journal
    )


def _text(message: Mapping[str, Any], key: str, where: str, default: str = "") -> str:
    found = message.get(key, default)
    if not isinstance(found, str) or not found:
        raise CommandError(f"{where}.{key}: a text is needed.")
    return found
