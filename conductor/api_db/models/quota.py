"""Limits per project, and per user of one."""

from __future__ import annotations

from django.db import models


class Quota(models.Model):
    """A limit that differs from the default; -1 is unlimited. The project `class:default` holds the defaults."""

    project_id = models.CharField(max_length=64, db_index=True)
    resource = models.CharField(max_length=64)  # instances, cores, ram, key_pairs, …
    limit = models.IntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project_id", "resource"], name="one_limit_per_resource")]


class UserQuota(models.Model):
    """How much of a project's limit one of its users may take."""

    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    resource = models.CharField(max_length=64)
    limit = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_id", "user_id", "resource"], name="one_limit_per_user_and_resource"
            )
        ]
