"""Tokens that open one console once."""

from __future__ import annotations

from django.db import models


class ConsoleToken(models.Model):
    """The right of one person to one console of one server while it is on one host; the token itself is not kept.

    `project_id` is the project for which it was asked. With `session_key` it ends with that session of the portal.
    """

    token_hash = models.CharField(max_length=64, unique=True)
    instance_uuid = models.UUIDField(db_index=True)
    cell = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    kind = models.CharField(max_length=16)  # core.ConsoleKind
    user_id = models.CharField(max_length=64)
    project_id = models.CharField(max_length=64)
    session_key = models.CharField(max_length=64, default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True)
