"""Finds out whether this machine can run guests, and by KVM or emulation. It does not load libvirt."""

from __future__ import annotations

import os
import platform
import re
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

KVM = "kvm"
QEMU = "qemu"
KVM_DEVICE = Path("/dev/kvm")
CPU_INFO = Path("/proc/cpuinfo")
EXTENSIONS = re.compile(r"^(?:flags|Features)\s*:.*\b(vmx|svm)\b", re.MULTILINE)
EMULATOR = "qemu-system-x86_64"
# Debian's packages of the programs and modules that the driver needs.
PROGRAMS = {EMULATOR: "qemu-system-x86", "qemu-img": "qemu-utils"}
MODULES = dict.fromkeys(("libvirt", "libvirtmod", "libvirt_qemu"), "python3-libvirt")
HYPERVISOR_MODULE = "libvirt/connection-driver/libvirt_driver_qemu.so"
MEMORY_WRITER = "libvirt/libvirt_iohelper"  # in Debian's package libvirt-daemon
LIBRARY_DIRS = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/libexec")


@dataclass(frozen=True, slots=True)
class VirtType:
    """The domain type, and the reason for it as a clause."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of `probe`. `virt_type` is "kvm", "qemu", or "" when nothing can run; `reason` is one sentence."""

    is_usable: bool
    virt_type: str
    reason: str


def probe(virt_type: str = "auto") -> ProbeResult:
    """Return what this machine can run with the option `virt_type` (auto, kvm or qemu)."""
    if platform.machine() != "x86_64":
        return ProbeResult(False, "", f"guests are x86_64, this machine is {platform.machine()}.")
    missing = missing_packages()
    if missing:
        return ProbeResult(False, "", f"not installed here: {', '.join(missing)}.")
    chosen = choose_virt_type_here(virt_type)
    if chosen.name == KVM and not can_open_kvm():
        return ProbeResult(False, "", f"KVM was asked for, but {KVM_DEVICE} cannot be opened.")
    how = "KVM runs guests at full speed" if chosen.name == KVM else "QEMU emulates guests in software"
    return ProbeResult(True, chosen.name, f"{how} ({chosen.reason}).")


def choose_virt_type(option: str, *, cpu_info: str, can_open_kvm: bool) -> VirtType:
    """Return the operator's choice, or KVM where both the processor and the device allow it.

    The device alone proves nothing: some kernels offer it without the extensions, and then guests crash.
    """
    if option in (KVM, QEMU):
        return VirtType(option, "the operator chose it")
    found = EXTENSIONS.search(cpu_info)
    if found is None:
        return VirtType(QEMU, "the processor offers neither vmx nor svm")
    if not can_open_kvm:
        return VirtType(QEMU, f"{KVM_DEVICE} cannot be opened")
    return VirtType(KVM, f"the processor offers {found[1]}")


def choose_virt_type_here(option: str) -> VirtType:
    """Apply `choose_virt_type` to this machine."""
    return choose_virt_type(option, cpu_info=CPU_INFO.read_text(errors="replace"), can_open_kvm=can_open_kvm())


def can_open_kvm() -> bool:
    try:
        os.close(os.open(KVM_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def missing_packages() -> list[str]:
    """Return Debian's names of the packages that the driver needs and does not find, sorted."""
    missing = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    missing |= {package for module, package in MODULES.items() if find_spec(module) is None}
    if not any(_has_hypervisor(Path(directory)) for directory in LIBRARY_DIRS):
        missing.add("libvirt-daemon-driver-qemu")
    return sorted(missing)


def can_save_memory() -> bool:
    """Return whether libvirt finds the program that writes the memory of suspended guests."""
    return any((Path(directory) / MEMORY_WRITER).exists() for directory in LIBRARY_DIRS)


def _has_hypervisor(libraries: Path) -> bool:
    """Search the folder and those one level below, where libraries are grouped by architecture."""
    return (libraries / HYPERVISOR_MODULE).exists() or any(libraries.glob(f"*/{HYPERVISOR_MODULE}"))
