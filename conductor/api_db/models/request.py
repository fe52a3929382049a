"""What was asked for and not yet built, and how each request was decided."""

from __future__ import annotations

import uuid

from django.db import models


class BuildRequest(models.Model):
    """A boot not yet given a cell. `instance` holds the future Instance row's values as JSON (see cell_db.Instance)."""

    instance_uuid = models.UUIDField(unique=True)
    project_id = models.CharField(max_length=64, db_index=True)
    run_uuid = models.UUIDField(db_index=True)
    instance = models.JSONField()
    is_deleting = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_index=True)


class RequestSpecRecord(models.Model):
    """What was asked, one row per instance: `spec` is core.RequestSpec as JSON, with num_instances 1."""

    instance_uuid = models.UUIDField(unique=True)
    spec = models.JSONField()


class HostSnapshot(models.Model):
    """All hosts as they were once (core.scheduling.snapshots), shared by the decisions that saw about the same."""

    digest = models.CharField(max_length=64, unique=True)
    num_hosts = models.PositiveIntegerField()
    content = models.BinaryField()
    created_at = models.DateTimeField(db_index=True)


class SchedulingDecision(models.Model):
    """One pass of the scheduler, kept. `summary` is small (funnel, choice); `details` holds hosts and weights.

    `request` is core.RequestSpec as it was decided on. The hosts that were looked at are those of the HostSnapshot
    `snapshot_digest` with the rows in `snapshot_rows` put over them; without a digest, those rows alone were kept.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    step_key = models.CharField(max_length=128, unique=True)  # the step that asked: the same key gets the same answer
    run_uuid = models.UUIDField(db_index=True)
    project_id = models.CharField(max_length=64, db_index=True)
    is_successful = models.BooleanField()
    selections = models.JSONField()  # one entry per instance: [Selection JSON, alternates…]; [] when nothing fits
    summary = models.JSONField()
    details = models.JSONField()
    request = models.JSONField(null=True)
    snapshot_digest = models.CharField(max_length=64, default="", db_default="")
    snapshot_rows = models.BinaryField(null=True)
    created_at = models.DateTimeField(db_index=True)
