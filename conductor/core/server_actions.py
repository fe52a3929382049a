"""Table of actions on servers: when each is allowed, its task state, and the workflow that carries it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conductor.core.states import TaskState as T
from conductor.core.states import VmState as V

ANY: frozenset[V] = frozenset(V) - {V.DELETED}
BOOTED = frozenset({V.ACTIVE, V.STOPPED, V.PAUSED, V.SUSPENDED})
ATTACHABLE = frozenset({V.ACTIVE, V.PAUSED, V.STOPPED, V.RESIZED, V.SOFT_DELETED, V.SHELVED, V.SHELVED_OFFLOADED})


@dataclass(frozen=True, kw_only=True)
class ServerAction:
    """One row of the table.

    Attributes:
        name: The Compute API's name of the instance action.
        task_state: The state that the server shows once the request is accepted; None for an action that shows none.
        interrupts: Task states that do not refuse the action.
        capability: The driver capability that the action needs.
        volume_flow: The flow for a server whose root disk is a volume, if that is another one.
        lines_up: The action may wait for others of its kind, as clients attach several devices to a server at once.
            Such an action uses only the device that it names.
    """

    name: str
    flow: str
    vm_states: frozenset[V]
    task_state: T | None
    interrupts: frozenset[T] = frozenset()
    respects_lock: bool = True
    must_have_launched: bool = True
    needs_host: bool = True
    needs_live_host: bool = False
    capability: str = ""
    volume_flow: str = ""
    lines_up: bool = False


# A hard reboot is for guests that hang in one of these states.
_HARD_REBOOT_INTERRUPTS = frozenset(
    {
        T.REBOOTING,
        T.REBOOT_PENDING,
        T.REBOOT_STARTED,
        T.REBOOTING_HARD,
        T.RESUMING,
        T.UNPAUSING,
        T.PAUSING,
        T.SUSPENDING,
    }
)


def _action(name: str, flow: str, vm_states: Iterable[V], task_state: T | None, **rules: object) -> ServerAction:
    return ServerAction(
        name=name,
        flow=flow,
        vm_states=frozenset(vm_states),
        task_state=task_state,
        **rules,  # type: ignore[arg-type]
    )


_ALL: tuple[ServerAction, ...] = (
    _action("start", "start_instance", {V.STOPPED}, T.POWERING_ON),
    _action("stop", "stop_instance", {V.ACTIVE, V.ERROR}, T.POWERING_OFF),
    _action("reboot", "reboot_instance", {V.ACTIVE}, T.REBOOTING),
    _action(
        "reboot_hard",
        "hard_reboot_instance",
        BOOTED | {V.ERROR},
        T.REBOOTING_HARD,
        interrupts=_HARD_REBOOT_INTERRUPTS,
    ),
    _action("pause", "pause_instance", {V.ACTIVE}, T.PAUSING, capability="pause"),
    _action("unpause", "unpause_instance", {V.PAUSED}, T.UNPAUSING, capability="pause"),
    _action("suspend", "suspend_instance", {V.ACTIVE}, T.SUSPENDING, capability="suspend"),
    _action("resume", "resume_instance", {V.SUSPENDED}, T.RESUMING, capability="suspend"),
    _action("rescue", "rescue_instance", {V.ACTIVE, V.STOPPED, V.ERROR}, T.RESCUING, capability="rescue"),
    _action("unrescue", "unrescue_instance", {V.RESCUED}, T.UNRESCUING, capability="rescue"),
    _action(
        "rebuild",
        "rebuild_instance",
        {V.ACTIVE, V.STOPPED, V.ERROR},
        T.REBUILDING,
        capability="rebuild",
        volume_flow="rebuild_root_volume",
    ),
    _action("changePassword", "change_password", {V.ACTIVE}, T.UPDATING_PASSWORD, capability="set_password"),
    _action(
        "createImage",
        "create_image",
        BOOTED,
        T.IMAGE_SNAPSHOT_PENDING,
        respects_lock=False,
        capability="snapshot",
        volume_flow="create_image_of_volumes",
    ),
    _action("createBackup", "create_backup", BOOTED, T.IMAGE_BACKUP, respects_lock=False, capability="snapshot"),
    _action(
        "shelve", "shelve_instance", BOOTED, T.SHELVING, capability="snapshot", volume_flow="shelve_with_root_volume"
    ),
    _action("shelveOffload", "offload_instance", {V.SHELVED}, T.SHELVING_OFFLOADING),
    _action("unshelve", "unshelve_instance", {V.SHELVED, V.SHELVED_OFFLOADED}, T.UNSHELVING, needs_host=False),
    _action(
        "attach_volume",
        "attach_volume",
        ATTACHABLE,
        None,
        needs_host=False,
        capability="attach_volume",
        lines_up=True,
    ),
    _action(
        "detach_volume",
        "detach_volume",
        ATTACHABLE,
        None,
        needs_host=False,
        capability="attach_volume",
        lines_up=True,
    ),
    _action(
        "swap_volume",
        "swap_volume",
        {V.ACTIVE, V.PAUSED, V.RESIZED},
        None,
        needs_live_host=True,
        capability="swap_volume",
    ),
    _action(
        "attach_interface",
        "attach_interface",
        {V.ACTIVE, V.PAUSED, V.STOPPED},
        None,
        capability="attach_interface",
        lines_up=True,
    ),
    _action(
        "detach_interface",
        "detach_interface",
        {V.ACTIVE, V.PAUSED, V.STOPPED},
        None,
        capability="attach_interface",
        lines_up=True,
    ),
    _action(
        "resize", "resize_instance", {V.ACTIVE, V.STOPPED}, T.RESIZE_PREP, needs_live_host=True, capability="migrate"
    ),
    _action(
        "migrate", "resize_instance", {V.ACTIVE, V.STOPPED}, T.RESIZE_PREP, needs_live_host=True, capability="migrate"
    ),
    _action("confirmResize", "confirm_resize", {V.RESIZED}, T.RESIZE_CONFIRMING, needs_live_host=True),
    _action("revertResize", "revert_resize", {V.RESIZED}, T.RESIZE_REVERTING),
    _action(
        "live-migration",
        "live_migrate_instance",
        {V.ACTIVE, V.PAUSED},
        T.MIGRATING,
        needs_live_host=True,
        capability="live_migrate",
    ),
    _action(
        "evacuate",
        "evacuate_instance",
        {V.ACTIVE, V.STOPPED, V.ERROR},
        T.REBUILDING,
        interrupts=frozenset(T) - {T.DELETING, T.SOFT_DELETING},
        respects_lock=False,
    ),
    _action(
        "delete",
        "delete_instance",
        ANY,
        T.DELETING,
        interrupts=frozenset(T),
        must_have_launched=False,
        needs_host=False,
    ),
    _action("soft_delete", "soft_delete_instance", ANY, T.SOFT_DELETING, interrupts=frozenset(T), needs_host=False),
    _action("restore", "restore_instance", {V.SOFT_DELETED}, T.RESTORING),
    _action(
        "trigger_crash_dump",
        "trigger_crash_dump",
        {V.ACTIVE, V.PAUSED, V.RESCUED, V.RESIZED, V.ERROR},
        None,
        capability="crash_dump",
    ),
)

ACTIONS: Mapping[str, ServerAction] = {action.name: action for action in _ALL}
