"""The journal: workflow runs, their steps, locks, pending commands and events. Present in every database."""

from __future__ import annotations

import uuid

from django.db import models

from conductor.core.states import LIVE_RUN_STATES, RunState, StepState


class RunQuerySet(models.QuerySet["WorkflowRun"]):
    def live(self) -> RunQuerySet:
        return self.filter(state__in=LIVE_RUN_STATES)


class WorkflowRun(models.Model):
    """One execution of a flow, for one request of a user or of the system.

    `position` is the index in `plan` of the next (or current) step; `direction` is "do" or "undo". `plan` is fixed at
    the first claim: [{"name", "title", "lane", "event"}]. `inputs` never change; `variables` collect the results of
    steps. A run that waits for a message has no owner; `wake_at` then is its deadline.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    flow = models.CharField(max_length=64)
    flow_version = models.PositiveIntegerField(default=0)  # 0 until the first claim fixes it
    action = models.CharField(max_length=64)  # the Compute API's name of the instance action
    state = models.CharField(max_length=24, default=RunState.QUEUED)
    queue = models.CharField(max_length=64)  # its workers: "conductor" or "conductor.<cell>"
    instance_uuid = models.UUIDField(null=True, db_index=True)
    instance_name = models.CharField(max_length=255, default="")
    parent_uuid = models.UUIDField(null=True, db_index=True)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255, default="")
    request_id = models.CharField(max_length=64, db_index=True)
    context = models.JSONField(default=dict)
    inputs = models.JSONField(default=dict)
    secrets = models.JSONField(default=dict, db_default={})  # sealed inputs, never shown; gone when the run ends
    resources = models.JSONField(default=list, null=True)  # it locks these: a retry takes all again
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
    # An intervention of an operator that needs a second approver: {"id", "by", "by_id", "asked", "until"}
    approval = models.JSONField(null=True)
    orders = models.JSONField(null=True)  # an operator's intervention, which the next owner carries out: {"kind", …}
    error = models.JSONField(null=True)  # {"class", "message", "step", "attempt"}: the first cause
    uncompensated = models.JSONField(default=list)  # uncompensated effects
    created_at = models.DateTimeField(db_index=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["state", "wake_at"], name="run_due")]


class StepRecord(models.Model):
    """One attempt of one step, forward or backward: its checkpoint."""

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
    """The highest fencing token of a run of another database that has written here."""

    run_uuid = models.UUIDField(primary_key=True)
    fencing_token = models.BigIntegerField()


class ResourceLock(models.Model):
    """A locked resource, and the run that holds it. The holder is the run, so locks outlive workers.

    Volumes and ports are in the API database, and so are their locks: a run of a cell holds them there, as
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
        """The holder as a text for error messages."""
        uuid, action = (self.run.uuid, self.run.action) if self.run else (self.holder_uuid, self.holder_action)
        return f"workflow {uuid} ({action})"


class LockWait(models.Model):
    """A queued run that waits for a resource which another run holds. The oldest one gets the resource next."""

    resource = models.CharField(max_length=128, db_index=True)
    run = models.ForeignKey(WorkflowRun, on_delete=models.CASCADE, related_name="lock_waits")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["resource", "run"], name="one_wait_per_run_and_resource")]


class OutboxMessage(models.Model):
    """A command sent by the transaction that created it, and sent again until it is answered."""

    step_key = models.CharField(max_length=128, unique=True)
    run_uuid = models.UUIDField(db_index=True)
    queue = models.CharField(max_length=64)
    host = models.CharField(max_length=255, db_index=True)
    body = models.JSONField()  # encoded, with its passwords sealed
    # no run waits for the command any more, but the host must carry it out
    is_deferred = models.BooleanField(default=False)
    send_again_at = models.DateTimeField(db_index=True)
    times_sent = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()

    class Meta:
        # Each command checks whether a deferred one comes before it. Usually the whole journal has none.
        indexes = [models.Index(fields=["host"], condition=models.Q(is_deferred=True), name="outbox_deferred")]


class Event(models.Model):
    """A numbered fact about a run or resource, appended in the transaction of its change.

    Read it through `event_order`: below the newest visible number others may still be missing.
    Every step appends two, and each index is one more page to write and to sync: only searched columns have one.
    """

    topic = models.CharField(max_length=128, db_index=True)  # "wf:<uuid>", "server:<uuid>", "host:<name>"
    kind = models.CharField(max_length=64)  # "run.started", "step.done", "instance.updated", …
    run_uuid = models.UUIDField(null=True, db_index=True)
    instance_uuid = models.UUIDField(null=True)
    project_id = models.CharField(max_length=64, default="")
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField()


class AuditRecord(models.Model):
    """Audit record of a request and its result: operators' interventions, and refused server actions.

    It is in the journal of its run; a refusal without a run is in the API database. Records
    are only ever added; a conductor numbers and seals them soon afterwards (`core/audit_chain.py`).
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    action = models.CharField(max_length=64, db_index=True)  # "workflow.retry", "server.reboot", …
    result = models.CharField(max_length=16)  # "done", "refused"
    user_id = models.CharField(max_length=64, db_index=True)
    user_name = models.CharField(max_length=255, default="")
    actor_project_id = models.CharField(max_length=64, default="")  # project of the request
    on_behalf_of = models.CharField(max_length=255, default="")  # owner of the work, if another user
    project_id = models.CharField(max_length=64, default="", db_index=True)  # project of the resource
    run_uuid = models.UUIDField(null=True, db_index=True)
    instance_uuid = models.UUIDField(null=True, db_index=True)
    reason = models.CharField(max_length=255, default="")
    error = models.JSONField(null=True)  # why it was refused: {"class", "message"}
    details = models.JSONField(default=dict)  # the step, the token before and after, …
    request_id = models.CharField(max_length=64, default="")
    remote_address = models.CharField(max_length=64, default="")
    created_at = models.DateTimeField(db_index=True)
    signature = models.CharField(max_length=64, default="", db_default="")  # "" from releases that did not sign
    seal = models.BigIntegerField(null=True, unique=True)  # its number in the chain of this database, without gaps
    digest = models.CharField(max_length=64, default="", db_default="")

    class Meta:
        indexes = (models.Index("id", condition=models.Q(seal=None), name="audit_unsealed"),)


class AuditChain(models.Model):
    """Beginning and end of the chain of audit records in this database: one row.

    The process that locks it may seal or cut. Records beyond their retention were cut off up to `cut_number`.
    """

    key_id = models.CharField(max_length=64)  # distinguishes another key from a forged row
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
    """Position of a sink in the events of this journal, and the conductor that delivers now."""

    sink = models.CharField(max_length=128, unique=True)
    reached = models.BigIntegerField()  # the number of the last delivered event
    owner = models.CharField(max_length=64, null=True)
    lease_expires_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)  # consecutive
    retry_at = models.DateTimeField()
    last_error = models.CharField(max_length=255, default="")


class NotificationDelivery(models.Model):
    """One attempt to deliver to a sink."""

    sink = models.CharField(max_length=128)
    message_id = models.UUIDField(db_index=True)
    event_type = models.CharField(max_length=128)
    outcome = models.CharField(max_length=16)  # "delivered", "failed"; "asked" while it is to be sent once more
    detail = models.CharField(max_length=255, default="")
    tried_at = models.DateTimeField(db_index=True)
    event_number = models.BigIntegerField(null=True)  # of the delivered event; none for a test

    class Meta:
        indexes = [
            models.Index(fields=["sink", "-id"], name="delivery_of_sink"),
            models.Index(fields=["outcome"], condition=models.Q(outcome="asked"), name="delivery_asked"),
        ]


class PeriodicLease(models.Model):
    """The lease of periodic work that one process does for all: its holder, and when the work was last done."""

    name = models.CharField(max_length=64, unique=True)
    owner = models.CharField(max_length=64, default="")
    lease_expires_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)
