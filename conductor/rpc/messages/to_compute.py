"""Commands from a conductor to a compute agent. Every command carries its key and its fencing token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from conductor.rpc.codec import message


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Common fields of all commands.

    `UNKEPT` names fields that a host's journal must not store, as they may hold secrets. An urgent command does not
    wait in the guest's queue, because it is about the running command. A check changes nothing, and waits for no other
    command.
    """

    UNKEPT: ClassVar[frozenset[str]] = frozenset({"guest", "password"})
    IS_URGENT: ClassVar[bool] = False
    IS_CHECK: ClassVar[bool] = False

    step_key: str
    fencing_token: int
    run_uuid: str
    cell: str
    host: str
    instance_uuid: str


# -- create and destroy. `guest` is core.GuestSpec as JSON everywhere.


@message("check_build", version="1.0")
class CheckBuild(Command):
    """Refuse a build that this host cannot do now; nothing is done for it yet. `guest` has no ports and no secrets.

    Its volumes have no path and no size.
    """

    IS_CHECK: ClassVar[bool] = True

    guest: dict[str, Any]


@message("spawn_instance", version="1.5")
class SpawnInstance(Command):
    """Build a guest and start it, unless `is_running` is false."""

    guest: dict[str, Any]
    is_running: bool = True


@message("destroy_instance", version="1.0")
class DestroyInstance(Command):
    """End a guest and remove all that it has on the host."""


@message("rebuild_instance", version="1.4")
class RebuildInstance(Command):
    """Replace the guest's own disks by new ones of `guest.image`. Its ports and volumes stay."""

    guest: dict[str, Any]
    is_running: bool = True


# -- evacuation


@message("take_over_instance", version="1.3")
class TakeOverInstance(Command):
    """Start the guest of a dead host from its disks on shared storage, unless `is_running` is false."""

    guest: dict[str, Any]
    source_host: str
    is_running: bool = True


@message("hand_back_instance", version="1.0")
class HandBackInstance(Command):
    """End a guest that was taken over, and return its disks to the original host."""

    source_host: str


# -- power


@message("power_on", version="1.4")
class PowerOn(Command):
    """Start a guest that is off."""

    guest: dict[str, Any]


@message("power_off", version="1.0")
class PowerOff(Command):
    """Ask the guest to shut down, and end it after `timeout_seconds`. 0 ends it at once."""

    timeout_seconds: float = 60.0


@message("reboot_instance", version="1.4")
class RebootInstance(Command):
    """Reboot a guest. A soft reboot asks the guest; a hard one powers it off and on, defined anew from `guest`."""

    guest: dict[str, Any]
    is_hard: bool = False
    timeout_seconds: float = 60.0


@message("pause_instance", version="1.0")
class PauseInstance(Command):
    """Stop the guest's CPUs. Its memory stays on the host."""


@message("unpause_instance", version="1.0")
class UnpauseInstance(Command):
    """Resume a paused guest."""


@message("suspend_instance", version="1.0")
class SuspendInstance(Command):
    """Write the guest's memory to disk and free it."""


@message("resume_instance", version="1.4")
class ResumeInstance(Command):
    """Read a suspended guest's memory back and resume it."""

    guest: dict[str, Any]


@message("rescue_instance", version="1.4")
class RescueInstance(Command):
    """Start the guest from `guest.image`, with its own root disk as the second."""

    guest: dict[str, Any]
    password: str = ""


@message("unrescue_instance", version="1.4")
class UnrescueInstance(Command):
    """Start the guest from its own root disk again."""

    guest: dict[str, Any]
    is_running: bool = True


@message("set_admin_password", version="1.0")
class SetAdminPassword(Command):
    """Set the password of the guest's administrator from outside."""

    password: str


@message("trigger_crash_dump", version="1.0")
class TriggerCrashDump(Command):
    """Inject a non-maskable interrupt."""


# -- volumes, ports and snapshots


@message("snapshot_instance", version="1.0")
class SnapshotInstance(Command):
    """Copy the guest's root disk into the image `image_id`, which waits for its data."""

    image_id: str


@message("attach_volume", version="1.1")
class AttachVolume(Command):
    """Give the guest a volume; `volume` is core.VolumeConnection as JSON."""

    volume: dict[str, Any]


@message("detach_volume", version="1.0")
class DetachVolume(Command):
    """Detach a volume from the guest."""

    volume_uuid: str


@message("swap_volume", version="1.1")
class SwapVolume(Command):
    """Copy a volume of the guest into another one, which takes its place; `volume` is core.VolumeConnection as JSON."""

    old_volume_uuid: str
    volume: dict[str, Any]


@message("attach_interface", version="1.2")
class AttachInterface(Command):
    """Give the guest a port; `port` is core.NetworkPort as JSON."""

    port: dict[str, Any]


@message("detach_interface", version="1.0")
class DetachInterface(Command):
    """Detach a port from the guest."""

    port_uuid: str


# -- cold migration: out at the source, in at the destination, then confirm or revert at the source


@message("migrate_out", version="1.4")
class MigrateOut(Command):
    """Power the guest off and prepare its disks for transfer. The source keeps them until the confirm or revert."""

    guest: dict[str, Any]
    destination: str


@message("migrate_in", version="1.4")
class MigrateIn(Command):
    """Build the guest from the disks that `migrate_out` returned."""

    guest: dict[str, Any]
    disks: dict[str, Any]
    is_running: bool = True


@message("confirm_migration", version="1.0")
class ConfirmMigration(Command):
    """Remove what the source kept for a revert. Sent to the source."""


@message("revert_migration", version="1.4")
class RevertMigration(Command):
    """Restore the guest at the source. A guest that was never migrated out is not changed."""

    guest: dict[str, Any]
    is_running: bool = True


# -- live migration


@message("prepare_live_migration", version="1.4")
class PrepareLiveMigration(Command):
    """Make room at the destination. The answer has `target`: where to send the guest."""

    guest: dict[str, Any]
    is_block_migration: bool | None = None


@message("live_migrate", version="1.4")
class LiveMigrate(Command):
    """Move the guest. Sent to the source, which answers once the guest runs at the destination, or is back as it
    was.
    """

    guest: dict[str, Any]
    target: dict[str, Any]
    is_block_migration: bool | None = None


@message("finish_live_migration", version="1.4")
class FinishLiveMigration(Command):
    """Make the arrived guest permanent. Sent to the destination."""

    guest: dict[str, Any]


@message("cancel_live_migration", version="1.0")
class CancelLiveMigration(Command):
    """Remove what was prepared. Sent to the destination. It never ends a guest that has arrived."""


@message("abort_live_migration", version="1.0")
class AbortLiveMigration(Command):
    """Stop a running `live_migrate` before the switch. Sent to the source."""

    IS_URGENT: ClassVar[bool] = True


@message("force_live_migration", version="1.0")
class ForceLiveMigration(Command):
    """Make a running `live_migrate` switch now. Sent to the source."""

    IS_URGENT: ClassVar[bool] = True


@message("steer_live_migration", version="1.0")
class SteerLiveMigration(Command):
    """Change a running `live_migrate` by a command of `kind`, see core.live_steering. Sent to the source."""

    IS_URGENT: ClassVar[bool] = True

    kind: str
    amount: int = 0


# for the host itself: no run waits for an answer, and the host's reports show the result


@message("keys_announced", version="1.0")
class KeysAnnounced:
    """Announces the valid keys: `conductor_keys` are public keys by id, `accepted` the ids of the host's own keys.

    The host replaces those of its own keys that are listed in `replace`.
    """

    host: str
    conductor_keys: dict[str, str]
    accepted: list[str]
    replace: list[str]


def names() -> list[str]:
    """Return the names of messages to hosts."""
    sent = (value for value in globals().values() if isinstance(value, type) and value.__module__ == __name__)
    return sorted(str(cls.MESSAGE_NAME) for cls in sent if hasattr(cls, "MESSAGE_NAME"))
