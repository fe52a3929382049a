"""Operator's groups of hosts; an availability zone is an aggregate shown to users."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models.functions import Now


class Aggregate(models.Model):
    """A named group of hosts. The metadata key `availability_zone` makes it a zone."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, unique=True)
    metadata = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(null=True)


class AggregateHost(models.Model):
    """A host in an aggregate."""

    aggregate = models.ForeignKey(Aggregate, on_delete=models.CASCADE, related_name="hosts")
    host = models.CharField(max_length=255, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["aggregate", "host"], name="host_once_per_aggregate")]
