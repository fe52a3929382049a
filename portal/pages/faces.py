"""How states look: each has a tone (one of six hues), a glyph, and a word. The word carries the meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from conductor.core.errors import is_cancel
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES, RunState, StepState, WaitCause
from conductor.services.values import InstanceView, RunView, StepView

TONES = ("working", "good", "waiting", "bad", "undo", "none")


@dataclass(frozen=True)
class Face:
    """`tone` picks hue and glyph; `is_loud` marks what may have leaked."""

    tone: str
    word: str
    detail: str = ""
    is_loud: bool = False


RUN_TONES: Mapping[str, str] = {
    RunState.QUEUED: "waiting",
    RunState.RUNNING: "working",
    RunState.WAITING: "waiting",
    RunState.UNDOING: "undo",
    RunState.DONE: "good",
    RunState.FAILED_UNDONE: "bad",
    RunState.FAILED_NOT_CLEAN: "bad",
    RunState.CANCELLED: "none",
    RunState.NEEDS_OPERATOR: "bad",
}
STEP_TONES: Mapping[str, str] = {
    StepState.PLANNED: "none",
    StepState.NOT_RUN: "none",
    StepState.RUNNING: "working",
    StepState.WAITING: "working",  # sent to a host, which is at work
    StepState.RETRYING: "working",
    StepState.DONE: "good",
    StepState.SKIPPED: "none",
    StepState.FAILED: "bad",
    StepState.UNDOING: "undo",
    StepState.UNDONE: "undo",
    StepState.UNDO_FAILED: "bad",
    StepState.CANCELLED: "none",
    StepState.FORCED: "waiting",
}
LOUD = frozenset({RunState.FAILED_NOT_CLEAN, RunState.NEEDS_OPERATOR})
LIVE = LIVE_RUN_STATES
BROKEN = FINAL_RUN_STATES - {RunState.DONE}

STATUS_FACES: Mapping[str, Face] = {
    "ACTIVE": Face("good", "active"),
    "BUILD": Face("working", "building"),
    "ERROR": Face("bad", "error"),
    "SHUTOFF": Face("none", "stopped"),
    "PAUSED": Face("waiting", "paused"),
    "SUSPENDED": Face("waiting", "suspended"),
    "RESCUE": Face("waiting", "in rescue"),
    "VERIFY_RESIZE": Face("waiting", "resized, to confirm"),
    "SHELVED": Face("none", "shelved"),
    "SHELVED_OFFLOADED": Face("none", "shelved, offloaded"),
    "SOFT_DELETED": Face("none", "deleted, recoverable"),
    "DELETED": Face("none", "deleted"),
    "UNKNOWN": Face("none", "unknown"),
}

# While something is under way these stand for the state; no list is narrowed by them.
TASK_FACES: Mapping[str, Face] = {
    "REBOOT": Face("working", "rebooting"),
    "HARD_REBOOT": Face("working", "rebooting"),
    "PASSWORD": Face("working", "changing its password"),
    "REBUILD": Face("working", "rebuilding"),
    "RESIZE": Face("working", "resizing"),
    "REVERT_RESIZE": Face("undo", "going back"),
    "MIGRATING": Face("working", "moving"),
}


def of_server(server: InstanceView) -> Face:
    """The state of a server: what is under way wins over what was."""
    if server.task_state == "deleting":
        return Face("undo", "deleting")
    return STATUS_FACES.get(server.status) or TASK_FACES.get(server.status) or STATUS_FACES["UNKNOWN"]


def of_run(run: RunView) -> Face:
    """The state of a run by itself, with where it is at work or what it waits for."""
    waits_for = run.waits_for or {}
    cause = waits_for.get("cause", "")
    detail = LONG_ID.sub(r"\1", str(waits_for.get("detail", "")))
    if run.state in (RunState.RUNNING, RunState.UNDOING) and cause == WaitCause.HOST:
        where = gettext("on %(host)s") % {"host": detail} if detail else ""
        return Face(RUN_TONES[run.state], str(run.state), where)
    if run.state in (RunState.WAITING, RunState.QUEUED) and cause:
        what = gettext(WAIT_WORDS.get(cause, cause)) + (f": {detail}" if detail else "")
        return Face("waiting", str(run.state), gettext("for %(what)s") % {"what": what})
    return Face(RUN_TONES.get(run.state, "none"), str(run.state), is_loud=run.state in LOUD)


LONG_ID = re.compile(r"\b([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
WAIT_WORDS: Mapping[str, str] = {
    WaitCause.LOCK: "a lock",
    WaitCause.TIMER: "a timer",
    WaitCause.CHILDREN: "its children",
    WaitCause.CELL: "a cell that is down",
}


def of_story(run: RunView) -> Face:
    """The state of a run with those that it handed work to: the worst end, or whatever still goes on."""
    everything = [run, *run.children]
    if run.state == RunState.DONE and run.missing_cells and run.flow == "build_instances" and not run.children:
        return Face("none", "unknown", "its cell does not answer")
    if run.state != RunState.DONE or not run.children:
        return of_run(run)
    for wanted in (LOUD, LIVE, BROKEN):
        found = [one for one in everything if one.state in wanted]
        if found:
            face = of_run(found[0])
            counts = {"some": len(found), "all": len(run.children)}
            among = gettext("%(some)s of %(all)s") % counts if wanted != LIVE and len(run.children) > 1 else ""
            return Face(face.tone, face.word, among or face.detail, face.is_loud)
    return of_run(run)


def of_step(step: StepView) -> Face:
    """The state of one attempt of a step."""
    if step.direction == "undo" and step.state in (StepState.RUNNING, StepState.WAITING):
        return Face("undo", "undoing")
    if step.state == StepState.FAILED and is_cancel(step.error):  # as somebody asked
        return Face("none", "aborted")
    if step.state == StepState.WAITING:
        return Face("working", "running", gettext("on %(host)s") % {"host": step.host} if step.host else "")
    return Face(STEP_TONES.get(step.state, "none"), str(step.state), is_loud=step.state == StepState.UNDO_FAILED)


def is_live(run: RunView) -> bool:
    """Whether anything of a run or its children still goes on."""
    return any(one.state in LIVE_RUN_STATES for one in (run, *run.children))


FLOW_WORDS: Mapping[str, str] = {
    "build_instances": "Create",
    "build_in_cell": "Create",
    "build_from_volumes": "Create with volumes",
    "try_again": "Create again",
    "delete_instance": "Delete",
    "delete_when_cell_is_back": "Delete",
    "soft_delete_instance": "Delete",
    "start_instance": "Start",
    "stop_instance": "Stop",
    "reboot_instance": "Reboot",
    "hard_reboot_instance": "Hard reboot",
    "change_password": "Change password",
    "trigger_crash_dump": "Crash dump",
    "reap": "Clean up",
    "drain_host": "Empty host",
    "try_host": "Try host",
    "abort_live_migration": "Abort live migration of",
    "force_live_migration": "Finish live migration of",
    "live_migration_downtime": "Allow a longer pause of",
    "live_migration_throttle": "Throttle",
    "live_migration_post_copy": "Post-copy switch of",
    "backup_volume": "Back up to",
    "restore_backup": "Restore",
    "create_volume": "Create volume",
    "create_snapshot": "Create snapshot",
    "upload_volume": "Make image of volume",
    "revert_volume": "Revert volume",
    "reimage_volume": "Refill volume",
    # by action, where a flow does several things
    "attach_interface": "Attach interface to",
    "detach_interface": "Detach interface from",
    "attach_volume": "Attach volume to",
    "detach_volume": "Detach volume from",
    "swap_volume": "Swap volume of",
    "createBackup": "Rotate backups of",
    "createImage": "Make image of",
    "confirmResize": "Confirm resize of",
    "revertResize": "Revert resize of",
    "migrate": "Migrate",
    "shelve": "Shelve",
    "shelveOffload": "Offload",
    "unshelve": "Unshelve",
    "unrescue": "Leave rescue",
    "addSecurityGroup": "Add security group to",
    "removeSecurityGroup": "Remove security group from",
    "addFixedIp": "Add address to",
    "removeFixedIp": "Remove address from",
    "injectNetworkInfo": "Read addresses of",
    "resetState": "Reset state of",
}


def intent(run: RunView) -> str:
    """What was asked, as a verb."""
    plain = run.action.replace("_", " ").replace("-", " ").capitalize()
    return FLOW_WORDS.get(run.flow) or FLOW_WORDS.get(run.action) or plain


def subject(run: RunView) -> str:
    """What it was asked of."""
    if run.instance_name:
        return run.instance_name
    names = [child.instance_name for child in run.children if child.instance_name]
    if len(names) == 1:
        return names[0]
    if names:
        return gettext("%(count)s servers") % {"count": len(names)}
    return run.instance_uuid[:8] or "server"


def first_cause(run: RunView) -> dict[str, Any] | None:
    """The error that began it all, in the run or in the first child that failed."""
    for one in (run, *run.children):
        if one.error:
            return {**one.error, "run": one}
    return None
