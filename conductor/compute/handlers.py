"""What each command has the driver do: one row per command."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conductor.compute.driver_words import ENDS_THREADS, staying, usable_result
from conductor.core.compute_driver import (
    HAS_LEFT,
    ComputeDriver,
    GuestSpec,
    NetworkPort,
    Progress,
    StoreImage,
    VolumeConnection,
)
from conductor.core.errors import DriverError, GuestMissing, NotSupported
from conductor.core.live_steering import STEERINGS
from conductor.core.states import PowerState
from conductor.rpc import messages as m

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Hands:
    """What a command is carried out with. `progress` is that command's own."""

    driver: ComputeDriver
    store_image: StoreImage
    progress: Progress


Verb = Callable[[Hands, Any], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Handler:
    """`verb` calls the driver and gives what the answer holds; `needs` is the capability without which it never does.

    What a command that `builds` made goes again when nobody wants it any more.
    """

    verb: Verb
    needs: str = ""
    builds: bool = False


def carry_out(hands: Hands, command: Any) -> dict[str, Any]:
    """Have the driver do what `command` says; the result for its answer. Raises NotSupported, and what it raises."""
    handler = HANDLERS[type(command)]
    if handler.needs and handler.needs not in hands.driver.capabilities:
        raise NotSupported(f"The driver of host {hands.driver.host} cannot do that: it has no {handler.needs}.")
    with staying():
        return usable_result(handler.verb(hands, command) or {})


def _guest(command: Any) -> GuestSpec:
    return GuestSpec.from_json(command.guest)


def _spawn(at: Hands, command: m.SpawnInstance) -> None:
    guest = _guest(command)
    at.driver.spawn(guest, at.progress)
    if not command.is_running:
        at.driver.power_off(guest.instance_uuid, 0.0)


def _rebuild(at: Hands, command: m.RebuildInstance) -> None:
    """A guest that the host has lost is built anew: a rebuild keeps nothing of the old disks anyway."""
    guest = _guest(command)
    try:
        at.driver.rebuild(guest, at.progress, is_running=command.is_running)
    except GuestMissing:
        log.warning("a guest that was to be rebuilt is not there, and is built: instance=%s", guest.instance_uuid)
        at.driver.spawn(guest, at.progress)
        if not command.is_running:
            at.driver.power_off(guest.instance_uuid, 0.0)


def _destroy(at: Hands, command: m.DestroyInstance) -> None:
    """What a driver still lists is there, whatever it answered."""
    at.driver.destroy(command.instance_uuid)
    if _is_here(at, command.instance_uuid):
        raise DriverError("The driver says that it destroyed the guest, and still lists it.")


def _pause(at: Hands, command: m.PauseInstance) -> None:
    at.driver.pause(command.instance_uuid)
    _require_still(at, command.instance_uuid, "paused")


def _suspend(at: Hands, command: m.SuspendInstance) -> None:
    at.driver.suspend(command.instance_uuid)
    _require_still(at, command.instance_uuid, "suspended")


def _require_still(at: Hands, instance_uuid: str, deed: str) -> None:
    """The hypervisor's word counts, not the driver's."""
    if _found(at, instance_uuid) is PowerState.RUNNING:
        raise DriverError(f"The driver says that it {deed} the guest, and lists it as running.")


def _take_over(at: Hands, command: m.TakeOverInstance) -> None:
    guest = _guest(command)
    at.driver.take_over(guest, command.source_host, at.progress)
    if not command.is_running:
        at.driver.power_off(guest.instance_uuid, 0.0)


def _reboot(at: Hands, command: m.RebootInstance) -> None:
    at.driver.reboot(_guest(command), is_hard=command.is_hard, timeout_seconds=command.timeout_seconds)


def _snapshot(at: Hands, command: m.SnapshotInstance) -> None:
    at.driver.snapshot(command.instance_uuid, command.image_id, at.store_image, at.progress)


def _swap(at: Hands, command: m.SwapVolume) -> None:
    volume = VolumeConnection.from_json(command.volume)
    at.driver.swap_volume(command.instance_uuid, command.old_volume_uuid, volume, at.progress)


def _prepare(at: Hands, command: m.PrepareLiveMigration) -> Mapping[str, Any]:
    return at.driver.prepare_live_migration(_guest(command), is_block_migration=command.is_block_migration)


def _live_migrate(at: Hands, command: m.LiveMigrate) -> Mapping[str, Any]:
    """A failure is only told of a guest that is still here: whoever takes it for that lets the other host end it."""
    guest = _guest(command)
    try:
        at.driver.live_migrate(guest, command.target, at.progress, is_block_migration=command.is_block_migration)
    except GuestMissing:
        raise
    except (Exception, *ENDS_THREADS):
        if _is_here(at, guest.instance_uuid):
            raise
        log.exception("a live migration went wrong after its guest had left: %s", guest.instance_uuid)
        return {HAS_LEFT: True}
    return {}


def _steer(at: Hands, command: m.SteerLiveMigration) -> None:
    """A kind that only a newer conductor knows is one that this driver cannot."""
    steering = STEERINGS.get(command.kind)
    if steering is None or steering.capability not in at.driver.capabilities:
        raise NotSupported(f"The driver of host {at.driver.host} cannot do that to a move: {command.kind[:60]}.")
    at.driver.steer_live_migration(command.instance_uuid, command.kind, command.amount)


def _is_here(at: Hands, instance_uuid: str) -> bool:
    """Whether the hypervisor lists the guest; one that cannot be asked does not say so."""
    return _found(at, instance_uuid) is not None


def _found(at: Hands, instance_uuid: str) -> PowerState | None:
    """What the listed guest does; None where it is not listed, or nobody can tell."""
    try:
        return next((found.power_state for found in at.driver.guests() if found.instance_uuid == instance_uuid), None)
    except (Exception, *ENDS_THREADS):
        log.exception("guests cannot be listed")
        return None


def _migrate_in(at: Hands, command: m.MigrateIn) -> None:
    at.driver.migrate_in(_guest(command), command.disks, at.progress, is_running=command.is_running)


HANDLERS: Mapping[type[Any], Handler] = {
    m.SpawnInstance: Handler(_spawn, builds=True),
    m.DestroyInstance: Handler(_destroy),
    m.RebuildInstance: Handler(_rebuild, "rebuild"),
    # what is taken over is all that is left of a guest: nobody destroys it because a newer command came
    m.TakeOverInstance: Handler(_take_over, "evacuate"),
    m.HandBackInstance: Handler(lambda at, it: at.driver.hand_back(it.instance_uuid, it.source_host), "evacuate"),
    # power
    m.PowerOn: Handler(lambda at, it: at.driver.power_on(_guest(it))),
    m.PowerOff: Handler(lambda at, it: at.driver.power_off(it.instance_uuid, it.timeout_seconds)),
    m.RebootInstance: Handler(_reboot),
    m.PauseInstance: Handler(_pause, "pause"),
    m.UnpauseInstance: Handler(lambda at, it: at.driver.unpause(it.instance_uuid), "pause"),
    m.SuspendInstance: Handler(_suspend, "suspend"),
    m.ResumeInstance: Handler(lambda at, it: at.driver.resume(_guest(it)), "suspend"),
    m.RescueInstance: Handler(lambda at, it: at.driver.rescue(_guest(it), it.password, at.progress), "rescue"),
    m.UnrescueInstance: Handler(lambda at, it: at.driver.unrescue(_guest(it), is_running=it.is_running), "rescue"),
    m.SetAdminPassword: Handler(
        lambda at, it: at.driver.set_admin_password(it.instance_uuid, it.password), "set_password"
    ),
    m.TriggerCrashDump: Handler(lambda at, it: at.driver.trigger_crash_dump(it.instance_uuid), "crash_dump"),
    # what hangs on it
    m.SnapshotInstance: Handler(_snapshot, "snapshot"),
    m.AttachVolume: Handler(
        lambda at, it: at.driver.attach_volume(it.instance_uuid, VolumeConnection.from_json(it.volume)), "attach_volume"
    ),
    m.DetachVolume: Handler(lambda at, it: at.driver.detach_volume(it.instance_uuid, it.volume_uuid), "attach_volume"),
    m.SwapVolume: Handler(_swap, "swap_volume"),
    m.AttachInterface: Handler(
        lambda at, it: at.driver.attach_interface(it.instance_uuid, NetworkPort.from_json(it.port)), "attach_interface"
    ),
    m.DetachInterface: Handler(
        lambda at, it: at.driver.detach_interface(it.instance_uuid, it.port_uuid), "attach_interface"
    ),
    # moving with the guest off
    m.MigrateOut: Handler(lambda at, it: at.driver.migrate_out(_guest(it), it.destination, at.progress), "migrate"),
    m.MigrateIn: Handler(_migrate_in, "migrate", builds=True),
    m.ConfirmMigration: Handler(lambda at, it: at.driver.confirm_migration(it.instance_uuid), "migrate"),
    m.RevertMigration: Handler(
        lambda at, it: at.driver.revert_migration(_guest(it), is_running=it.is_running), "migrate"
    ),
    # moving while the guest runs
    m.PrepareLiveMigration: Handler(_prepare, "live_migrate"),
    m.LiveMigrate: Handler(_live_migrate, "live_migrate"),
    m.FinishLiveMigration: Handler(lambda at, it: at.driver.finish_live_migration(_guest(it)), "live_migrate"),
    m.CancelLiveMigration: Handler(lambda at, it: at.driver.cancel_live_migration(it.instance_uuid), "live_migrate"),
    m.AbortLiveMigration: Handler(lambda at, it: at.driver.abort_live_migration(it.instance_uuid), "live_migrate"),
    m.ForceLiveMigration: Handler(lambda at, it: at.driver.force_live_migration(it.instance_uuid), "live_migrate"),
    m.SteerLiveMigration: Handler(_steer, "live_migrate"),
}
