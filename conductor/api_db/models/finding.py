"""What does not agree between the databases and the hosts."""

from __future__ import annotations

import uuid

from django.db import models


class Finding(models.Model):
    """Something that the reconciler found, from its first sighting on. One row per kind and subject, used again.

    It is open while neither `repaired_at` nor `gone_at` is set.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    kind = models.CharField(max_length=64)  # a name of services.reconciliation.kinds
    subject = models.CharField(max_length=255)  # "instance:<uuid>", "allocation:<uuid>", "lock:<alias>:<resource>"
    severity = models.CharField(max_length=16)  # "critical", "warning"
    cell = models.CharField(max_length=64, default="")  # "" when it concerns the API database alone
    instance_uuid = models.UUIDField(null=True, db_index=True)
    detail = models.CharField(max_length=1000)
    outcome = models.CharField(max_length=1000, default="")  # what was done, or why nothing could be
    times_seen = models.PositiveIntegerField(default=0)  # in a row
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    repaired_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject"], name="one_finding_per_kind_and_subject")]
        indexes = [models.Index(fields=["gone_at", "repaired_at", "last_seen_at"], name="finding_open")]
