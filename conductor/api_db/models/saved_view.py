"""What people keep of lists: how they were narrowed, under a name."""

from __future__ import annotations

import uuid

from django.db import models


class SavedView(models.Model):
    """A way to narrow a list that one person keeps in one project. Its `query` is an address's, so it can be shared."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    page = models.CharField(max_length=32)  # "workflows", …
    user_id = models.CharField(max_length=64)
    project_id = models.CharField(max_length=64)
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user_id", "project_id", "page", "name"], name="one_saved_view_per_name")
        ]
