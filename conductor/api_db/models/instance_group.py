"""Server groups: affinity policies and their members."""

from __future__ import annotations

import uuid

from django.db import models


class InstanceGroup(models.Model):
    """An affinity policy over its members."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    policy = models.CharField(max_length=32)
    rules = models.JSONField(default=dict)


class InstanceGroupMember(models.Model):
    """An instance in a group, and the host that was claimed for it ("" while there is none).

    `leaving_host` is set while it moves: it may yet go back there.
    """

    group = models.ForeignKey(InstanceGroup, on_delete=models.CASCADE, related_name="members")
    instance_uuid = models.UUIDField(unique=True)
    host = models.CharField(max_length=255, default="")
    leaving_host = models.CharField(max_length=255, default="", db_default="")
