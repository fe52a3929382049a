"""Power actions on guests: start, stop, reboot, pause, suspend and crash dump."""

from __future__ import annotations

import time

from compute_drivers.libvirt.node import OFF, ON, LibvirtNode, wrong_power_state
from compute_drivers.libvirt.spawn import GuestBuilder, image_ids, no_progress
from conductor.core.compute_driver import GuestSpec
from conductor.core.states import PowerState

POLL_SECONDS = 0.1
# A guest that is booting ignores the power button, so it is pressed again.
PRESS_AGAIN_SECONDS = 10.0


class Power:
    """Changes the power state of guests. Each start redefines the guest with its present ports and volumes."""

    def __init__(self, node: LibvirtNode, builder: GuestBuilder) -> None:
        self._node = node
        self._builder = builder

    def power_on(self, guest: GuestSpec) -> None:
        """Start a guest that is off; a suspended one resumes."""
        state = self._node.power_state(guest.instance_uuid)
        if state is PowerState.SUSPENDED:
            self.resume(guest.instance_uuid)
        elif state not in ON:
            self._redefine_and_start(guest)

    def power_off(self, instance_uuid: str, timeout_seconds: float) -> None:
        """Shut the guest down, and force it off when it still runs after `timeout_seconds`."""
        is_off = self._node.power_state(instance_uuid) in OFF
        if not is_off and not self._shut_down(instance_uuid, timeout_seconds):
            self._node.force_off(instance_uuid)

    def reboot(self, guest: GuestSpec, *, is_hard: bool, timeout_seconds: float) -> None:
        """Hard: force off and start. Soft: shut down and start, or reset a guest that does not shut down."""
        uuid = guest.instance_uuid
        is_running = self._node.power_state(uuid) is PowerState.RUNNING
        if is_hard or not is_running:
            self._node.force_off(uuid)
        if is_hard or not is_running or self._shut_down(uuid, timeout_seconds):
            self._redefine_and_start(guest)
            return
        with self._node.guest(uuid, "reset the guest") as domain:
            domain.reset()

    def pause(self, instance_uuid: str) -> None:
        with self._node.guest(instance_uuid, "pause the guest") as domain:
            if _must_change(domain.power_state(), PowerState.RUNNING, PowerState.PAUSED):
                domain.pause()

    def unpause(self, instance_uuid: str) -> None:
        with self._node.guest(instance_uuid, "let the guest go on") as domain:
            if _must_change(domain.power_state(), PowerState.PAUSED, PowerState.RUNNING):
                domain.unpause()

    def suspend(self, instance_uuid: str) -> None:
        with self._node.guest(instance_uuid, "suspend the guest") as domain:
            if _must_change(domain.power_state(), PowerState.RUNNING, PowerState.SUSPENDED):
                domain.save_memory()

    def resume(self, instance_uuid: str) -> None:
        with self._node.guest(instance_uuid, "resume the guest") as domain:
            if _must_change(domain.power_state(), PowerState.SUSPENDED, PowerState.RUNNING):
                domain.start()

    def trigger_crash_dump(self, instance_uuid: str) -> None:
        with self._node.running_guest(instance_uuid, "interrupt the guest") as domain:
            domain.inject_nmi()

    def _shut_down(self, instance_uuid: str, timeout_seconds: float) -> bool:
        """Press the power button of a running guest; return whether the guest is off after `timeout_seconds`."""
        deadline = time.monotonic() + timeout_seconds
        press_at = 0.0
        while self._node.power_state(instance_uuid) is PowerState.RUNNING and time.monotonic() < deadline:
            if time.monotonic() >= press_at:
                press_at = time.monotonic() + PRESS_AGAIN_SECONDS
                with self._node.guest(instance_uuid, "shut the guest down") as domain:
                    domain.press_power_button()
            time.sleep(POLL_SECONDS)
        return self._node.power_state(instance_uuid) in OFF

    def _redefine_and_start(self, guest: GuestSpec) -> None:
        self._builder.check(guest)
        with self._node.images.pinned(*image_ids(guest)):
            boot = self._builder.boot_files(guest, no_progress)
            self._node.define_and_start(guest.instance_uuid, self._builder.domain_xml(guest, boot))


def _must_change(state: PowerState, source: PowerState, target: PowerState) -> bool:
    """Return False when `state` is `target` already. Raises DriverError when it is neither."""
    if state not in (source, target):
        raise wrong_power_state(state)
    return state is source
