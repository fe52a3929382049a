"""Volumes, and which instances have them."""

from __future__ import annotations

import uuid

from django.db import models


class Volume(models.Model):
    """A disk that outlives servers. `status` is one of states.STATUSES; the row goes with the volume."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, null=True)
    size_gb = models.PositiveIntegerField()
    status = models.CharField(max_length=32)
    availability_zone = models.CharField(max_length=255, default="nova")
    is_bootable = models.BooleanField(default=False)
    metadata = models.JSONField(default=dict)
    image_metadata = models.JSONField(default=dict)  # of the image that its data came from, one level of texts
    source_kind = models.CharField(max_length=16, default="")  # one of states.SOURCES; "" for a blank one
    source_uuid = models.UUIDField(null=True)
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()


class VolumeAttachment(models.Model):
    """A volume that an instance has, or is getting. `uuid` is that of the cell's block device."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    volume = models.OneToOneField(Volume, on_delete=models.CASCADE, related_name="attachment")
    instance_uuid = models.UUIDField(db_index=True)
    host = models.CharField(max_length=255, default="")
    device = models.CharField(max_length=64)
    attached_at = models.DateTimeField(null=True)
