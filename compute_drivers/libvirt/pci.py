"""The PCI devices of this machine that an operator lets guests have."""

from __future__ import annotations

import re
from pathlib import Path

from conductor.core.errors import Invalid
from conductor.core.hardware.topology import PciDevice

DEVICES = Path("/sys/bus/pci/devices")
OPTION = "libvirt.pci_devices"
ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
KIND = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")


def wanted(text: str) -> frozenset[str]:
    """What `text` names, apart: addresses, or vendor:product. Raises Invalid."""
    names = frozenset(part.strip().lower() for part in text.split(",") if part.strip())
    for name in sorted(names):
        if not ADDRESS.fullmatch(name) and not KIND.fullmatch(name):
            raise Invalid(f"Option {OPTION}: {name!r} is neither like 0000:3b:00.0 nor like 8086:1521.")
    return names


def devices(text: str, folder: Path = DEVICES) -> tuple[PciDevice, ...]:
    """Those that `text` names, by address or kind, and that are there."""
    names = wanted(text)
    if not names:
        return ()
    found = (_device(path) for path in sorted(folder.iterdir()))
    return tuple(one for one in found if {one.address, f"{one.vendor_id}:{one.product_id}"} & names)


def _device(path: Path) -> PciDevice:
    node = int(_read(path / "numa_node") or -1)
    physical = (path / "physfn").resolve().name if (path / "physfn").exists() else ""
    return PciDevice(
        address=path.name,
        vendor_id=_read(path / "vendor").removeprefix("0x"),
        product_id=_read(path / "device").removeprefix("0x"),
        numa_node=node if node >= 0 else None,
        parent=physical,
        tags={"dev_type": _kind(path, physical)},
    )


def _kind(path: Path, physical: str) -> str:
    if physical:
        return "type-VF"
    return "type-PF" if (path / "sriov_totalvfs").exists() else "type-PCI"


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
