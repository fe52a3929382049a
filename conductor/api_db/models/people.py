"""Rows of one person: saved views, subscriptions with their notices, access to consoles."""

from __future__ import annotations

import uuid
from uuid import uuid4

from django.db import models


class SavedView(models.Model):
    """A filter of a list that one user keeps in one project. Its `query` is a query string, so it can be shared."""

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


class Subscription(models.Model):
    """Events that a user subscribes to in a project, or an operator in the whole cloud, and the destination.

    `sealed` holds the target's whole address and the key that signs deliveries; `address` and `secret_hint`
    are the parts that may be shown. `revision` rises with each change.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    user_id = models.CharField(max_length=64)
    project_id = models.CharField(max_length=64)
    delegated_by = models.CharField(max_length=96, default="")  # the origin of its authority: identity.delegation
    name = models.CharField(max_length=60)
    channel = models.CharField(max_length=16)  # "webhook", "chat", "email", "bell"
    is_cloud_wide = models.BooleanField(default=False)
    events = models.JSONField(default=list)  # names of notifications, with * for any part
    server_uuids = models.JSONField(default=list)  # empty: all
    address = models.CharField(max_length=255, default="")
    secret_hint = models.CharField(max_length=8, default="")
    sealed = models.TextField(default="")
    is_enabled = models.BooleanField(default=True)
    off_reason = models.CharField(max_length=255, default="")  # why it was turned off, if not by its owner
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user_id", "project_id", "name"], name="one_subscription_per_name")
        ]


class Notice(models.Model):
    """A notice in a user's bell menu that is not a workflow of their own."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    user_id = models.CharField(max_length=64)
    project_id = models.CharField(max_length=64)
    subscription_uuid = models.UUIDField()
    message_id = models.UUIDField()
    event_type = models.CharField(max_length=128)
    title = models.CharField(max_length=255)
    run_uuid = models.UUIDField(null=True)
    is_bad = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subscription_uuid", "message_id"], name="one_notice_per_message")
        ]
        indexes = [models.Index(fields=["user_id", "project_id", "created_at"], name="notice_of_person")]


class ConsoleToken(models.Model):
    """The right of one user to one console of one server while it is on one host; the token itself is not stored.

    `project_id` is the project of the request. With `session_key` it ends with that session of the portal, with
    `token_digest` with that token of the API.
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
    token_digest = models.CharField(max_length=64, default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True)
    share_uuid = models.UUIDField(null=True)


class ConsoleShare(models.Model):
    """A link by which others of a server's project may watch one of its consoles; the token in it is not stored.

    `project_id` is the server's; `user_id` created it in `user_project_id`. A revoked share has expired.
    """

    uuid = models.UUIDField(unique=True, default=uuid4)
    token_hash = models.CharField(max_length=64, unique=True)
    instance_uuid = models.UUIDField(db_index=True)
    kind = models.CharField(max_length=16)  # core.ConsoleKind
    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255)
    user_project_id = models.CharField(max_length=64)
    delegated_by = models.CharField(max_length=96, default="")  # the origin of its authority: identity.delegation
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
