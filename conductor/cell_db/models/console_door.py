"""Where the hosts of a cell join consoles."""

from __future__ import annotations

from django.db import models


class ConsoleDoor(models.Model):
    """What a console proxy must know to reach the guests of one host; `key` is a secret that no page shows."""

    host = models.CharField(max_length=255, unique=True)
    address = models.CharField(max_length=255)
    tcp_port = models.PositiveIntegerField()
    fingerprint = models.CharField(max_length=64)  # SHA-256 of the host's certificate
    key = models.CharField(max_length=64)
    updated_at = models.DateTimeField()
