"""What operators tell everybody."""

from __future__ import annotations

import uuid

from django.db import models


class Announcement(models.Model):
    """News from `begins_at` until `ends_at`; without an end it stays until it is withdrawn."""

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
