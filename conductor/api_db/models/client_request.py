"""What clients asked for under keys of their own, so that asking again changes nothing."""

from __future__ import annotations

import uuid

from django.db import models


class ClientRequest(models.Model):
    """One request under one key. While `answer` is empty, somebody sees to it until `claimed_until`.

    Neither the key nor the body can be read from it: both are kept as digests, and the answer, which may hold a
    password, is sealed with the key.
    """

    key_digest = models.CharField(max_length=64, unique=True)  # of project, user and key
    fingerprint = models.CharField(max_length=64)  # of method, path, version and body
    uuid = models.UUIDField(default=uuid.uuid4)  # what is made under the key may be called so
    answer = models.TextField(default="")
    claimed_until = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
