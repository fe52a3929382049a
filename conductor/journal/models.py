"""The journal: workflow runs, their steps, locks, commands under way and events. Present in every database."""

from __future__ import annotations

import uuid

from django.db import models

from conductor.core.states import LIVE_RUN_STATES, RunState, StepState


class RunQuerySet(models.QuerySet["WorkflowRun"]):
    def live(self) -> RunQuerySet:
        return self.filter(state__in=LIVE_RUN_STATES)


class WorkflowRun(models.Model):
    """One execution of a flow: one intent of a user or of the system.

    `position` is the index of the step that is next (or under way) in `plan`; `direction` is "do" or "undo".
    `plan` is fixed at the first claim: [{"name", "title", "lane", "event"}]. `inputs` never change; `variables`
    gather the results of steps.
    A run that waits for a message has no owner; `wake_at` then is its deadline.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    flow = models.CharField(max_length=64)
    flow_version = models.PositiveIntegerField(default=0)  # 0 until the first claim fixes it
    action = models.CharField(max_length=64)  # the Compute API's name of the instance action
    state = models.CharField(max_length=24, default=RunState.QUEUED)
    queue = models.CharField(max_length=64)  # whose work it is: "conductor" or "conductor.<cell>"
    instance_uuid = models.UUIDField(null=True, db_index=True)
    instance_name = models.CharField(max_length=255, default="")
    parent_uuid = models.UUIDField(null=True, db_index=True)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255, default="")
    request_id = models.CharField(max_length=64, db_index=True)
    context = models.JSONField(default=dict)
    inputs = models.JSONField(default=dict)
    secrets = models.JSONField(default=dict, db_default={})  # sealed inputs that nobody may see; gone when the run ends
    resources = models.JSONField(default=list, null=True)  # what it locks: a retry takes all of it again
    variables = models.JSONField(default=dict)
    plan = models.JSONField(default=list)
    position = models.PositiveIntegerField(default=0)
    direction = models.CharField(max_length=4, default="do")
    attempt = models.PositiveIntegerField(default=1)
    owner = models.CharField(max_length=64, null=True)
    fencing_token = models.BigIntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    wake_at = models.DateTimeField()
    waits_for = models.JSONField(null=True)  # {"cause": WaitCause, "detail": text, …}
    is_cancellable = models.BooleanField(default=True, db_default=True)  # before its plan says so step by step
    is_cancel_requested = models.BooleanField(default=False)
    cancel_reason = models.CharField(max_length=255, default="")
    # What an operator wants to order, and another has to agree to: {"id", "by", "by_id", "asked", "until"}
    agreement = models.JSONField(null=True)
    orders = models.JSONField(null=True)  # what an operator ordered and the next owner carries out: {"kind", …}
    error = models.JSONField(null=True)  # {"class", "message", "step", "attempt"}: the first cause
    leftovers = models.JSONField(default=list)  # what an undo could not give back
    created_at = models.DateTimeField(db_index=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["state", "wake_at"], name="run_due")]


class StepRecord(models.Model):
    """One attempt of one step, forward or backward: the checkpoint beside the effect."""

    run = models.ForeignKey(WorkflowRun, on_delete=models.CASCADE, related_name="steps", db_index=False)  # see Meta
    index = models.PositiveIntegerField()
    direction = models.CharField(max_length=4, default="do")
    attempt = models.PositiveIntegerField(default=1)  # of the run: a reschedule starts the next one
    try_number = models.PositiveIntegerField(default=1)  # of the step within that attempt
    name = models.CharField(max_length=64)
    state = models.CharField(max_length=16, default=StepState.RUNNING)
    host = models.CharField(max_length=255, default="")
    worker = models.CharField(max_length=64, default="")
    step_key = models.CharField(max_length=128, unique=True)
    fencing_token = models.BigIntegerField()
    result = models.JSONField(null=True)
    answer = models.JSONField(null=True)  # of a remote step: {"ok", "result", "error"}
    progress = models.JSONField(null=True)  # {"message", "share"}
    error = models.JSONField(null=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "direction", "index", "attempt", "try_number"], name="one_record_per_try"
            )
        ]


class LeaseGrant(models.Model):
    """One ownership of a run by a worker. Its id is the fencing token: it only rises within a database."""

    run = models.ForeignKey(WorkflowRun, on_delete=models.CASCADE, related_name="grants")
    owner = models.CharField(max_length=64)
    reason = models.CharField(max_length=64)
    granted_at = models.DateTimeField()


class ForeignFence(models.Model):
    """The highest token that a run of another database has written with here."""

    run_uuid = models.UUIDField(primary_key=True)
    fencing_token = models.BigIntegerField()


class ResourceLock(models.Model):
    """A resource under work, and the run that holds it. The holder is the run, so locks outlive workers.

    Volumes and ports live in the API database, and so do their locks: a run of a cell holds them from there, as
    `holder_uuid` in `holder_alias`, and `run` is null.
    """

    resource = models.CharField(max_length=128, primary_key=True)  # "instance:<uuid>", "port:<uuid>", "host:<name>"
    run = models.ForeignKey(WorkflowRun, on_delete=models.CASCADE, related_name="locks", null=True)
    holder_uuid = models.UUIDField(null=True, db_index=True)
    holder_alias = models.CharField(max_length=64, default="")
    holder_action = models.CharField(max_length=64, default="")
    granted_at = models.DateTimeField()

    @property
    def holder(self) -> str:
        """Who has it, in the words of a refusal."""
        uuid, action = (self.run.uuid, self.run.action) if self.run else (self.holder_uuid, self.holder_action)
        return f"workflow {uuid} ({action})"


class LockWait(models.Model):
    """A queued run that wants a resource which another run holds. The oldest gets it next."""

    resource = models.CharField(max_length=128, db_index=True)
    run = models.ForeignKey(WorkflowRun, on_delete=models.CASCADE, related_name="lock_waits")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource", "run"], name="one_wait_per_run_and_resource")]


class OutboxMessage(models.Model):
    """A command that left with the transaction that announced it, and is sent again until it is answered."""

    step_key = models.CharField(max_length=128, unique=True)
    run_uuid = models.UUIDField(db_index=True)
    queue = models.CharField(max_length=64)
    host = models.CharField(max_length=255, db_index=True)
    body = models.JSONField()  # encoded, with its passwords sealed
    is_owed = models.BooleanField(default=False)  # nobody waits for it any more, but the host must still do it
    send_again_at = models.DateTimeField(db_index=True)
    times_sent = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        # Each command asks whether a deferred one comes before it: most often there is none in the whole journal.
        indexes = [models.Index(fields=["host"], condition=models.Q(is_owed=True), name="outbox_deferred")]


class Event(models.Model):
    """A numbered fact about a run or resource, appended in the transaction that made it true.

    Read it through `event_order`: the newest number that is there need not be the last of those before it.
    Every step appends two, and each index is a page more to write and to sync: only what is searched has one.
    """

    topic = models.CharField(max_length=128, db_index=True)  # "wf:<uuid>", "server:<uuid>", "host:<name>"
    kind = models.CharField(max_length=64)  # "run.started", "step.done", "instance.updated", …
    run_uuid = models.UUIDField(null=True, db_index=True)
    instance_uuid = models.UUIDField(null=True)
    project_id = models.CharField(max_length=64, default="")
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField()


class AuditRecord(models.Model):
    """Who asked for what, and what came of it: operators' interventions, and server actions that were refused.

    It lies in the journal whose run it is about; a refusal that concerns no run lies in the API database. Records
    are only ever added; a conductor numbers and seals them soon afterwards (`core/audit_chain.py`).
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    action = models.CharField(max_length=64, db_index=True)  # "workflow.retry", "server.reboot", …
    result = models.CharField(max_length=16)  # "done", "refused"
    user_id = models.CharField(max_length=64, db_index=True)
    user_name = models.CharField(max_length=255, default="")
    asker_project_id = models.CharField(max_length=64, default="")  # in whose name it was asked
    on_behalf_of = models.CharField(max_length=255, default="")  # whose work it is, where that is somebody else
    project_id = models.CharField(max_length=64, default="", db_index=True)  # whose resource it is
    run_uuid = models.UUIDField(null=True, db_index=True)
    instance_uuid = models.UUIDField(null=True, db_index=True)
    reason = models.CharField(max_length=255, default="")
    error = models.JSONField(null=True)  # why it was refused: {"class", "message"}
    details = models.JSONField(default=dict)  # the step, the token before and after, …
    request_id = models.CharField(max_length=64, default="")
    remote_address = models.CharField(max_length=64, default="")
    created_at = models.DateTimeField(db_index=True)
    signature = models.CharField(max_length=64, default="", db_default="")  # "" from releases that did not sign
    seal = models.BigIntegerField(null=True, unique=True)  # its number in the chain of this database, without holes
    digest = models.CharField(max_length=64, default="", db_default="")

    class Meta:
        indexes = (models.Index("id", condition=models.Q(seal=None), name="audit_unsealed"),)


class AuditChain(models.Model):
    """Where the chain of the audit records in this database begins and ends: one row. Who holds it may seal or cut.

    What was older than its retention was cut off in front: up to `cut_number`.
    """

    key_id = models.CharField(max_length=64)  # tells another key from a forged row
    begun_at = models.DateTimeField()
    cut_number = models.BigIntegerField(default=0)
    cut_digest = models.CharField(max_length=64, default="")
    head_number = models.BigIntegerField(default=0)
    head_digest = models.CharField(max_length=64, default="")
    mark = models.CharField(max_length=64)  # the keyed digest of all above
    sealed_at = models.DateTimeField(null=True)
    checked_at = models.DateTimeField(null=True)
    trouble = models.CharField(max_length=255, default="")  # what the last check found


class NotificationPlace(models.Model):
    """How far a sink was told of the events in this journal, and which conductor tells it now."""

    sink = models.CharField(max_length=128, unique=True)
    reached = models.BigIntegerField()  # the number of the last event that it has taken
    owner = models.CharField(max_length=64, null=True)
    lease_expires_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)  # in a row
    retry_at = models.DateTimeField()
    last_error = models.CharField(max_length=255, default="")


class NotificationDelivery(models.Model):
    """One attempt to tell a sink of something."""

    sink = models.CharField(max_length=128)
    message_id = models.UUIDField(db_index=True)
    event_type = models.CharField(max_length=128)
    outcome = models.CharField(max_length=16)  # "delivered", "failed"; "asked" while it is to be sent once more
    detail = models.CharField(max_length=255, default="")
    tried_at = models.DateTimeField(db_index=True)
    event_number = models.BigIntegerField(null=True)  # of the event that it told of; none for a test

    class Meta:
        indexes = [
            models.Index(fields=["sink", "-id"], name="delivery_of_sink"),
            models.Index(fields=["outcome"], condition=models.Q(outcome="asked"), name="delivery_asked"),
        ]


class Duty(models.Model):
    """The lease of periodic work that one process does for all: its holder, and when the work was last done."""

    name = models.CharField(max_length=64, unique=True)
    owner = models.CharField(max_length=64, default="")
    lease_expires_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)
