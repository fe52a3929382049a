"""Values of hosts, services, aggregates and availability zones, as callers see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class AggregateView:
    """A host aggregate: a group of hosts with metadata."""

    number: int
    uuid: str
    name: str
    metadata: Mapping[str, str]
    hosts: tuple[str, ...]
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True)
class ServiceView:
    """A process that belongs to a cell. If the cell is down, `is_known` is False and few other values are set."""

    number: int
    uuid: str
    binary: str
    host: str
    cell: str
    zone: str
    is_up: bool
    is_disabled: bool
    disabled_reason: str | None
    is_forced_down: bool
    is_simulated: bool
    version: int
    last_seen_at: datetime | None
    is_known: bool = True
    maintenance_note: str = ""


@dataclass(frozen=True)
class HypervisorView:
    """A compute node with the service that runs it. Memory is in MB, disk in GB; totals do not include overcommit."""

    number: int
    uuid: str
    node: str
    driver: str
    is_simulated: bool
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str
    service: ServiceView
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    disk_gb: int
    disk_gb_used: int
    disk_available_least_gb: int | None
    running_guests: int
    cpu_info: Mapping[str, Any]
    booted_at: int | None = None  # of the machine, in seconds since 1970; None when its agent does not report it


@dataclass(frozen=True)
class ZoneView:
    """An availability zone and the services in it."""

    name: str
    is_available: bool
    services: tuple[ServiceView, ...] = ()
