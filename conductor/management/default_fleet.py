"""Hosts of the embedded default: the machine if it can run guests, a simulated fleet, and the operator's file."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils.module_loading import import_string

from conductor.compute.hosts import HostConfig
from conductor.management import hosts_file

# The last is the zone of hosts without their own, which clients expect to exist.
ZONES = ("az-1", "az-2", "nova")
PROBE = "compute_drivers.libvirt.capability.probe"


@dataclass(frozen=True)
class DefaultFleet:
    """The hosts to start, and a sentence about the real one."""

    hosts: tuple[HostConfig, ...]
    real_host: str
    remark: str


def default_fleet(data_dir: Path) -> DefaultFleet:
    """Return a real host in cell1 if the machine can run QEMU and it is not off, and simulated ones in each cell.

    Raises CommandError for an unusable file of hosts.
    """
    real, remark = _real_host(data_dir)
    hosts = [*real]
    for number, cell in enumerate(settings.CELLS, start=1):
        hosts += [
            _simulated_host(data_dir, cell, number, rank) for rank in range(1, settings.NOVELLA_SIMULATED_HOSTS + 1)
        ]
    names = {one.host for one in hosts}
    for one in hosts_file.read(Path(settings.NOVELLA_HOSTS_FILE), data_dir) if settings.NOVELLA_HOSTS_FILE else ():
        if one.host in names:
            raise CommandError(f"{hosts_file.VARIABLE}: there is a host {one.host} without the file already.")
        hosts.append(one)
    return DefaultFleet(tuple(hosts), real[0].host if real else "", remark)


def _real_host(data_dir: Path) -> tuple[list[HostConfig], str]:
    if settings.NOVELLA_REAL_HOST == "off":
        return [], "No real host: NOVELLA_REAL_HOST is off."
    found = import_string(PROBE)(settings.NOVELLA_VIRT_TYPE)
    if not found.is_usable:
        return [], f"No real host: {found.reason}"
    options: dict[str, Any] = {"state_dir": str(data_dir / "libvirt"), "virt_type": settings.NOVELLA_VIRT_TYPE}
    host = HostConfig(
        host=socket.gethostname().split(".")[0].lower(),
        cell=settings.CELLS[0],
        driver="libvirt",
        options=options,
        availability_zone=ZONES[0],
        journal_path=data_dir / "agents" / "real.sqlite3",
    )
    return [host], f"Real host {host.host}: {found.reason}"


def _simulated_host(data_dir: Path, cell: str, cell_number: int, rank: int) -> HostConfig:
    name = f"sim-{cell_number}-{rank:02d}"
    return HostConfig(
        host=name,
        cell=cell,
        driver="fake",
        options={
            "latency_seconds": settings.NOVELLA_SIMULATED_LATENCY_SECONDS,
            "live_migration_seconds": settings.NOVELLA_SIMULATED_LATENCY_SECONDS,
            "state_file": str(data_dir / "agents" / f"{name}.guests.json"),
            "faults_file": str(data_dir / "faults.json"),
        },
        availability_zone=ZONES[(rank - 1) % len(ZONES)],
        journal_path=data_dir / "agents" / f"{name}.sqlite3",
    )
