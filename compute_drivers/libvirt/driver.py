"""Real guests on this machine: QEMU by libvirt, with disks, consoles and networks of their own."""

from __future__ import annotations

from typing import ClassVar

from compute_drivers.libvirt.actions import LibvirtActions
from compute_drivers.libvirt.capability import can_save_memory


class LibvirtDriver(LibvirtActions):
    """`host.py` and `actions.py` are its parts. It moves no guests yet, and asks no agent inside of them."""

    name: ClassVar[str] = "libvirt"
    supports_console_log: ClassVar[bool] = True
    capabilities: frozenset[str] = frozenset(
        {"pause", "suspend", "rescue", "rebuild", "snapshot", "crash_dump", "attach_volume", "attach_interface"}
    )

    def start(self) -> None:
        super().start()
        if not can_save_memory():
            self.capabilities -= {"suspend"}
