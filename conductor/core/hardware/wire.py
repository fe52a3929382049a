"""JSON form of hardware: reports of hosts, requests, and grants of guests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.hardware.grants import Device, HardwareGrant, HardwareRequest, Host
from conductor.core.hardware.request import InstanceCell, InstanceTopology, PciRequest
from conductor.core.hardware.topology import HostCell, HostTopology, Pages, PciDevice

Json = Mapping[str, Any]


def cell_to_json(cell: HostCell) -> dict[str, Any]:
    """Return a host's report of a cell. Usage is left out: the host does not report it."""
    return {
        "id": cell.id,
        "cpus": sorted(cell.cpus),
        "pcpus": sorted(cell.pcpus),
        "memory_mb": cell.memory_mb,
        "siblings": sorted(sorted(core) for core in cell.siblings),
        "pages": [{"size_kb": pages.size_kb, "total": pages.total} for pages in cell.pages],
        "socket": cell.socket,
    }


def device_to_json(device: PciDevice) -> dict[str, Any]:
    return {
        "address": device.address,
        "vendor_id": device.vendor_id,
        "product_id": device.product_id,
        "numa_node": device.numa_node,
        "parent": device.parent,
        "tags": dict(device.tags),
    }


def host_from_json(cells: Sequence[Json], devices: Sequence[Json]) -> Host:
    """Parse a host's report. Raises Invalid where it cannot be read."""
    try:
        found = tuple(sorted((_cell(cell) for cell in cells), key=lambda cell: cell.id))
        return Host(HostTopology(found) if found else None, tuple(_device(device) for device in devices))
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid(f"The report of NUMA cells and PCI devices cannot be read: {type(error).__name__}.") from error


def wanted_to_json(wanted: HardwareRequest) -> dict[str, Any]:
    """Return the JSON of a request; empty for guests that request no hardware, which most do not."""
    if not wanted:
        return {}
    return {
        "numa": None if wanted.numa is None else _guest_to_json(wanted.numa),
        "pci": [
            {
                "count": request.count,
                "specs": [dict(spec) for spec in request.specs],
                "alias": request.alias,
                "policy": request.policy,
            }
            for request in wanted.pci_requests
        ],
    }


def wanted_from_json(data: Json) -> HardwareRequest:
    requests = tuple(
        PciRequest(one["count"], tuple(one["specs"]), one["alias"], one["policy"]) for one in data.get("pci", ())
    )
    return HardwareRequest(_guest(data.get("numa")), requests)


def grant_to_json(grant: HardwareGrant) -> dict[str, Any]:
    return {
        "numa": None if grant.numa is None else _guest_to_json(grant.numa),
        "devices": [{"address": device.address, "alias": device.alias} for device in grant.devices],
    }


def grant_from_json(data: Json) -> HardwareGrant:
    devices = tuple(Device(one["address"], one.get("alias", "")) for one in data.get("devices", ()))
    return HardwareGrant(_guest(data.get("numa")), devices)


def _guest_to_json(guest: InstanceTopology) -> dict[str, Any]:
    return {
        "emulator_policy": guest.emulator_policy,
        "cells": [
            {
                "id": cell.id,
                "cpus": sorted(cell.cpus),
                "pcpus": sorted(cell.pcpus),
                "memory_mb": cell.memory_mb,
                "page_size_kb": cell.page_size_kb,
                "cpu_policy": cell.cpu_policy,
                "thread_policy": cell.thread_policy,
                "pins": [list(pin) for pin in cell.pins],
                "reserved": sorted(cell.reserved),
            }
            for cell in guest.cells
        ],
    }


def _guest(data: Json | None) -> InstanceTopology | None:
    if data is None:
        return None
    return InstanceTopology(tuple(_guest_cell(cell) for cell in data["cells"]), data.get("emulator_policy"))


def _guest_cell(data: Json) -> InstanceCell:
    pins = tuple((guest, host) for guest, host in data.get("pins", ()))
    sets = {name: frozenset(data.get(name, ())) for name in ("cpus", "pcpus", "reserved")}
    return InstanceCell(**{**data, **sets, "pins": pins})


def _cell(data: Json) -> HostCell:
    return HostCell(
        id=int(data["id"]),
        cpus=_cpus(data["cpus"]),
        pcpus=_cpus(data.get("pcpus", ())),
        memory_mb=int(data["memory_mb"]),
        siblings=tuple(_cpus(core) for core in data.get("siblings", ())),
        pages=tuple(Pages(int(pages["size_kb"]), int(pages["total"])) for pages in data.get("pages", ())),
        socket=None if data.get("socket") is None else int(data["socket"]),
    )


def _device(data: Json) -> PciDevice:
    return PciDevice(
        address=str(data["address"]),
        vendor_id=str(data["vendor_id"]),
        product_id=str(data["product_id"]),
        numa_node=None if data.get("numa_node") is None else int(data["numa_node"]),
        parent=str(data.get("parent", "")),
        tags={str(key): str(value) for key, value in data.get("tags", {}).items()},
    )


def _cpus(numbers: Iterable[Any]) -> frozenset[int]:
    return frozenset(int(number) for number in numbers)
