"""Volumes of instances, as the cell knows them."""

from __future__ import annotations

import uuid

from django.db import models


class BlockDevice(models.Model):
    """A volume that an instance has: `uuid` is the attachment's id. `boot_index` 0 is the root disk."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    instance_uuid = models.UUIDField(db_index=True)
    volume_uuid = models.UUIDField(db_index=True)
    device_name = models.CharField(max_length=64)
    boot_index = models.IntegerField(default=-1)
    tag = models.CharField(max_length=60, null=True)
    delete_on_termination = models.BooleanField(default=False)
    connection = models.JSONField(default=dict)  # core.VolumeConnection as JSON
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["instance_uuid", "volume_uuid"], name="one_device_per_volume"),
            models.UniqueConstraint(fields=["instance_uuid", "device_name"], name="one_volume_per_device_name"),
        ]
