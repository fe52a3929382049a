"""Badges of states: each has a tone (one of six hues), a glyph, and a word. The word carries the meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, ngettext

from conductor.core.errors import is_cancel
from conductor.core.messages import text_of
from conductor.core.states import FINAL_RUN_STATES, LIVE_RUN_STATES, RunState, StepState, WaitCause
from conductor.services.servers.types import InstanceData
from conductor.services.workflows.types import RunView, StepView
from portal.pages.wording import translated

TONES = ("working", "good", "waiting", "bad", "undo", "none")


@dataclass(frozen=True)
class StatusBadge:
    """A badge. `tone` selects hue and glyph; `is_loud` marks states that may have left uncompensated effects."""

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
    StepState.WAITING: "working",  # sent to a host, which is working
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

STATUS_BADGES: Mapping[str, StatusBadge] = {
    "ACTIVE": StatusBadge("good", "active"),
    "BUILD": StatusBadge("working", "building"),
    "ERROR": StatusBadge("bad", "error"),
    "SHUTOFF": StatusBadge("none", "stopped"),
    "PAUSED": StatusBadge("waiting", "paused"),
    "SUSPENDED": StatusBadge("waiting", "suspended"),
    "RESCUE": StatusBadge("waiting", "rescued"),
    "VERIFY_RESIZE": StatusBadge("waiting", "resized, confirmation required"),
    "SHELVED": StatusBadge("none", "shelved"),
    "SHELVED_OFFLOADED": StatusBadge("none", "shelved, offloaded"),
    "SOFT_DELETED": StatusBadge("none", "deleted, recoverable"),
    "DELETED": StatusBadge("none", "deleted"),
    "UNKNOWN": StatusBadge("none", "unknown"),
}

# Shown instead of the state while a task runs; lists do not filter by them.
TASK_BADGES: Mapping[str, StatusBadge] = {
    "REBOOT": StatusBadge("working", "rebooting"),
    "HARD_REBOOT": StatusBadge("working", "rebooting"),
    "PASSWORD": StatusBadge("working", "changing password"),
    "REBUILD": StatusBadge("working", "rebuilding"),
    "RESIZE": StatusBadge("working", "resizing"),
    "REVERT_RESIZE": StatusBadge("undo", "reverting"),
    "MIGRATING": StatusBadge("working", "migrating"),
}


def of_server(server: InstanceData) -> StatusBadge:
    """Return the badge of a server: that of a running task, else that of its state."""
    if server.task_state == "deleting":
        return StatusBadge("undo", "deleting")
    return STATUS_BADGES.get(server.status) or TASK_BADGES.get(server.status) or STATUS_BADGES["UNKNOWN"]


def of_run(run: RunView) -> StatusBadge:
    """Return the badge of a single run, with its place of work or what it waits for."""
    waits_for = run.waits_for or {}
    cause = waits_for.get("cause", "")
    detail = LONG_ID.sub(r"\1", translated(text_of(waits_for, "detail")))
    if run.state in (RunState.RUNNING, RunState.UNDOING) and cause == WaitCause.HOST:
        where = gettext("on %(host)s") % {"host": detail} if detail else ""
        return StatusBadge(RUN_TONES[run.state], str(run.state), where)
    if run.state in (RunState.WAITING, RunState.QUEUED) and cause:
        what = gettext(WAIT_WORDS.get(cause, cause)) + (f": {detail}" if detail else "")
        return StatusBadge("waiting", str(run.state), gettext("for %(what)s") % {"what": what})
    return StatusBadge(RUN_TONES.get(run.state, "none"), str(run.state), is_loud=run.state in LOUD)


LONG_ID = re.compile(r"\b([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
WAIT_WORDS: Mapping[str, str] = {
    WaitCause.LOCK: "a lock",
    WaitCause.TIMER: "a timer",
    WaitCause.CHILDREN: "its children",
    WaitCause.CELL: "a cell that is down",
    WaitCause.SCHEDULER: "a scheduler",
    WaitCause.FIRST_REPORT: "the first report of a host",
}


def of_presenter(run: RunView) -> StatusBadge:
    """Return the badge of a run and its children: the worst result, or the one still running."""
    everything = [run, *run.children]
    if run.state == RunState.DONE and run.missing_cells and run.flow == "build_instances" and not run.children:
        return StatusBadge("none", "unknown", "its cell doesn't respond")
    if run.state != RunState.DONE or not run.children:
        return of_run(run)
    for wanted in (LOUD, LIVE, BROKEN):
        found = [one for one in everything if one.state in wanted]
        if found:
            badge = of_run(found[0])
            counts = {"some": len(found), "all": len(run.children)}
            among = gettext("%(some)s of %(all)s") % counts if wanted != LIVE and len(run.children) > 1 else ""
            return StatusBadge(badge.tone, badge.word, among or badge.detail, badge.is_loud)
    return of_run(run)


def of_step(step: StepView) -> StatusBadge:
    """Return the badge of one attempt of a step."""
    if step.direction == "undo" and step.state in (StepState.RUNNING, StepState.WAITING):
        return StatusBadge("undo", "undoing")
    if step.state == StepState.FAILED and is_cancel(step.error):  # cancelled on request
        return StatusBadge("none", "aborted")
    if step.state == StepState.WAITING:
        return StatusBadge("working", "running", gettext("on %(host)s") % {"host": step.host} if step.host else "")
    return StatusBadge(STEP_TONES.get(step.state, "none"), str(step.state), is_loud=step.state == StepState.UNDO_FAILED)


def is_live(run: RunView) -> bool:
    """Whether a run or one of its children is still running."""
    return any(one.state in LIVE_RUN_STATES for one in (run, *run.children))


FLOW_WORDS: Mapping[str, str] = {
    "build_instances": "Create",
    "build_in_cell": "Create",
    "build_from_volumes": "Create with volumes",
    "try_again": "Retry build of",
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
    "drain_host": "Drain host",
    "try_host": "Test host",
    "abort_live_migration": "Abort live migration of",
    "force_live_migration": "Finish live migration of",
    "live_migration_downtime": "Increase allowed downtime of",
    "live_migration_throttle": "Throttle",
    "live_migration_post_copy": "Post-copy switch of",
    "backup_volume": "Back up to",
    "restore_backup": "Restore",
    "create_volume": "Create volume",
    "create_snapshot": "Create snapshot",
    "upload_volume": "Create image of volume",
    "revert_volume": "Revert volume",
    "reimage_volume": "Rebuild volume",
    # by action, for flows with several
    "attach_interface": "Attach interface to",
    "detach_interface": "Detach interface from",
    "attach_volume": "Attach volume to",
    "detach_volume": "Detach volume from",
    "swap_volume": "Swap volume of",
    "createBackup": "Rotate backups of",
    "createImage": "Create image of",
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
    "injectNetworkInfo": "Refresh addresses of",
    "resetState": "Reset state of",
}


def intent(run: RunView) -> str:
    """Return the requested action, as a verb."""
    plain = run.action.replace("_", " ").replace("-", " ").capitalize()
    return FLOW_WORDS.get(run.flow) or FLOW_WORDS.get(run.action) or plain


def subject(run: RunView) -> str:
    """Return the resource that it is about."""
    if run.instance_name:
        return run.instance_name
    names = [child.instance_name for child in run.children if child.instance_name]
    if len(names) == 1:
        return names[0]
    if names:
        return ngettext("%(count)s server", "%(count)s servers", len(names)) % {"count": len(names)}
    return run.instance_uuid[:8] or "server"


def first_cause(run: RunView) -> dict[str, Any] | None:
    """Return the first error, in the run or in the first child that failed."""
    for one in (run, *run.children):
        if one.error:
            return {**one.error, "run": one}
    return None
