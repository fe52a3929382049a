"""Key pairs of users."""

from __future__ import annotations

from django.db import models


class KeyPair(models.Model):
    """The public half of a user's key."""

    user_id = models.CharField(max_length=64, db_index=True)
    name = models.CharField(max_length=255)
    key_type = models.CharField(max_length=8, default="ssh")
    public_key = models.TextField()
    fingerprint = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user_id", "name"], name="key_name_once_per_user")]
