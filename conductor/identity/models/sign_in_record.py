"""What is remembered of sign-ins for a while, to slow guessing down."""

from __future__ import annotations

from django.db import models


class SignInRecord(models.Model):
    """A token bucket of failures, or an address that is known for an account: see `sign_in_limits`.

    A bucket is full again at `ends_at`; a known address is forgotten then. The key is a digest of what it is about.
    """

    key = models.CharField(primary_key=True, max_length=64)
    ends_at = models.DateTimeField(db_index=True)
