"""Hypervisor nodes of a cell."""

from __future__ import annotations

import uuid

from django.db import models


class ComputeNode(models.Model):
    """A hypervisor under a host, as its agent last reported it. `report` is the NodeReport as JSON."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)  # the resource provider's uuid too
    host = models.CharField(max_length=255, db_index=True)
    node = models.CharField(max_length=255)
    driver = models.CharField(max_length=64)
    is_simulated = models.BooleanField(default=False)
    hypervisor_type = models.CharField(max_length=64)
    hypervisor_version = models.PositiveIntegerField(default=0)
    host_ip = models.CharField(max_length=64, default="127.0.0.1")
    report = models.JSONField(default=dict)
    failed_builds = models.PositiveIntegerField(default=0, db_default=0)  # in a row, up to `build_failed_at`
    build_failed_at = models.DateTimeField(null=True)
    running_guests = models.PositiveIntegerField(default=0)
    change_number = models.BigIntegerField(default=0, db_index=True)  # rises with each change the scheduler must see
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "node"], name="one_node_per_host_and_name")]
