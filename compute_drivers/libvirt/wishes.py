"""What a flavor and an image ask of the machine that QEMU makes, and which of it this driver has."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conductor.core import image_properties
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import BuildAborted, DriverError, Invalid
from conductor.core.hardware.constraints import Wishes
from conductor.core.hardware.guest_cpus import best_topology
from conductor.core.hardware.request import CpuTopology

# How a guest names its disks, by the bus that they are on.
DISK_NAMES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "ide": "hd"}
VIDEO_MODELS = ("vga", "virtio", "bochs", "cirrus", "none")
# As QEMU calls the cards.
CARD_MODELS = {
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
# What firmware says of itself that starts only what somebody known has signed.
SIGNED_ONLY = frozenset({"secure-boot", "enrolled-keys"})
PLAIN, SECURE = "pc", "q35"
LIMIT = re.compile(r"quota:disk_((?:read|write|total)_(?:bytes|iops)_sec)")
TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
# What no host of this driver has: (flavor's key, image's key, which values ask for it, what is said).
REFUSED = (
    ("hw:tpm_version", "hw_tpm_version", None, "a TPM"),
    ("hw:mem_encryption", "hw_mem_encryption", TRUE, "encrypted memory"),
    ("hw:viommu_model", "hw_viommu_model", None, "an IOMMU for guests"),
)


@dataclass(frozen=True, kw_only=True)
class Wished:
    """The machine's parts. `limits` are of each disk, by libvirt's names; `firmware` is "bios" or "uefi".

    One that `is_secure` starts only what is signed, for which its `machine` is another. One that `stands_still` writes
    nothing while a snapshot is taken.
    """

    topology: CpuTopology
    machine: str = PLAIN
    firmware: str = "bios"
    is_secure: bool = False
    disk_bus: str = "virtio"
    cdrom_bus: str = "ide"
    card_model: str = "virtio"
    video_model: str = "vga"
    video_ram_mb: int = 0
    watchdog: str = ""
    has_rng: bool = True
    has_agent: bool = False
    stands_still: bool = False
    has_tablet: bool = False
    has_boot_menu: bool = False
    admin_user: str = "root"
    limits: Mapping[str, int] = field(default_factory=dict)


def read(guest: GuestSpec) -> Wished:
    """Raises DriverError for what other hosts may have, BuildAborted for what no host can make sense of."""
    specs = guest.flavor.extra_specs
    try:
        known = image_properties.known(guest.image.properties)
        topology = best_topology(Wishes(guest.flavor, guest.image.properties))
    except Invalid as error:
        raise BuildAborted(error.message) from error
    _refuse_what_is_not_here(specs, known)
    os_type = str(known.get("os_type", ""))
    is_secure = _is_secure(specs, known)
    machine = _machine(str(known.get("hw_machine_type", "")), is_secure=is_secure)
    buses = DISK_NAMES if not is_secure else {bus: name for bus, name in DISK_NAMES.items() if bus != "ide"}
    return Wished(
        topology=topology,
        machine=machine,
        firmware="uefi" if is_secure else _firmware(str(known.get("hw_firmware_type", "bios"))),
        is_secure=is_secure,
        disk_bus=_one_of("disk bus", known.get("hw_disk_bus", "virtio"), buses),
        cdrom_bus=_one_of("CD-ROM bus", known.get("hw_cdrom_bus", "sata" if is_secure else "ide"), buses),
        card_model=_one_of("network card", known.get("hw_vif_model", "virtio"), CARD_MODELS),
        video_model=_one_of("video card", known.get("hw_video_model", "vga"), VIDEO_MODELS),
        video_ram_mb=_video_ram(specs, known),
        watchdog=_watchdog(specs, known),
        has_rng=_is_true(specs.get("hw_rng:allowed", "true")),
        has_agent=bool(known.get("hw_qemu_guest_agent")),
        stands_still=bool(known.get("os_require_quiesce")),
        has_tablet=known.get("hw_pointer_model") == "usbtablet" or known.get("hw_input_bus") is not None,
        has_boot_menu=bool(known.get("hw_boot_menu")) or _is_true(specs.get("hw:boot_menu", "")),
        admin_user=str(known.get("os_admin_user") or ADMINISTRATORS.get(os_type, "root")),
        limits=_limits(specs),
    )


def _refuse_what_is_not_here(specs: Mapping[str, str], known: Mapping[str, object]) -> None:
    for flavor_key, image_key, values, what in REFUSED:
        for key, value in ((flavor_key, specs.get(flavor_key)), (image_key, known.get(image_key))):
            if value is not None and (values is None or str(value).lower() in values):
                raise DriverError(f"This host cannot give guests {what}, for which {key}={value} asks.")


def has_secure_firmware() -> bool:
    """Whether this machine has firmware that starts only what is signed, with the keys that say by whom."""
    return any(map(_is_for_secure, FIRMWARE_DIR.glob("*.json")))


def _is_for_secure(path: Path) -> bool:
    try:
        told = json.loads(path.read_text())
        machines = [name for target in told["targets"] for name in target["machines"]]
        return set(told["features"]) >= SIGNED_ONLY and any(SECURE in name for name in machines)
    except (OSError, ValueError, KeyError, TypeError):  # a description that nobody can use
        return False


def _is_secure(specs: Mapping[str, str], known: Mapping[str, object]) -> bool:
    """One of the two is enough to ask for it; who only likes it does without."""
    asked = (("os:secure_boot", specs.get("os:secure_boot")), ("os_secure_boot", known.get("os_secure_boot")))
    key = next((key for key, value in asked if str(value).lower() == "required"), None)
    if key is None:
        return False
    firmware = str(known.get("hw_firmware_type", "uefi"))
    if firmware != "uefi":
        raise BuildAborted(f"{key}: secure boot needs hw_firmware_type=uefi, and the image says {firmware}.")
    if not has_secure_firmware():
        raise DriverError(f"This host cannot give guests secure boot, for which {key}=required asks.")
    return True


def _machine(asked: str, *, is_secure: bool) -> str:
    """As QEMU calls it. Secure boot needs the one whose firmware no guest can write to; else there is the other."""
    kinds, all_of_them = ((SECURE,), "pc-q35-*") if is_secure else ((PLAIN,), "pc-i440fx-*")
    if asked and asked not in kinds and not asked.startswith(all_of_them[:-1]):
        besides = " for secure boot" if is_secure else ""
        raise DriverError(f"This host has no machine type {asked}{besides}; it has {kinds[0]} and {all_of_them}.")
    return asked or kinds[0]


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
    """The image is heard before the flavor."""
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
