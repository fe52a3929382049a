"""Which cells there are, and which hosts and instances live in them."""

from __future__ import annotations

import uuid

from django.db import models


class CellMapping(models.Model):
    """A cell. `name` is also the database alias and the suffix of its queue."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=64, unique=True)
    is_disabled = models.BooleanField(default=False)  # the scheduler passes over its hosts
    disabled_reason = models.CharField(max_length=255, default="", db_default="")
    quarantined_at = models.DateTimeField(null=True)  # since when nobody asks it anything; null: it is asked
    quarantined_by = models.CharField(max_length=255, default="", db_default="")
    quarantine_reason = models.CharField(max_length=255, default="", db_default="")

    @property
    def is_quarantined(self) -> bool:
        return self.quarantined_at is not None

    @property
    def is_cell0(self) -> bool:
        return self.name == "cell0"


class HostMapping(models.Model):
    """Host → cell."""

    host = models.CharField(max_length=255, unique=True)
    cell = models.ForeignKey(CellMapping, on_delete=models.PROTECT, related_name="hosts")


class InstanceMapping(models.Model):
    """Instance → cell; no cell yet while the build is in flight."""

    instance_uuid = models.UUIDField(unique=True)
    cell = models.ForeignKey(CellMapping, on_delete=models.PROTECT, null=True, related_name="instances")
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    vcpus = models.PositiveIntegerField(default=0)  # for quota: counted here, so no cell has to answer
    memory_mb = models.PositiveIntegerField(default=0)
    build_run_uuid = models.UUIDField()  # the workflow in the API database that began it
    is_deleted = models.BooleanField(default=False, db_index=True)
    created_at = models.DateTimeField()
