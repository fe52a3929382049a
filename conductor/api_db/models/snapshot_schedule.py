"""What is to be kept of servers and volumes again and again."""

from __future__ import annotations

from uuid import uuid4

from django.db import models


class SnapshotSchedule(models.Model):
    """Backups of a server or snapshots of a volume that come round, on behalf of whoever made it.

    `due_at` is the time that is next; `look_at` is later than that while it waits for somebody's work to end.
    `run_uuid` is the last workflow, `state` what became of it and `words` why. One that has ended stays, and says why.
    """

    uuid = models.UUIDField(unique=True, default=uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255)
    kind = models.CharField(max_length=16)  # of what: "server" or "volume"
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
    state = models.CharField(max_length=16)  # services.snapshot_schedules
    words = models.CharField(max_length=255, default="")
    ended_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
