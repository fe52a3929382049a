"""Requests that are not built yet, the scheduling decision on each, and answers to repeated requests."""

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
    """The request specification, one row per instance: `spec` is core.RequestSpec as JSON, with num_instances 1."""

    instance_uuid = models.UUIDField(unique=True)
    spec = models.JSONField()


class HostSnapshot(models.Model):
    """All hosts at one moment (core.scheduling.snapshots), shared by the decisions on nearly the same hosts."""

    digest = models.CharField(max_length=64, unique=True)
    num_hosts = models.PositiveIntegerField()
    content = models.BinaryField()
    created_at = models.DateTimeField(db_index=True)


class SchedulingDecision(models.Model):
    """One stored pass of the scheduler. `summary` is small (funnel, choice); `details` holds hosts and weights.

    `request` is core.RequestSpec as it was decided on. The hosts are those of the HostSnapshot `snapshot_digest`,
    overridden by the rows in `snapshot_rows`; without a digest, only those rows were kept.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    step_key = models.CharField(max_length=128, unique=True)  # the same step gets the same result
    run_uuid = models.UUIDField(db_index=True)
    project_id = models.CharField(max_length=64, db_index=True)
    is_successful = models.BooleanField()
    is_rebuild = models.BooleanField(default=False, db_default=False)  # about the host that a server stays on
    selections = models.JSONField()  # one entry per instance: [Selection JSON, alternates…]; [] when nothing fits
    summary = models.JSONField()
    details = models.JSONField()
    request = models.JSONField(null=True)
    snapshot_digest = models.CharField(max_length=64, default="", db_default="")
    snapshot_rows = models.BinaryField(null=True)
    created_at = models.DateTimeField(db_index=True)


class ClientRequest(models.Model):
    """One request under one key. While `answer` is empty, a process handles it until `claimed_until`.

    Neither the key nor the body can be read from it: both are stored as digests, and the answer, which may hold a
    password, is sealed with the key.
    """

    key_digest = models.CharField(max_length=64, unique=True)  # of project, user and key
    fingerprint = models.CharField(max_length=64)  # of method, path, version and body
    uuid = models.UUIDField(default=uuid.uuid4)  # may become the uuid of the created resource
    answer = models.TextField(default="")
    claimed_until = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
