"""Messages about workflows: why an action is refused, log lines, the progress of a live migration."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.texts.forms import Text

TEXTS: Mapping[str, Text] = {
    # why an action on a workflow is refused
    "workflow.refused": "Cannot %(action)s workflow %(run)s: %(reason)s",
    "workflow.needs_role": "The role %(role)s is required to %(action)s a workflow.",
    "workflow.role": "The role %(role)s is required.",
    "workflow.moved_on": "The workflow has changed since you opened the page. Look again.",
    "workflow.ended": "The workflow has ended: %(state)s.",
    "workflow.not_ended": "The workflow has not ended.",
    "workflow.not_failed": "The workflow has not failed: %(state)s.",
    "workflow.cancel_requested": "A cancel was already requested.",
    "workflow.being_undone": "The workflow is already being rolled back.",
    "workflow.not_cancellable": "The workflow cannot be cancelled: it always runs to its end.",
    "workflow.past_undo": "The workflow can no longer be rolled back.",
    "workflow.unclean": "Cleanup is incomplete: run the undo again first.",
    "workflow.released": "The workflow released its resources when it failed. Start a new one.",
    "workflow.not_waiting": "The workflow is not waiting.",
    "workflow.waits_for_lock": "The workflow waits for a lock. It continues when the holder of the lock ends.",
    "workflow.waits_for_host": "Host %(host)s is working on the step. It finishes, or is declared failed.",
    "workflow.no_other_host_step": "No running step can be moved to another host.",
    "workflow.no_alternate": "No alternate host is left.",
    "workflow.no_open_step": "No step is running or failed.",
    "workflow.not_started": "The workflow has not started: cancel it instead.",
    "workflow.not_owned": "No worker owns the workflow: it is suspended.",
    "workflow.owner_alive": "The owner is alive: its lease has not expired.",
    "workflow.nothing_left": "Nothing is left to clean up.",
    "workflow.no_undo": "No recorded step has an undo that can be run again.",
    "workflow.needs_operator": "The workflow needs an operator: resume it, or force it to complete.",
    "workflow.later_run": "Workflow %(run)s has changed the same server since.",
    "workflow.no_locks": "The workflow's locks are not recorded: an older version started it.",
    "workflow.worker_alive": "A worker that is alive runs the workflow.",
    "workflow.host_alive": "Its command is running on host %(host)s, which is up.",
    "approval.waits": "An action already waits for another operator's approval: approve or decline it first.",
    "approval.none": "No action waits for approval.",
    "approval.delegated": "This needs two people: sign in yourself, not with a trust or an application credential.",
    "approval.own": "You requested this. Another operator must approve it.",
    # lines of a log
    "log.queued": "accepted, queued",
    "log.queued_for": "accepted, queued for %(what)s",
    "log.started": "a conductor started it",
    "log.waiting": "suspended: waits for %(what)s",
    "log.undoing": "rolling back: %(error)s",
    "log.rescheduled": "retries after %(error)s",
    "log.ended": "ended: %(state)s",
    "log.ended_with": "ended: %(state)s: %(error)s",
    "log.cancel_requested": "cancel requested: %(reason)s",
    "log.intervention": "%(action)s by %(name)s: %(reason)s",
    "log.write_refused": "a write by a previous owner was rejected",
    "log.write_refused_tokens": "a write by a previous owner was rejected: token #%(token)s, newest token #%(newest)s",
    "log.still_deferred": "%(host)s failed a deferred command, which is sent again: %(error)s",
    "log.cleanup_failed": "cleanup is incomplete: %(state)s",
    "log.cleaned": "cleanup is complete: %(state)s",
    "log.step_started": "“%(step)s” started",
    "log.step_done": "“%(step)s” is done",
    "log.step_failed": "“%(step)s” failed: %(error)s",
    "log.step_cancelled": "“%(step)s” was cancelled",
    "log.step_undone": "“%(step)s” is undone",
    "log.error": "%(message)s (%(kind)s)",
    "log.progress": "%(message)s (%(percent)s%%)",
    "wait.host": "host %(detail)s",
    "wait.lock": "lock %(detail)s",
    "wait.timer": "timer %(detail)s",
    "wait.children": "children %(detail)s",
    "wait.scheduler": "scheduler %(detail)s",
    # canaries
    "canary.failed": "The canary failed: %(reason)s",
    "canary.refused": "The canary was refused: %(reason)s",
    "canary.to_be_launched": "its server is about to be launched",
    "canary.building": "its server is being built",
    "canary.deleting": "its server is being deleted",
    "canary.server_state": "its server is %(state)s",
    "canary.ended": "its workflow ended as %(state)s",
    "canary.in_service": "Host %(host)s is in service.",
    "canary.host_down": "Host %(host)s is down: nothing can be built there.",
    "canary.no_flavor": "There is no public flavor for a canary. Specify a flavor.",
    "canary.no_image": "There is no public image for a canary on host %(host)s. Specify an image.",
    # progress of a live migration
    "migration.just_begun": "The migration has just started: there is nothing to measure yet.",
    "migration.switching": "All memory has arrived. The server is switching over.",
    "migration.too_few_reports": "Too few recent reports to measure.",
    "migration.stalled": "Stalled: nothing has moved for %(seconds)s s.",
    "migration.not_converging": "Not converging: the server changes %(changed)s, the link moves %(moved)s.",
    "migration.converging": "Converging: about %(span)s.",
    "migration.arrived": "The server runs at its destination.",
    "migration.fetching": "The server runs at its destination and fetches its remaining memory.",
    "migration.failed": "The migration failed. The server still runs at its source.",
    "migration.error": "The migration failed. Check where the server runs.",
    "migration.stopped": "The migration was stopped. The server still runs at its source.",
    "migration.stopped_by": "The migration was stopped by %(name)s. The server still runs at its source.",
    # actions on a live migration, and their risks
    "migration.needs_manager": "The role manager is required.",
    "migration.switched": "The server has switched over.",
    "migration.not_moving_yet": "The server is not moving yet.",
    "migration.requested": "Requested, not carried out yet.",
    "migration.post_copy": "The server has switched to post-copy. The migration can no longer be stopped.",
    "migration.cannot": (
        "The driver of the source host does not support this, has it turned off, or is of an earlier release."
    ),
    "migration.nothing_lost": "No data has been transferred yet. The server stays on its host.",
    "migration.loss": "The server stays on its source host. Transferred data is discarded.",
    "migration.pause_unknown": (
        "The server pauses until the remaining memory has arrived. The duration can't be estimated yet."
    ),
    "migration.pause": "The server pauses for about %(seconds)s s, until the remaining memory has arrived.",
    "migration.downtime": "The server may pause for longer when it switches over.",
    "migration.downtime_now": (
        "The server may pause for longer when it switches over. The estimated pause is %(needed)s ms."
    ),
    "migration.downtime_limit": (
        "The server may pause for longer when it switches over. The estimated pause is %(needed)s ms; "
        "%(allowed)s ms are allowed."
    ),
    "migration.throttle": (
        "Withholds CPU time from the server until it has moved. The server changes less memory and runs slower."
    ),
    "migration.throttle_now": (
        "Withholds CPU time from the server until it has moved. The server changes less memory and runs slower. "
        "%(percent)s percent are withheld now."
    ),
    "migration.post_copy_risk": (
        "The server switches to the destination immediately, then fetches the remaining memory. The migration "
        "can't be stopped then, and the server is lost if the connection breaks."
    ),
    "migration.post_copy_left": (
        "The server switches to the destination immediately, then fetches the remaining memory, now %(left)s. "
        "The migration can't be stopped then, and the server is lost if the connection breaks."
    ),
    # why a server is in error
    "fault.left": "Cleanup is incomplete: %(uncompensated)s.",
    "fault.repeats": "This fails repeatedly: %(error)s",
    # reports of hosts
    "driver.failed": "The driver failed unexpectedly (%(kind)s).",
    "migration.none_on_host": "No live migration of the server is running on this host.",
    "migration.at_its_end": "The migration is already finishing.",
    "migration.no_abort": "The server has switched to post-copy. The migration can no longer be aborted.",
    "migration.no_change": "The server has switched to post-copy. The migration can no longer be changed.",
    "migration.no_throttling": "The migration began without throttling, and QEMU cannot turn it on later.",
    "migration.copies_disks": (
        "The server's disks are still being copied. Post-copy is possible when its memory is being copied."
    ),
}
