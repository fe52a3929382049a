"""Services of a cell: who is there, and when it was last heard."""

from __future__ import annotations

import uuid

from django.db import models


class Service(models.Model):
    """A process that belongs to the cell: a compute agent or a conductor."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    binary = models.CharField(max_length=64)
    host = models.CharField(max_length=255)
    availability_zone = models.CharField(max_length=255, default="nova")
    version = models.PositiveIntegerField(default=1)
    is_disabled = models.BooleanField(default=False)
    disabled_reason = models.CharField(max_length=255, null=True)
    # Why the host is out of service and what is done to it, in an operator's words, until it is back.
    maintenance_note = models.CharField(max_length=1000, default="", db_default="")
    is_forced_down = models.BooleanField(default=False)
    is_simulated = models.BooleanField(default=False)
    report_number = models.BigIntegerField(default=0)
    # Of the report that was taken in: what the host offers, then its guests when nothing of them was left to look at.
    report_digest = models.CharField(max_length=64, default="")
    unsettled = models.JSONField(default=dict)  # guests that did not fit, and how often so: {"strangers", "missing"}
    guests = models.JSONField(null=True)  # of the newest report: power state by instance uuid; null: none has said
    kept = models.JSONField(null=True)  # instances whose disks the host keeps for going back; null: none has said
    last_seen_at = models.DateTimeField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["binary", "host"], name="one_service_per_host")]
