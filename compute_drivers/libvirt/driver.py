"""Real guests on this machine: QEMU by libvirt, with disks, consoles and networks of their own."""

from __future__ import annotations

from typing import ClassVar

from compute_drivers.libvirt.capability import can_save_memory
from compute_drivers.libvirt.live import LibvirtLive
from compute_drivers.libvirt.options import BRIDGE


class LibvirtDriver(LibvirtLive):
    """Virtual machines on QEMU and KVM through libvirt, with disks, consoles and networks of their own.

    `host.py`, `making.py`, `actions.py`, `moves.py`, `taking.py` and `live.py` are its parts.
    """

    name: ClassVar[str] = "libvirt"
    supports_console_log: ClassVar[bool] = True
    capabilities: frozenset[str] = frozenset(
        {
            *("pause", "suspend", "rescue", "rebuild", "snapshot", "set_password", "crash_dump"),
            *("attach_volume", "swap_volume", "attach_interface"),
            *("diagnostics", "guest_password", "vnc_console", "serial_console", "migrate", "evacuate"),
            *("live_migrate", "live_downtime", "live_throttle", "live_post_copy"),
        }
    )

    def start(self) -> None:
        super().start()
        if not can_save_memory():
            self.capabilities -= {"suspend"}
        if not self._options.migration_uri:
            self.capabilities -= {"live_migrate", "live_downtime", "live_throttle", "live_post_copy"}
        # QEMU takes neither for a move that began without.
        if not self._options.migration_throttles:
            self.capabilities -= {"live_throttle"}
        if not self._options.may_post_copy:
            self.capabilities -= {"live_post_copy"}
        self.filters_ports = self._options.guest_network == BRIDGE
        if not self._plays_networks:
            self.capabilities -= {"guest_password"}
        if not self._options.shared_dir:
            self.capabilities -= {"evacuate"}
