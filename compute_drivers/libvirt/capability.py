"""Can this machine run real guests? Answers in one sentence, without loading libvirt."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from compute_drivers.libvirt.virt_type import KVM, KVM_DEVICE, can_open_kvm, choose_here

EMULATOR = "qemu-system-x86_64"
PROGRAMS = {EMULATOR: "qemu-system-x86", "qemu-img": "qemu-utils"}
MODULES = dict.fromkeys(("libvirt", "libvirtmod", "libvirt_qemu"), "python3-libvirt")
HYPERVISOR_MODULE = "libvirt/connection-driver/libvirt_driver_qemu.so"
MEMORY_WRITER = "libvirt/libvirt_iohelper"  # Debian's package libvirt-daemon has it
LIBRARY_DIRS = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/libexec")


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`virt_type` is "kvm" or "qemu", "" when nothing can run; `reason` is one plain sentence."""

    is_usable: bool
    virt_type: str
    reason: str


def probe(virt_type: str = "auto") -> ProbeResult:
    """What this machine can do with the operator's `virt_type` (auto, kvm or qemu)."""
    if platform.machine() != "x86_64":
        return ProbeResult(False, "", f"guests are x86_64, this machine is {platform.machine()}.")
    missing = missing_packages()
    if missing:
        return ProbeResult(False, "", f"not installed here: {', '.join(missing)}.")
    chosen = choose_here(virt_type)
    if chosen.name == KVM and not can_open_kvm():
        return ProbeResult(False, "", f"KVM was asked for, but {KVM_DEVICE} cannot be opened.")
    how = "KVM runs guests at full speed" if chosen.name == KVM else "QEMU emulates guests in software"
    return ProbeResult(True, chosen.name, f"{how} ({chosen.reason}).")


def missing_packages() -> list[str]:
    """Debian's names of what the driver needs and does not find, sorted."""
    missing = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    missing |= {package for module, package in MODULES.items() if find_spec(module) is None}
    if not any(_has_hypervisor(Path(directory)) for directory in LIBRARY_DIRS):
        missing.add("libvirt-daemon-driver-qemu")
    return sorted(missing)


def can_save_memory() -> bool:
    """Whether libvirt finds the program by which it writes the memory of suspended guests."""
    return any((Path(directory) / MEMORY_WRITER).exists() for directory in LIBRARY_DIRS)


def _has_hypervisor(libraries: Path) -> bool:
    """Directly below, or one folder down where libraries lie by architecture."""
    return (libraries / HYPERVISOR_MODULE).exists() or any(libraries.glob(f"*/{HYPERVISOR_MODULE}"))
