"""Power actions on containers: start, stop, reboot, pause."""

from __future__ import annotations

import os
import time

from compute_drivers.container.node import ON, ContainerNode
from compute_drivers.container.paths import DISK
from compute_drivers.container.spawn import GuestBuilder
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import DriverError
from conductor.core.states import PowerState

POLL_SECONDS = 0.05
# Signals that ask an init to power off; systemd has its own (SIGRTMIN+3).
TERMINATE, SYSTEMD_POWER_OFF = "TERM", "37"


class Power:
    """Changes the power state of guests. Each start describes the container anew with its present ports."""

    def __init__(self, node: ContainerNode, builder: GuestBuilder) -> None:
        self._node = node
        self._builder = builder

    def power_on(self, guest: GuestSpec) -> None:
        """Start a guest that is off."""
        if self._node.power_state(guest.instance_uuid) not in ON:
            self._builder.check(guest)
            self._builder.start(guest)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        """Ask the guest to power off, and end it when it still runs after `timeout_seconds`."""
        self._node.power_state(instance_uuid)
        self._shut_down(instance_uuid, timeout_seconds)
        self._node.force_off(instance_uuid)

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        uuid = guest.instance_uuid
        self._node.power_state(uuid)
        self._builder.check(guest)
        if not is_hard:
            self._shut_down(uuid, timeout_seconds)
        self._node.force_off(uuid)
        self._builder.start(guest)

    def pause(self, instance_uuid: str) -> None:
        if self._must_change(instance_uuid, PowerState.RUNNING, PowerState.PAUSED):
            self._node.runtime.pause(instance_uuid)

    def unpause(self, instance_uuid: str) -> None:
        if self._must_change(instance_uuid, PowerState.PAUSED, PowerState.RUNNING):
            self._node.runtime.resume(instance_uuid)

    def _shut_down(self, instance_uuid: str, timeout_seconds: float) -> None:
        """Signal the init of a running guest, and wait until it ended or `timeout_seconds` are over."""
        runtime = self._node.runtime
        deadline = time.monotonic() + timeout_seconds
        if timeout_seconds > 0 and runtime.state(instance_uuid) is PowerState.RUNNING:
            runtime.signal(instance_uuid, self._power_off_signal(instance_uuid))
        while time.monotonic() < deadline and runtime.state(instance_uuid) is PowerState.RUNNING:
            time.sleep(POLL_SECONDS)

    def _power_off_signal(self, instance_uuid: str) -> str:
        """Choose the signal by where /sbin/init points to in the container."""
        root = self._node.paths.mount_of(self._node.paths.folder_of(instance_uuid) / DISK)
        try:
            return SYSTEMD_POWER_OFF if os.readlink(root / "sbin" / "init").endswith("systemd") else TERMINATE
        except OSError:
            return TERMINATE

    def _must_change(self, instance_uuid: str, source: PowerState, target: PowerState) -> bool:
        """Return False when the guest is in `target` already. Raises DriverError when it is in neither."""
        state = self._node.power_state(instance_uuid)
        if state not in (source, target):
            raise DriverError(f"The guest is {state.name.lower()}, not {source.name.lower()}.")
        return state is source
