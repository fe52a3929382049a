"""Tokens that open one console once, and links by which others may watch one."""

from __future__ import annotations

from uuid import uuid4

from django.db import models


class ConsoleToken(models.Model):
    """The right of one person to one console of one server while it is on one host; the token itself is not kept.

    `project_id` is the project for which it was asked. With `session_key` it ends with that session of the portal.
    With `share_uuid` it is for watching only, and ends with that share.
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
    share_uuid = models.UUIDField(null=True)


class ConsoleShare(models.Model):
    """A link by which others of a server's project may watch one of its consoles; the token in it is not kept.

    `project_id` is the server's; `user_id` made it while at work for `user_project_id`. From when it is
    revoked it has no time at all.
    """

    uuid = models.UUIDField(unique=True, default=uuid4)
    token_hash = models.CharField(max_length=64, unique=True)
    instance_uuid = models.UUIDField(db_index=True)
    kind = models.CharField(max_length=16)  # core.ConsoleKind
    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255)
    user_project_id = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
