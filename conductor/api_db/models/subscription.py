"""Who wants to be told of what, and what stands in whose bell."""

from __future__ import annotations

import uuid

from django.db import models


class Subscription(models.Model):
    """What a person wants to hear of in a project, or an operator in the whole cloud, and where it goes.

    `sealed` holds the target's whole address and the key that signs what goes there; `address` and `secret_hint`
    are what may be shown of them. `revision` rises with each change.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    user_id = models.CharField(max_length=64)
    project_id = models.CharField(max_length=64)
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
    """Something in a person's bell that is not a workflow of their own."""

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
