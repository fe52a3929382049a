"""Sizes on offer."""

from __future__ import annotations

from django.db import models


class Flavor(models.Model):
    """A size: MB of memory and swap, GB of disk."""

    flavor_id = models.CharField(max_length=255, unique=True)
    name = models.CharField(max_length=255, unique=True)
    vcpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    root_gb = models.PositiveIntegerField(default=0)
    ephemeral_gb = models.PositiveIntegerField(default=0)
    swap_mb = models.PositiveIntegerField(default=0)
    is_public = models.BooleanField(default=True)
    is_disabled = models.BooleanField(default=False)
    rxtx_factor = models.FloatField(default=1.0)
    description = models.TextField(null=True)
    extra_specs = models.JSONField(default=dict)
    created_at = models.DateTimeField()


class FlavorAccess(models.Model):
    """A project that may use a flavor which is not public."""

    flavor = models.ForeignKey(Flavor, on_delete=models.CASCADE, related_name="access")
    project_id = models.CharField(max_length=64, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["flavor", "project_id"], name="flavor_access_once")]
