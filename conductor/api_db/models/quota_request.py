"""What projects have asked for beyond their quota, and what became of it."""

from __future__ import annotations

import uuid

from django.db import models


class QuotaRequest(models.Model):
    """Higher limits that somebody asked for; it is decided once. `wanted` and `had` are limits by resource."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255, default="")
    wanted = models.JSONField(default=dict)
    had = models.JSONField(default=dict)
    reason = models.CharField(max_length=255)
    state = models.CharField(max_length=16, default="open")  # "open", "approved", "refused", "withdrawn"
    answer = models.CharField(max_length=255, default="")
    decided_by = models.CharField(max_length=255, default="")  # the name, as it was then
    created_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["project_id", "created_at"], name="quota_request_of_project"),
            models.Index(fields=["state", "created_at"], name="quota_request_by_state"),
        ]
