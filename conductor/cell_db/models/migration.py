"""Moves of instances from host to host."""

from __future__ import annotations

import uuid

from django.db import models


class Migration(models.Model):
    """One move: a resize, a cold or live migration, or an evacuation.

    While a move is under way its uuid is the consumer in placement of what the instance held at the source.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    instance_uuid = models.UUIDField(db_index=True)
    run_uuid = models.UUIDField(null=True)  # the newest workflow on it
    migration_type = models.CharField(max_length=16)  # core.states.MigrationType
    status = models.CharField(max_length=32)  # core.states.MigrationStatus
    source_host = models.CharField(max_length=255, db_index=True)
    source_node = models.CharField(max_length=255, default="")
    destination_host = models.CharField(max_length=255, null=True, db_index=True)
    destination_node = models.CharField(max_length=255, null=True)
    destination_ip = models.CharField(max_length=64, default="")
    old_flavor = models.JSONField(null=True)  # FlavorSpec as JSON; the same as the new one for a move without resize
    new_flavor = models.JSONField(null=True)
    was_running = models.BooleanField(default=True)
    memory_total = models.BigIntegerField(null=True)  # bytes, of a live migration
    memory_processed = models.BigIntegerField(null=True)
    memory_remaining = models.BigIntegerField(null=True)
    disk_total = models.BigIntegerField(null=True)
    disk_processed = models.BigIntegerField(null=True)
    disk_remaining = models.BigIntegerField(null=True)
    details = models.JSONField(default=dict)  # what the next workflow on it needs: ports' and volumes' state before
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_index=True)
    updated_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["status", "updated_at"], name="migration_status")]
