"""Decides between hardware virtualization and emulation."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

KVM = "kvm"
QEMU = "qemu"
KVM_DEVICE = Path("/dev/kvm")
CPU_INFO = Path("/proc/cpuinfo")
EXTENSIONS = re.compile(r"^(?:flags|Features)\s*:.*\b(vmx|svm)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class VirtType:
    """`name` is the domain type; `reason` says in a clause why."""

    name: str
    reason: str


def choose(wanted: str, *, cpu_info: str, can_open_kvm: bool) -> VirtType:
    """The operator's value where there is one, else KVM where processor and device allow it.

    A device that opens proves nothing: kernels offer it without extensions, and then stock guests die.
    """
    if wanted in (KVM, QEMU):
        return VirtType(wanted, "the operator chose it")
    found = EXTENSIONS.search(cpu_info)
    if found is None:
        return VirtType(QEMU, "the processor offers neither vmx nor svm")
    if not can_open_kvm:
        return VirtType(QEMU, f"{KVM_DEVICE} cannot be opened")
    return VirtType(KVM, f"the processor offers {found[1]}")


def choose_here(wanted: str) -> VirtType:
    """`choose` for this machine."""
    return choose(wanted, cpu_info=CPU_INFO.read_text(errors="replace"), can_open_kvm=can_open_kvm())


def can_open_kvm() -> bool:
    try:
        os.close(os.open(KVM_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True
