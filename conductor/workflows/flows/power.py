"""Flows for power and other actions on a running guest: start, stop, reboot, pause, suspend, crash dump, password."""

from __future__ import annotations

from conductor.core.states import PowerState, VmState
from conductor.workflows.flow import Flow
from conductor.workflows.steps.instance_state import EndAction, SetState
from conductor.workflows.steps.on_guest import GuestCommandStep

_END = EndAction()

START_INSTANCE = Flow(
    "start_instance",
    version=1,
    steps=(
        GuestCommandStep("PowerOnGuest"),  # one command to the host, the run suspends; revert powers it off again
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)


STOP_INSTANCE = Flow(
    "stop_instance",
    version=1,
    steps=(
        GuestCommandStep(
            "PowerOffGuest"
        ),  # no revert: a guest that is off after all is reported, and off was requested
        SetState(VmState.STOPPED, PowerState.SHUTDOWN),
    ),
    on_failure=_END,
    on_cancel=_END,
)


REBOOT_INSTANCE = Flow(
    "reboot_instance",
    version=1,
    steps=(
        GuestCommandStep("RebootGuest"),  # no revert: the host reports whether the guest is on or off
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)


HARD_REBOOT_INSTANCE = Flow(
    "hard_reboot_instance",
    version=1,
    steps=(
        GuestCommandStep("ResetGuest"),  # no revert: there is no earlier state to return to
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)


PAUSE_INSTANCE = Flow(
    "pause_instance",
    version=1,
    steps=(
        GuestCommandStep("PauseGuest"),  # revert unpauses it
        SetState(VmState.PAUSED, PowerState.PAUSED),
    ),
    on_failure=_END,
    on_cancel=_END,
)


UNPAUSE_INSTANCE = Flow(
    "unpause_instance",
    version=1,
    steps=(
        GuestCommandStep("UnpauseGuest"),  # revert pauses it again
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)


SUSPEND_INSTANCE = Flow(
    "suspend_instance",
    version=1,
    steps=(
        GuestCommandStep("SuspendGuest"),  # revert resumes it
        SetState(VmState.SUSPENDED, PowerState.SHUTDOWN),  # its host has no such guest in memory
    ),
    on_failure=_END,
    on_cancel=_END,
)


RESUME_INSTANCE = Flow(
    "resume_instance",
    version=1,
    steps=(
        GuestCommandStep("ResumeGuest"),  # no revert: a partial resume cannot be reverted, but repeated
        SetState(VmState.ACTIVE, PowerState.RUNNING),
    ),
    on_failure=_END,
    on_cancel=_END,
)


TRIGGER_CRASH_DUMP = Flow(
    "trigger_crash_dump",
    version=1,
    steps=(
        GuestCommandStep("DumpGuest"),  # no revert: a dump cannot be reverted
        SetState(),  # the host reports the guest's next state
    ),
    on_failure=_END,
    on_cancel=_END,
)


CHANGE_PASSWORD = Flow(
    "change_password",
    version=1,
    steps=(
        GuestCommandStep("SetPassword"),  # no revert: the old password is not known
        SetState(),
    ),
    on_failure=_END,
    on_cancel=_END,
)
