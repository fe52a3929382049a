"""Rows of operators: findings, snoozed problems, announcements, budgets, snapshot schedules."""

from __future__ import annotations

import uuid
from uuid import uuid4

from django.db import models


class Finding(models.Model):
    """A discrepancy that the reconciler found. One row per kind and subject, which is reused.

    It is open while neither `repaired_at` nor `gone_at` is set.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    kind = models.CharField(max_length=64)  # a name of services.reconciliation.kinds
    subject = models.CharField(max_length=255)  # "instance:<uuid>", "allocation:<uuid>", "lock:<alias>:<resource>"
    severity = models.CharField(max_length=16)  # "critical", "warning"
    cell = models.CharField(max_length=64, default="")  # "" when it concerns the API database alone
    instance_uuid = models.UUIDField(null=True, db_index=True)
    detail = models.CharField(max_length=1000)
    outcome = models.CharField(max_length=1000, default="")  # the repair, or why it failed
    times_seen = models.PositiveIntegerField(default=0)  # consecutive
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    repaired_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject"], name="one_finding_per_kind_and_subject")]
        indexes = [models.Index(fields=["gone_at", "repaired_at", "last_seen_at"], name="finding_open")]


class TriageSnooze(models.Model):
    """A triage item that an operator has snoozed, with its severity then: it returns when it gets worse."""

    key = models.CharField(max_length=300, unique=True)  # "wf:<uuid>", "host:<name>", "finding:<uuid>"
    reason = models.CharField(max_length=255)
    until = models.DateTimeField(db_index=True)
    level = models.PositiveSmallIntegerField()  # of severity; 1 is the worst
    hurt = models.PositiveIntegerField()  # how many are affected
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255, default="")
    created_at = models.DateTimeField()


class Announcement(models.Model):
    """An announcement from `begins_at` until `ends_at`; without an end it stays until it is withdrawn."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    title = models.CharField(max_length=120)
    text = models.CharField(max_length=1000, default="")
    severity = models.CharField(max_length=16)  # "info", "warning", "critical"
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)
    author = models.CharField(max_length=255, default="")  # the name, as it was then
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["begins_at", "ends_at"], name="announcement_by_time")]


class Budget(models.Model):
    """The monthly budget of a project; it warns and stops nothing.

    `thresholds` are percents of `amount`. `spent` and `forecast` are as of `counted_at`. `notified_month` ("2026-01")
    and `notified_percent` are the month and the highest threshold of the last warning. `revision` rises with each
    change.
    """

    project_id = models.CharField(max_length=64, unique=True)
    amount = models.DecimalField(max_digits=14, decimal_places=2)
    currency = models.CharField(max_length=16)  # of the prices when it was set
    thresholds = models.JSONField(default=list)
    revision = models.PositiveIntegerField(default=1)
    set_by = models.CharField(max_length=255, default="")  # the name, as it was then
    updated_at = models.DateTimeField()
    spent = models.DecimalField(max_digits=20, decimal_places=4, default=0)
    forecast = models.DecimalField(max_digits=20, decimal_places=4, default=0)
    counted_at = models.DateTimeField(null=True)
    notified_month = models.CharField(max_length=7, default="")
    notified_percent = models.PositiveIntegerField(default=0)


class SnapshotSchedule(models.Model):
    """Recurring backups of a server or snapshots of a volume, on behalf of the schedule's creator.

    `due_at` is the next time; `look_at` is later than that while it waits for another workflow to end.
    `run_uuid` is the last workflow, `state` its result and `words` the reason. One that has ended stays, and says why.
    """

    uuid = models.UUIDField(unique=True, default=uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255)
    delegated_by = models.CharField(max_length=96, default="")  # the origin of its authority: identity.delegation
    kind = models.CharField(max_length=16)  # of the subject: "server" or "volume"
    subject_uuid = models.UUIDField(db_index=True)
    subject_name = models.CharField(max_length=255, default="")  # as it was then
    every = models.CharField(max_length=8)  # core.recurrence
    hours = models.PositiveIntegerField(default=0)
    weekday = models.CharField(max_length=10, default="")
    minute = models.PositiveIntegerField()  # of the day, in `zone`
    zone = models.CharField(max_length=64)
    keep = models.PositiveIntegerField()
    due_at = models.DateTimeField()
    look_at = models.DateTimeField(db_index=True)
    last_at = models.DateTimeField(null=True)
    run_uuid = models.UUIDField(null=True)
    state = models.CharField(max_length=16)  # services.servers.snapshot_schedules
    words = models.CharField(max_length=255, default="")
    ended_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
