"""Limits per project."""

from __future__ import annotations

from django.db import models


class Quota(models.Model):
    """A limit that differs from the default; -1 is unlimited."""

    project_id = models.CharField(max_length=64, db_index=True)
    resource = models.CharField(max_length=64)  # instances, cores, ram, key_pairs, …
    limit = models.IntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project_id", "resource"], name="one_limit_per_resource")]
