"""Steps on an existing guest. They differ only in the command that they send to its host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from conductor.cell_db.models import Instance
from conductor.core.compute_driver import GuestFile
from conductor.core.request_spec import ImageSpec
from conductor.core.states import TaskState, VmState
from conductor.rpc import messages
from conductor.workflows.flow import RemoteStep, StepContext
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.on_host import addressed, fresh_guest_of, guest_of, rescued_volumes

Address = Mapping[str, Any]  # the fields of every command
Build = Callable[[StepContext, Instance, Address], Any]


# Ends of a run after which no undo is sent to the guest; see GuestCommandStep.
LEFT_ALONE = ("HostUnresponsive", "Cancelled", "GuestMissing")


@dataclass(frozen=True, kw_only=True)
class GuestCommand:
    """A command to a guest. `undo` is sent if the host itself reported a failure; see `GuestCommandStep`.

    `summary` and `compensation` are the step's texts in docs/reference/workflows.md.
    """

    title: str
    summary: str
    compensation: str
    event: str
    command: Build
    undo: Build | None = None
    task_state: TaskState | None = None  # shown during the step, if it differs from the accepted action's


class GuestCommandStep(RemoteStep):
    """Sends a command to the instance's host, and suspends until it answers.

    Only a failure that the host reported is undone there. An unresponsive host may have lost its guest to another host
    by the time it is up again, and after a cancellation the user decides about the guest. In both cases no undo is
    sent, and the next report gives the guest's state. A host without such a guest has nothing to undo.
    """

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]  # one class, a name for each command
        self.verb = VERBS[name]
        self.title = self.verb.title  # type: ignore[misc]
        self.event = self.verb.event  # type: ignore[misc]

    @property
    def has_revert(self) -> bool:
        return self.verb.undo is not None

    def on_start(self, work: StepContext) -> None:
        if self.verb.task_state is not None:
            instance_rows.update(work, task_state=self.verb.task_state)

    def command(self, work: StepContext) -> Any:
        return self._send(work, self.verb.command)

    def revert_command(self, work: StepContext) -> Any:
        error = work.run.error or {}
        if self.verb.undo is None or error.get("class") in LEFT_ALONE:
            return None
        return self._send(work, self.verb.undo)

    def _send(self, work: StepContext, build: Build) -> Any:
        instance = instance_rows.read(work)
        return build(work, instance, addressed(work, instance.host)) if instance.host else None


def _power_on(work: StepContext, instance: Instance, to: Address) -> Any:
    return messages.PowerOn(**to, guest=guest_of(work, instance))


def _power_off(work: StepContext, instance: Instance, to: Address) -> Any:
    seconds = work.inputs.get("timeout_seconds", settings.NOVELLA_SHUTDOWN_SECONDS)
    return messages.PowerOff(**to, timeout_seconds=float(seconds))


def _power_off_at_once(work: StepContext, instance: Instance, to: Address) -> Any:
    return messages.PowerOff(**to, timeout_seconds=0.0)


def _reboot(*, is_hard: bool) -> Build:
    def build(work: StepContext, instance: Instance, to: Address) -> Any:
        seconds = 0.0 if is_hard else float(settings.NOVELLA_SHUTDOWN_SECONDS)
        return messages.RebootInstance(**to, guest=guest_of(work, instance), is_hard=is_hard, timeout_seconds=seconds)

    return build


def _resume(work: StepContext, instance: Instance, to: Address) -> Any:
    return messages.ResumeInstance(**to, guest=guest_of(work, instance))


def _set_password(work: StepContext, instance: Instance, to: Address) -> Any:
    return messages.SetAdminPassword(**to, password=work.secrets["admin_password"])


def _rescue(work: StepContext, instance: Instance, to: Address) -> Any:
    image = ImageSpec(**work.inputs["image"])
    guest = fresh_guest_of(work, instance, image=image, volumes=rescued_volumes(work, instance))
    return messages.RescueInstance(**to, guest=guest, password=work.secrets.get("admin_password", ""))


def _unrescue(work: StepContext, instance: Instance, to: Address) -> Any:
    """Start the guest as it was before the rescue. A guest that was off stays off."""
    is_running = instance.vm_state != VmState.STOPPED
    return messages.UnrescueInstance(**to, guest=guest_of(work, instance), is_running=is_running)


def _power_on_as_it_was(work: StepContext, instance: Instance, to: Address) -> Any:
    return None if instance.vm_state == VmState.STOPPED else _power_on(work, instance, to)


def _rebuild(work: StepContext, instance: Instance, to: Address) -> Any:
    values = work.inputs["values"]
    changes: dict[str, Any] = {name: values[name] for name in ("name", "hostname", "metadata") if name in values}
    if "public_key" in values:
        changes["public_key"] = values["public_key"]
    if "user_data" in work.secrets:
        changes["user_data"] = work.secrets["user_data"] or ""
    if "injected_files" in work.secrets:
        changes["files"] = tuple(GuestFile(**file) for file in work.secrets["injected_files"])
    guest = fresh_guest_of(
        work,
        instance,
        image=ImageSpec(**values["image"]),
        admin_password=work.secrets.get("admin_password", ""),
        **changes,
    )
    return messages.RebuildInstance(**to, guest=guest, is_running=instance.vm_state != VmState.STOPPED)


def _bare(kind: Callable[..., Any]) -> Build:
    """Return a builder for a command without arguments."""
    return lambda work, instance, to: kind(**to)


VERBS: Mapping[str, GuestCommand] = {
    "PowerOnGuest": GuestCommand(
        title="Power on",
        summary="Starts the guest.",
        compensation="Power it off at once, if the host itself reported the failure.",
        event="compute_start_instance",
        command=_power_on,
        undo=_power_off_at_once,
    ),
    "PowerOffGuest": GuestCommand(
        title="Power off",
        summary="Asks the guest to shut down, and forces it off after `NOVELLA_SHUTDOWN_SECONDS`.",
        compensation="None: a guest that is off after all is reported, and off was requested.",
        event="compute_stop_instance",
        command=_power_off,
    ),
    "EndGuest": GuestCommand(
        title="Power off at once",
        summary="Powers the guest off at once.",
        compensation="Start a guest that was running.",
        event="compute_power_off",
        command=_power_off_at_once,
        undo=_power_on_as_it_was,
    ),
    "RebootGuest": GuestCommand(
        title="Reboot",
        summary="Asks the guest to reboot, and resets it after `NOVELLA_SHUTDOWN_SECONDS`.",
        compensation="None: the host reports the guest's state.",
        event="compute_reboot_instance",
        command=_reboot(is_hard=False),
        task_state=TaskState.REBOOT_STARTED,
    ),
    "ResetGuest": GuestCommand(
        title="Reboot the hard way",
        summary="Ends the guest, defines it again and starts it.",
        compensation="None: there is no earlier state to return to.",
        event="compute_reboot_instance",
        command=_reboot(is_hard=True),
        task_state=TaskState.REBOOT_STARTED_HARD,
    ),
    "PauseGuest": GuestCommand(
        title="Pause",
        summary="Stops the guest's CPUs and keeps its memory.",
        compensation="Unpause it.",
        event="compute_pause_instance",
        command=_bare(messages.PauseInstance),
        undo=_bare(messages.UnpauseInstance),
    ),
    "UnpauseGuest": GuestCommand(
        title="Unpause",
        summary="Continues the guest.",
        compensation="Pause it.",
        event="compute_unpause_instance",
        command=_bare(messages.UnpauseInstance),
        undo=_bare(messages.PauseInstance),
    ),
    "SuspendGuest": GuestCommand(
        title="Suspend",
        summary="Saves the guest's memory to the host's disk.",
        compensation="Resume it.",
        event="compute_suspend_instance",
        command=_bare(messages.SuspendInstance),
        undo=_resume,
    ),
    "ResumeGuest": GuestCommand(
        title="Resume",
        summary="Continues the guest from its saved memory.",
        compensation="None: resume it again.",
        event="compute_resume_instance",
        command=_resume,
    ),
    "SetPassword": GuestCommand(
        title="Set password",
        summary="Sets the password in the guest.",
        compensation="None: the old password is not known.",
        event="compute_set_admin_password",
        command=_set_password,
    ),
    "RescueGuest": GuestCommand(
        title="Start from the rescue image",
        summary="Starts the guest from the rescue image, with its own root disk as the second disk.",
        compensation="Start it from its own disk, or leave it off as before.",
        event="compute_rescue_instance",
        command=_rescue,
        undo=_unrescue,
    ),
    "UnrescueGuest": GuestCommand(
        title="Start from its own disk",
        summary="Starts the guest from its own disk, and removes the rescue disk.",
        compensation="None: unrescue it again.",
        event="compute_unrescue_instance",
        command=_unrescue,
    ),
    "RebuildGuest": GuestCommand(
        title="Replace the disks",
        summary="Replaces the guest's own disks; builds a guest that the host has lost.",
        compensation="None: the old disks are gone, so a failure sets the server to error.",
        event="compute_rebuild_instance",
        command=_rebuild,
        task_state=TaskState.REBUILD_SPAWNING,
    ),
    "DumpGuest": GuestCommand(
        title="Have it dump its memory",
        summary="Interrupts the guest, so that its kernel dumps its memory.",
        compensation="None: a dump cannot be taken back.",
        event="compute_trigger_crash_dump",
        command=_bare(messages.TriggerCrashDump),
    ),
}
