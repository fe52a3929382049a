"""Derives a guest's machine from flavor and image, and refuses what this driver does not have."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conductor.core import image_properties
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import BuildAborted, DriverError, Invalid
from conductor.core.hardware.constraints import HardwareRequirements
from conductor.core.hardware.guest_cpus import best_topology
from conductor.core.hardware.request import CpuTopology

# Prefix of disk names in the guest, by bus.
DISK_NAMES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "ide": "hd"}
VIDEO_MODELS = ("vga", "virtio", "bochs", "cirrus", "none")
# QEMU's names of the network cards.
NIC_MODELS = {
    "virtio": "virtio-net-pci",
    "e1000": "e1000",
    "e1000e": "e1000e",
    "rtl8139": "rtl8139",
    "ne2k_pci": "ne2k_pci",
    "pcnet": "pcnet",
}
NO_WATCHDOG = ("disabled", "")
ADMINISTRATORS = {"windows": "Administrator"}
FIRMWARE_DIR = Path("/usr/share/qemu/firmware")
# Features of firmware that starts only signed boot loaders.
SIGNED_ONLY = frozenset({"secure-boot", "enrolled-keys"})
PLAIN, SECURE = "pc", "q35"
LIMIT = re.compile(r"quota:disk_((?:read|write|total)_(?:bytes|iops)_sec)")
TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
# What this driver does not have: (flavor's key, image's key, values that request it, name in the error).
UNSUPPORTED = (
    ("hw:tpm_version", "hw_tpm_version", None, "a TPM"),
    ("hw:mem_encryption", "hw_mem_encryption", TRUE, "encrypted memory"),
    ("hw:viommu_model", "hw_viommu_model", None, "an IOMMU for guests"),
)


@dataclass(frozen=True, kw_only=True)
class MachineSpec:
    """The virtual machine that a guest gets.

    Attributes:
        machine: QEMU's machine type.
        firmware: "bios" or "uefi".
        is_secure: Secure boot, which needs machine type q35.
        requires_quiesce: Snapshots fail unless the guest agent freezes the file systems.
        limits: I/O limits of each disk, by libvirt's names.
    """

    topology: CpuTopology
    machine: str = PLAIN
    firmware: str = "bios"
    is_secure: bool = False
    disk_bus: str = "virtio"
    cdrom_bus: str = "ide"
    nic_model: str = "virtio"
    video_model: str = "vga"
    video_ram_mb: int = 0
    watchdog: str = ""
    has_rng: bool = True
    has_agent: bool = False
    requires_quiesce: bool = False
    has_tablet: bool = False
    has_boot_menu: bool = False
    admin_user: str = "root"
    limits: Mapping[str, int] = field(default_factory=dict)


def from_guest(guest: GuestSpec) -> MachineSpec:
    """Return the machine for a guest.

    Raises DriverError for what another host may have, BuildAborted for values that are invalid on every host.
    """
    specs = guest.flavor.extra_specs
    try:
        known = image_properties.known(guest.image.properties)
        topology = best_topology(HardwareRequirements(guest.flavor, guest.image.properties))
    except Invalid as error:
        raise BuildAborted(error.message) from error
    _refuse_unsupported(specs, known)
    os_type = str(known.get("os_type", ""))
    is_secure = _is_secure(specs, known)
    machine = _machine(str(known.get("hw_machine_type", "")), is_secure=is_secure)
    buses = DISK_NAMES if not is_secure else {bus: name for bus, name in DISK_NAMES.items() if bus != "ide"}
    return MachineSpec(
        topology=topology,
        machine=machine,
        firmware="uefi" if is_secure else _firmware(str(known.get("hw_firmware_type", "bios"))),
        is_secure=is_secure,
        disk_bus=_one_of("disk bus", known.get("hw_disk_bus", "virtio"), buses),
        cdrom_bus=_one_of("CD-ROM bus", known.get("hw_cdrom_bus", "sata" if is_secure else "ide"), buses),
        nic_model=_one_of("network card", known.get("hw_vif_model", "virtio"), NIC_MODELS),
        video_model=_one_of("video card", known.get("hw_video_model", "vga"), VIDEO_MODELS),
        video_ram_mb=_video_ram(specs, known),
        watchdog=_watchdog(specs, known),
        has_rng=_is_true(specs.get("hw_rng:allowed", "true")),
        has_agent=bool(known.get("hw_qemu_guest_agent")),
        requires_quiesce=bool(known.get("os_require_quiesce")),
        has_tablet=known.get("hw_pointer_model") == "usbtablet" or known.get("hw_input_bus") is not None,
        has_boot_menu=bool(known.get("hw_boot_menu")) or _is_true(specs.get("hw:boot_menu", "")),
        admin_user=str(known.get("os_admin_user") or ADMINISTRATORS.get(os_type, "root")),
        limits=_limits(specs),
    )


def _refuse_unsupported(specs: Mapping[str, str], known: Mapping[str, object]) -> None:
    for flavor_key, image_key, values, what in UNSUPPORTED:
        for key, value in ((flavor_key, specs.get(flavor_key)), (image_key, known.get(image_key))):
            if value is not None and (values is None or str(value).lower() in values):
                raise DriverError(f"This host cannot give guests {what}, for which {key}={value} asks.")


def has_secure_firmware() -> bool:
    """Return whether this machine has firmware for secure boot with enrolled keys."""
    return any(map(_supports_secure_boot, FIRMWARE_DIR.glob("*.json")))


def _supports_secure_boot(path: Path) -> bool:
    try:
        firmware = json.loads(path.read_text())
        machines = [name for target in firmware["targets"] for name in target["machines"]]
        return set(firmware["features"]) >= SIGNED_ONLY and any(SECURE in name for name in machines)
    except (OSError, ValueError, KeyError, TypeError):  # an unusable description
        return False


def _is_secure(specs: Mapping[str, str], known: Mapping[str, object]) -> bool:
    """Return whether flavor or image require secure boot; "optional" does not."""
    requests = (("os:secure_boot", specs.get("os:secure_boot")), ("os_secure_boot", known.get("os_secure_boot")))
    key = next((key for key, value in requests if str(value).lower() == "required"), None)
    if key is None:
        return False
    firmware = str(known.get("hw_firmware_type", "uefi"))
    if firmware != "uefi":
        raise BuildAborted(f"{key}: secure boot needs hw_firmware_type=uefi, and the image says {firmware}.")
    if not has_secure_firmware():
        raise DriverError(f"This host cannot give guests secure boot, for which {key}=required asks.")
    return True


def _machine(requested: str, *, is_secure: bool) -> str:
    """Return QEMU's machine type: q35 for secure boot, whose firmware guests cannot write to, otherwise pc."""
    kinds, pattern = ((SECURE,), "pc-q35-*") if is_secure else ((PLAIN,), "pc-i440fx-*")
    if requested and requested not in kinds and not requested.startswith(pattern[:-1]):
        besides = " for secure boot" if is_secure else ""
        raise DriverError(f"This host has no machine type {requested}{besides}; it has {kinds[0]} and {pattern}.")
    return requested or kinds[0]


def _one_of(what: str, value: object, known: Mapping[str, str] | tuple[str, ...]) -> str:
    if value not in known:
        raise DriverError(f"This host has no {what} {value}; it has {', '.join(known)}.")
    return str(value)


def _firmware(wanted: str) -> str:
    if wanted == "uefi" and not any(FIRMWARE_DIR.glob("*.json")):
        raise DriverError("This host has no UEFI firmware, for which hw_firmware_type=uefi asks.")
    return wanted


def _video_ram(specs: Mapping[str, str], known: Mapping[str, object]) -> int:
    wanted = _whole("hw_video_ram", known.get("hw_video_ram", 0))
    most = _whole("hw_video:ram_max_mb", specs.get("hw_video:ram_max_mb", 0))
    if wanted > most:
        raise BuildAborted(f"hw_video_ram: {wanted} MB is more than the flavor's {most} (hw_video:ram_max_mb).")
    return wanted


def _watchdog(specs: Mapping[str, str], known: Mapping[str, object]) -> str:
    """Return the watchdog action, "" for none; the image overrides the flavor."""
    action = str(known.get("hw_watchdog_action") or specs.get("hw:watchdog_action", ""))
    return "" if action in NO_WATCHDOG else action


def _limits(specs: Mapping[str, str]) -> dict[str, int]:
    found = ((LIMIT.fullmatch(key), key, value) for key, value in specs.items())
    return {match[1]: _whole(key, value) for match, key, value in found if match}


def _whole(key: str, value: object) -> int:
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise BuildAborted(f'{key}: "{text}" is not a whole number.')
    return int(text)


def _is_true(text: str) -> bool:
    return text.strip().lower() in TRUE
