"""Power actions on machines: start, stop, reboot, crash dump."""

from __future__ import annotations

from dataclasses import replace

from compute_drivers.redfish.assignments import BUILT
from compute_drivers.redfish.node import RedfishNode
from compute_drivers.redfish.options import ALWAYS
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

RUNNING, SHUTDOWN = int(PowerState.RUNNING), int(PowerState.SHUTDOWN)


class Power:
    """Changes the power state of machines that have a guest."""

    def __init__(self, node: RedfishNode) -> None:
        self._node = node

    def power_on(self, instance_uuid: str) -> None:
        machine, _, _ = self._node.built_guest(instance_uuid)
        self.start_machine(machine)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        machine, assignment, bmc = self._node.built_guest(instance_uuid)
        bmc.power_off(timeout_seconds)
        self._node.assignments.save(machine, replace(assignment, power_state=SHUTDOWN))

    def reboot(self, instance_uuid: str, *, is_hard: bool, timeout_seconds: float) -> None:
        """Power off and on, and not by Redfish's restart: controllers report "on" all through that."""
        self.power_off(instance_uuid, 0.0 if is_hard else timeout_seconds)
        self.power_on(instance_uuid)

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        _, _, bmc = self._node.built_guest(instance_uuid)
        if not bmc.is_on():
            raise DriverError("The guest does not run: it has no memory to dump.")
        bmc.interrupt()

    def start_machine(self, machine: str) -> None:
        """Start from the boot image when the assignment is armed, otherwise from the machine's own disk."""
        bmc, assignment = self._node.bmcs[machine], self._node.assignments.all()[machine]
        if not assignment.is_armed and self._node.options.boot != ALWAYS and not bmc.is_on():
            bmc.eject(only_disc=True)
        bmc.power_on()
        running = replace(assignment, stage=BUILT, is_armed=False, power_state=RUNNING)
        self._node.assignments.save(machine, running)
