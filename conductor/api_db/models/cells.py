"""Mappings of cells, hosts and instances, and the keys with which hosts and conductors sign messages."""

from __future__ import annotations

import uuid

from django.db import models


class CellMapping(models.Model):
    """A cell. `name` is also the database alias and the suffix of its queue."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=64, unique=True)
    is_disabled = models.BooleanField(default=False)  # the scheduler skips its hosts
    disabled_reason = models.CharField(max_length=255, default="", db_default="")
    quarantined_at = models.DateTimeField(null=True)  # since when it gets no queries; null: it gets them
    quarantined_by = models.CharField(max_length=255, default="", db_default="")
    quarantine_reason = models.CharField(max_length=255, default="", db_default="")

    @property
    def is_quarantined(self) -> bool:
        return self.quarantined_at is not None


class HostMapping(models.Model):
    """Host → cell."""

    host = models.CharField(max_length=255, unique=True)
    cell = models.ForeignKey(CellMapping, on_delete=models.PROTECT, related_name="hosts")


class InstanceMapping(models.Model):
    """Instance → cell; no cell yet while the build is in flight."""

    instance_uuid = models.UUIDField(unique=True)
    cell = models.ForeignKey(CellMapping, on_delete=models.PROTECT, null=True, related_name="instances")
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    vcpus = models.PositiveIntegerField(default=0)  # for quota: counted here, so no cell has to answer
    memory_mb = models.PositiveIntegerField(default=0)
    build_run_uuid = models.UUIDField()  # the workflow in the API database that began it
    is_deleted = models.BooleanField(default=False, db_index=True)
    created_at = models.DateTimeField()


class HostKey(models.Model):
    """A public key of a host, which verifies its messages. During a rotation a host has two.

    `is_due` asks the host to replace the key; one with `ends_at` is valid until then.
    """

    host = models.CharField(max_length=255, db_index=True)
    cell = models.CharField(max_length=255)
    key_id = models.CharField(max_length=32, unique=True)
    public_key = models.CharField(max_length=64)
    is_due = models.BooleanField(default=False)
    ends_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class HostEnrollment(models.Model):
    """A one-time token by which a host may register its first public key; only the token's hash is stored."""

    host = models.CharField(max_length=255)
    cell = models.CharField(max_length=255)
    token_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    created_at = models.DateTimeField()


class ConductorKey(models.Model):
    """A key pair that all conductors and web processes share; the private key is encrypted with the secret key.

    The signing key is the one with the highest `number` whose `signs_from` has passed. `number` rises, and is unique:
    of two processes that create a key at once only one succeeds.
    """

    number = models.PositiveIntegerField(unique=True)
    key_id = models.CharField(max_length=32, unique=True)
    public_key = models.CharField(max_length=64)
    encrypted_private_key = models.TextField()
    signs_from = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
