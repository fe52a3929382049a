"""Bare metal: machines of their own, one for each guest, driven through their controllers by Redfish."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from compute_drivers.redfish.making import SHUTDOWN, RedfishMaker
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import DriverError


class RedfishDriver(RedfishMaker):
    """Whole machines, one for each guest, driven through their controllers by Redfish.

    `host.py` and `making.py` are its parts; nothing here can copy a disk, move a guest or hold its memory still.
    """

    name: ClassVar[str] = "redfish"
    capabilities: frozenset[str] = frozenset({"rebuild", "crash_dump"})

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        name, note, bmc = self._made(instance_uuid)
        bmc.power_off(timeout_seconds)
        self._notes.save(name, replace(note, power_state=SHUTDOWN))

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        """Off and on, so that it is seen that it was: a controller says "on" all through a restart."""
        self.power_off(guest.instance_uuid, 0.0 if is_hard else timeout_seconds)
        self.power_on(guest)

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        _, _, bmc = self._made(instance_uuid)
        if not bmc.is_on():
            raise DriverError("The guest does not run: it has no memory to dump.")
        bmc.interrupt()
