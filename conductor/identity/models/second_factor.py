"""What somebody signs in with besides the password: a key in an authenticator, and codes for when it is lost."""

from __future__ import annotations

from django.db import models

from conductor.identity.models.people import User


class SecondFactor(models.Model):
    """A key that an authenticator holds too, encrypted. It counts from `confirmed_at` on.

    `last_step` is the time step of the newest code that was taken: no code is taken twice.
    """

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="second_factor")
    encrypted_key = models.TextField()
    confirmed_at = models.DateTimeField(null=True)
    last_step = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)  # wrong codes in a row
    failed_at = models.DateTimeField(null=True)


class RecoveryCode(models.Model):
    """A code that stands in for the authenticator once; only its digest is kept."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="recovery_code_once_per_user")]
