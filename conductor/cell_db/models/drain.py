"""Hosts that are being emptied."""

from __future__ import annotations

from django.db import models


class Drain(models.Model):
    """How one host is emptied: what its workflow was asked for, and what an operator has said since.

    `refused` keeps by instance uuid why it cannot leave. Once `deadline_at` has passed it `is_late`: no move begins.
    """

    run_uuid = models.UUIDField(unique=True)
    host = models.CharField(max_length=255, db_index=True)
    most_at_once = models.PositiveIntegerField(default=2)
    allows_cold = models.BooleanField(default=True)  # whether guests may be off while they move
    is_paused = models.BooleanField(default=False)
    deadline_at = models.DateTimeField(null=True)
    is_late = models.BooleanField(default=False, db_default=False)
    stays_closed = models.BooleanField(default=False)  # when it is given up: the host takes nothing all the same
    was_disabled = models.BooleanField(default=False)  # before it began
    reason_before = models.CharField(max_length=255, null=True)
    refused = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
