"""Maps each command to the driver method that carries it out, in one table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conductor.compute.driver_validation import thread_exits_as_errors, validate_result
from conductor.compute.failures import THREAD_EXITS
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
class CommandContext:
    """Resources of a handler; `progress` belongs to the one command."""

    driver: ComputeDriver
    store_image: StoreImage
    progress: Progress


HandlerFunction = Callable[[CommandContext, Any], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Handler:
    """The way in which one command is carried out.

    Attributes:
        function: Calls the driver and returns the result for the answer.
        capability: The driver's capability that it requires, "" for none.
        builds: The result of the command is destroyed when the command has become stale meanwhile.
    """

    function: HandlerFunction
    capability: str = ""
    builds: bool = False


def carry_out(context: CommandContext, command: Any) -> dict[str, Any]:
    """Carry out a command and return the result for its answer. Raises NotSupported, and what the driver raises."""
    handler = HANDLERS[type(command)]
    if handler.capability and handler.capability not in context.driver.capabilities:
        raise NotSupported(f"The driver of host {context.driver.host} cannot do that: it has no {handler.capability}.")
    with thread_exits_as_errors():
        return validate_result(handler.function(context, command) or {})


def _guest(command: Any) -> GuestSpec:
    return GuestSpec.from_json(command.guest)


def _check_build(context: CommandContext, command: m.CheckBuild) -> None:
    if _listed_state(context, command.instance_uuid) not in (None, PowerState.NOSTATE):
        raise DriverError("This host has a guest of this name already.")
    context.driver.check_build(_guest(command))


def _spawn(context: CommandContext, command: m.SpawnInstance) -> None:
    guest = _guest(command)
    context.driver.spawn(guest, context.progress)
    if not command.is_running:
        context.driver.power_off(guest.instance_uuid, 0.0)


def _rebuild(context: CommandContext, command: m.RebuildInstance) -> None:
    """Rebuild the guest. One that the host has lost is spawned, as a rebuild keeps nothing of the old disks."""
    guest = _guest(command)
    try:
        context.driver.rebuild(guest, context.progress, is_running=command.is_running)
    except GuestMissing:
        log.warning("guest to rebuild is missing, spawning it: instance=%s", guest.instance_uuid)
        context.driver.spawn(guest, context.progress)
        if not command.is_running:
            context.driver.power_off(guest.instance_uuid, 0.0)


def _destroy(context: CommandContext, command: m.DestroyInstance) -> None:
    """Destroy the guest. Raises DriverError when the driver succeeds but still lists it."""
    context.driver.destroy(command.instance_uuid)
    if _is_listed(context, command.instance_uuid):
        raise DriverError("The driver says that it destroyed the guest, and still lists it.")


def _pause(context: CommandContext, command: m.PauseInstance) -> None:
    context.driver.pause(command.instance_uuid)
    _require_not_running(context, command.instance_uuid, "paused")


def _suspend(context: CommandContext, command: m.SuspendInstance) -> None:
    context.driver.suspend(command.instance_uuid)
    _require_not_running(context, command.instance_uuid, "suspended")


def _require_not_running(context: CommandContext, instance_uuid: str, action: str) -> None:
    """Raise DriverError when the driver succeeded but lists the guest as running."""
    if _listed_state(context, instance_uuid) is PowerState.RUNNING:
        raise DriverError(f"The driver says that it {action} the guest, and lists it as running.")


def _take_over(context: CommandContext, command: m.TakeOverInstance) -> None:
    guest = _guest(command)
    context.driver.take_over(guest, command.source_host, context.progress)
    if not command.is_running:
        context.driver.power_off(guest.instance_uuid, 0.0)


def _reboot(context: CommandContext, command: m.RebootInstance) -> None:
    context.driver.reboot(_guest(command), is_hard=command.is_hard, timeout_seconds=command.timeout_seconds)


def _snapshot(context: CommandContext, command: m.SnapshotInstance) -> None:
    context.driver.snapshot(command.instance_uuid, command.image_id, context.store_image, context.progress)


def _swap(context: CommandContext, command: m.SwapVolume) -> None:
    volume = VolumeConnection.from_json(command.volume)
    context.driver.swap_volume(command.instance_uuid, command.old_volume_uuid, volume, context.progress)


def _prepare(context: CommandContext, command: m.PrepareLiveMigration) -> Mapping[str, Any]:
    return context.driver.prepare_live_migration(_guest(command), is_block_migration=command.is_block_migration)


def _live_migrate(context: CommandContext, command: m.LiveMigrate) -> Mapping[str, Any]:
    """Migrate the guest. An error is raised only while the guest is still here, as it makes the destination clean
    up.
    """
    guest = _guest(command)
    try:
        context.driver.live_migrate(
            guest, command.target, context.progress, is_block_migration=command.is_block_migration
        )
    except GuestMissing:
        raise
    except (Exception, *THREAD_EXITS):
        if _is_listed(context, guest.instance_uuid):
            raise
        log.exception("live migration failed after its guest had left: %s", guest.instance_uuid)
        return {HAS_LEFT: True}
    return {}


def _steer(context: CommandContext, command: m.SteerLiveMigration) -> None:
    """Steer a migration. A kind of a newer conductor counts as one that the driver does not support."""
    steering = STEERINGS.get(command.kind)
    if steering is None or steering.capability not in context.driver.capabilities:
        raise NotSupported(f"The driver of host {context.driver.host} cannot do that to a move: {command.kind[:60]}.")
    context.driver.steer_live_migration(command.instance_uuid, command.kind, command.amount)


def _is_listed(context: CommandContext, instance_uuid: str) -> bool:
    """Return whether the driver lists the guest; False where listing fails."""
    return _listed_state(context, instance_uuid) is not None


def _listed_state(context: CommandContext, instance_uuid: str) -> PowerState | None:
    """Return the power state that the driver lists; None where it does not, or where listing fails."""
    try:
        return next(
            (found.power_state for found in context.driver.guests() if found.instance_uuid == instance_uuid), None
        )
    except (Exception, *THREAD_EXITS):
        log.exception("guests cannot be listed")
        return None


def _migrate_in(context: CommandContext, command: m.MigrateIn) -> None:
    context.driver.migrate_in(_guest(command), command.disks, context.progress, is_running=command.is_running)


HANDLERS: Mapping[type[Any], Handler] = {
    m.CheckBuild: Handler(_check_build),
    m.SpawnInstance: Handler(_spawn, builds=True),
    m.DestroyInstance: Handler(_destroy),
    m.RebuildInstance: Handler(_rebuild, "rebuild"),
    # Not `builds`: the disks taken over are all that is left of the guest, so it is never destroyed as stale.
    m.TakeOverInstance: Handler(_take_over, "evacuate"),
    m.HandBackInstance: Handler(lambda ctx, cmd: ctx.driver.hand_back(cmd.instance_uuid, cmd.source_host), "evacuate"),
    # power
    m.PowerOn: Handler(lambda ctx, cmd: ctx.driver.power_on(_guest(cmd))),
    m.PowerOff: Handler(lambda ctx, cmd: ctx.driver.power_off(cmd.instance_uuid, cmd.timeout_seconds)),
    m.RebootInstance: Handler(_reboot),
    m.PauseInstance: Handler(_pause, "pause"),
    m.UnpauseInstance: Handler(lambda ctx, cmd: ctx.driver.unpause(cmd.instance_uuid), "pause"),
    m.SuspendInstance: Handler(_suspend, "suspend"),
    m.ResumeInstance: Handler(lambda ctx, cmd: ctx.driver.resume(_guest(cmd)), "suspend"),
    m.RescueInstance: Handler(lambda ctx, cmd: ctx.driver.rescue(_guest(cmd), cmd.password, ctx.progress), "rescue"),
    m.UnrescueInstance: Handler(lambda ctx, cmd: ctx.driver.unrescue(_guest(cmd), is_running=cmd.is_running), "rescue"),
    m.SetAdminPassword: Handler(
        lambda ctx, cmd: ctx.driver.set_admin_password(cmd.instance_uuid, cmd.password),
        "set_password",
    ),
    m.TriggerCrashDump: Handler(lambda ctx, cmd: ctx.driver.trigger_crash_dump(cmd.instance_uuid), "crash_dump"),
    # snapshots, volumes and ports
    m.SnapshotInstance: Handler(_snapshot, "snapshot"),
    m.AttachVolume: Handler(
        lambda ctx, cmd: ctx.driver.attach_volume(cmd.instance_uuid, VolumeConnection.from_json(cmd.volume)),
        "attach_volume",
    ),
    m.DetachVolume: Handler(
        lambda ctx, cmd: ctx.driver.detach_volume(cmd.instance_uuid, cmd.volume_uuid),
        "attach_volume",
    ),
    m.SwapVolume: Handler(_swap, "swap_volume"),
    m.AttachInterface: Handler(
        lambda ctx, cmd: ctx.driver.attach_interface(cmd.instance_uuid, NetworkPort.from_json(cmd.port)),
        "attach_interface",
    ),
    m.DetachInterface: Handler(
        lambda ctx, cmd: ctx.driver.detach_interface(cmd.instance_uuid, cmd.port_uuid),
        "attach_interface",
    ),
    # cold migration
    m.MigrateOut: Handler(
        lambda ctx, cmd: ctx.driver.migrate_out(_guest(cmd), cmd.destination, ctx.progress),
        "migrate",
    ),
    m.MigrateIn: Handler(_migrate_in, "migrate", builds=True),
    m.ConfirmMigration: Handler(lambda ctx, cmd: ctx.driver.confirm_migration(cmd.instance_uuid), "migrate"),
    m.RevertMigration: Handler(
        lambda ctx, cmd: ctx.driver.revert_migration(_guest(cmd), is_running=cmd.is_running),
        "migrate",
    ),
    # live migration
    m.PrepareLiveMigration: Handler(_prepare, "live_migrate"),
    m.LiveMigrate: Handler(_live_migrate, "live_migrate"),
    m.FinishLiveMigration: Handler(lambda ctx, cmd: ctx.driver.finish_live_migration(_guest(cmd)), "live_migrate"),
    m.CancelLiveMigration: Handler(
        lambda ctx, cmd: ctx.driver.cancel_live_migration(cmd.instance_uuid), "live_migrate"
    ),
    m.AbortLiveMigration: Handler(lambda ctx, cmd: ctx.driver.abort_live_migration(cmd.instance_uuid), "live_migrate"),
    m.ForceLiveMigration: Handler(lambda ctx, cmd: ctx.driver.force_live_migration(cmd.instance_uuid), "live_migrate"),
    m.SteerLiveMigration: Handler(_steer, "live_migrate"),
}
