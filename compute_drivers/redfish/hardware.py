"""Reads a machine's hardware from the various resources in which controllers report it. It loads sushy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sushy

from compute_drivers.redfish.machines import Machine
from conductor.core.errors import DriverError

GB, MB_PER_GB = 1 << 30, 1024
ERASE = "#Drive.SecureErase"
NOT_REPORTED = (sushy.exceptions.SushyError, AttributeError, KeyError, TypeError)


@dataclass(frozen=True)
class MachineHardware:
    """Hardware of one machine.

    Attributes:
        cards: MAC addresses of its network cards.
        consoles: Console protocols that the controller offers, such as KVMIP.
    """

    vcpus: int
    memory_mb: int
    disk_gb: int
    cards: tuple[str, ...]
    model: str = ""
    consoles: tuple[str, ...] = ()


def read_hardware(system: Any, machine: Machine) -> MachineHardware:
    """Return the hardware; values in the machines file replace reported ones.

    Raises DriverError, naming the field, for a value that is in neither.
    """
    amounts = {
        "vcpus": machine.vcpus or _vcpus(system),
        "memory_mb": machine.memory_mb or _memory_mb(system),
        "disk_gb": machine.disk_gb or _disk_gb(system),
    }
    for name, amount in amounts.items():
        if not amount:
            raise DriverError(
                f"The controller of machine {machine.name} does not report its {name}; name it in the file."
            )
    return MachineHardware(
        **amounts,
        cards=_cards(system),
        model=" ".join(part for part in (system.manufacturer, system.model) if part),
        consoles=_consoles(system),
    )


def erase_targets(system: Any) -> list[str | None]:
    """Return the URL of the erase action of each drive; None for a drive without one."""
    drives = [drive for unit in system.storage.get_members() for drive in unit.drives]
    actions = [(drive.json.get("Actions") or {}).get(ERASE) or {} for drive in drives]
    return [action.get("target") for action in actions]


def _vcpus(system: Any) -> int:
    summary = system.json.get("ProcessorSummary") or {}
    logical = summary.get("LogicalProcessorCount")
    return int(logical or _reported(lambda: system.processors.summary.count) or summary.get("Count") or 0)


def _memory_mb(system: Any) -> int:
    # Read from the JSON: sushy ignores fractions of a GiB.
    size = (system.json.get("MemorySummary") or {}).get("TotalSystemMemoryGiB")
    return int(float(size or 0) * MB_PER_GB)


def _disk_gb(system: Any) -> int:
    """Return the size of the largest disk: an operating system is installed onto one."""
    sizes: Iterable[int] = _reported(lambda: system.storage.drives_sizes_bytes) or ()
    sizes = sizes or _reported(lambda: system.simple_storage.disks_sizes_bytes) or ()
    return max(sizes, default=0) // GB


def _cards(system: Any) -> tuple[str, ...]:
    found = _reported(lambda: [card.mac_address for card in system.ethernet_interfaces.get_members()]) or []
    return tuple(mac.lower() for mac in found if mac)


def _consoles(system: Any) -> tuple[str, ...]:
    """Return the protocols, such as KVMIP, SSH or IPMI, of consoles at the controller's own address."""
    offers: list[Any] = []
    for manager in _reported(lambda: system.managers) or []:
        for console in (manager.graphical_console, manager.serial_console):
            if console is not None and console.service_enabled:
                offers += console.connect_types_supported or []
    return tuple(dict.fromkeys(str(mode) for mode in offers))


def _reported(read: Any) -> Any:
    """Return None where the controller has no such resource. Connection errors are raised."""
    try:
        return read()
    except (sushy.exceptions.ConnectionError, sushy.exceptions.AccessError):
        raise
    except NOT_REPORTED:
        return None
