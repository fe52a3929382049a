"""Event types of notifications: a table from a run's action to the names that operators' tools know."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.states import RunState

TEST = "subscription.test"  # sent on request to test a subscription

# Instance action of a run → object and action of its notifications.
BY_ACTION: Mapping[str, str] = {
    "create": "instance.create",
    "delete": "instance.delete",
    "soft_delete": "instance.soft_delete",
    "restore": "instance.restore",
    "start": "instance.power_on",
    "stop": "instance.power_off",
    "reboot": "instance.reboot",
    "reboot_hard": "instance.reboot",
    "pause": "instance.pause",
    "unpause": "instance.unpause",
    "suspend": "instance.suspend",
    "resume": "instance.resume",
    "rescue": "instance.rescue",
    "unrescue": "instance.unrescue",
    "rebuild": "instance.rebuild",
    "changePassword": "instance.change_password",
    "createImage": "instance.snapshot",
    "createBackup": "instance.backup",
    "shelve": "instance.shelve",
    "shelveOffload": "instance.shelve_offload",
    "unshelve": "instance.unshelve",
    "attach_volume": "instance.volume_attach",
    "detach_volume": "instance.volume_detach",
    "swap_volume": "instance.volume_swap",
    "attach_interface": "instance.interface_attach",
    "detach_interface": "instance.interface_detach",
    "resize": "instance.resize",
    "migrate": "instance.migrate",
    "confirmResize": "instance.resize_confirm",
    "revertResize": "instance.resize_revert",
    "live-migration": "instance.live_migration",
    "evacuate": "instance.evacuate",
    "trigger_crash_dump": "instance.trigger_crash_dump",
}
# Runs that hand over to other runs notify only of failures, as the runs in the cells notify of the rest.
ONLY_FAILURES: Mapping[str, str] = {"build_instances": "compute_task.build_instances"}

STARTED, ENDED, INTERVENED = "run.started", "run.ended", "run.intervention"
# Events without a workflow: the kind of the event is its notification's type.
SENT_ALONE = ("budget.crossed", "snapshot_schedule.error")
KINDS = (STARTED, ENDED, INTERVENED, *SENT_ALONE)
INTERVENTION = "workflow.intervention"
PHASES = ("start", "end", "error")


def event_type_of(flow: str, action: str, kind: str, state: str) -> str | None:
    """Return the event type of the notification for a run's event. None if it has none.

    `state` is the final state of the run.
    """
    if kind == INTERVENED:
        return INTERVENTION
    is_failure = kind == ENDED and state != RunState.DONE
    if flow in ONLY_FAILURES:
        return f"{ONLY_FAILURES[flow]}.error" if is_failure else None
    name = BY_ACTION.get(action)
    if name is None:
        return None
    if kind == STARTED:
        return f"{name}.start"
    return f"{name}.error" if is_failure else f"{name}.end"


def every_event_type() -> list[str]:
    """Return all event types that can be sent, sorted."""
    names = {f"{name}.{phase}" for name in BY_ACTION.values() for phase in PHASES}
    return sorted(names | {f"{name}.error" for name in ONLY_FAILURES.values()} | {INTERVENTION, *SENT_ALONE})
