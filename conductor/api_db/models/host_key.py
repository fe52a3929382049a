"""The keys with which hosts and conductors sign their messages."""

from __future__ import annotations

from django.db import models


class HostKey(models.Model):
    """A public key of a host: its signature is the host's word. During a rotation a host has two.

    `is_due` asks the host to replace the key; one with `ends_at` counts until then.
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
    """A one-time token by which a host may hand in its first public key; only the token's hash is kept."""

    host = models.CharField(max_length=255)
    cell = models.CharField(max_length=255)
    token_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    created_at = models.DateTimeField()


class ConductorKey(models.Model):
    """A key pair that all conductors and web processes share; the private key is encrypted with the secret key.

    The one with the highest `number` whose `signs_from` has come signs. `number` rises, and is unique: of two processes
    that make a key at once one keeps its own.
    """

    number = models.PositiveIntegerField(unique=True)
    key_id = models.CharField(max_length=32, unique=True)
    public_key = models.CharField(max_length=64)
    encrypted_private_key = models.TextField()
    signs_from = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
