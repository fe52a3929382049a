"""What a machine is made of, out of the many places where controllers tell it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sushy

from compute_drivers.redfish.machines import Machine
from conductor.core.errors import DriverError

GB, MB_OF_GB = 1 << 30, 1024
ERASE = "#Drive.SecureErase"
NOTHING = (sushy.exceptions.SushyError, AttributeError, KeyError, TypeError)


@dataclass(frozen=True)
class Figures:
    """One machine. `cards` are the MACs of its network cards, `consoles` what its controller offers for people."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    cards: tuple[str, ...]
    model: str = ""
    consoles: tuple[str, ...] = ()


def of(root: Any, system: Any, machine: Machine) -> Figures:
    """What the machines file says counts. Raises DriverError, naming the field, for what nobody tells."""
    told = {
        "vcpus": machine.vcpus or _vcpus(system),
        "memory_mb": machine.memory_mb or _memory_mb(system),
        "disk_gb": machine.disk_gb or _disk_gb(system),
    }
    for name, amount in told.items():
        if not amount:
            raise DriverError(
                f"The controller of machine {machine.name} does not tell its {name}; name it in the file."
            )
    return Figures(
        **told,
        cards=_cards(system),
        model=" ".join(part for part in (system.manufacturer, system.model) if part),
        consoles=_consoles(system),
    )


def erasers(system: Any) -> list[str | None]:
    """For each drive where to tell it to erase itself; None for one that cannot."""
    drives = [drive for unit in system.storage.get_members() for drive in unit.drives]
    actions = [(drive.json.get("Actions") or {}).get(ERASE) or {} for drive in drives]
    return [action.get("target") for action in actions]


def _vcpus(system: Any) -> int:
    summary = system.json.get("ProcessorSummary") or {}
    logical = summary.get("LogicalProcessorCount")
    return int(logical or _told(lambda: system.processors.summary.count) or summary.get("Count") or 0)


def _memory_mb(system: Any) -> int:
    # Not by the field of the library: it takes fractions of a GiB for nothing.
    size = (system.json.get("MemorySummary") or {}).get("TotalSystemMemoryGiB")
    return int(float(size or 0) * MB_OF_GB)


def _disk_gb(system: Any) -> int:
    """The largest disk: a system is put onto one."""
    sizes: Iterable[int] = _told(lambda: system.storage.drives_sizes_bytes) or ()
    sizes = sizes or _told(lambda: system.simple_storage.disks_sizes_bytes) or ()
    return max(sizes, default=0) // GB


def _cards(system: Any) -> tuple[str, ...]:
    found = _told(lambda: [card.mac_address for card in system.ethernet_interfaces.get_members()]) or []
    return tuple(mac.lower() for mac in found if mac)


def _consoles(system: Any) -> tuple[str, ...]:
    """Such as KVMIP, SSH, IPMI: how people get to a screen or line at the controller's own address."""
    offers: list[Any] = []
    for manager in _told(lambda: system.managers) or []:
        for console in (manager.graphical_console, manager.serial_console):
            if console is not None and console.service_enabled:
                offers += console.connect_types_supported or []
    return tuple(dict.fromkeys(str(offer) for offer in offers))


def _told(ask: Any) -> Any:
    """None where the controller has no such place; one that does not answer is no such case."""
    try:
        return ask()
    except (sushy.exceptions.ConnectionError, sushy.exceptions.AccessError):
        raise
    except NOTHING:
        return None
