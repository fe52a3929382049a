"""What the guests of hosts have used, as their agents counted it."""

from __future__ import annotations

from django.db import models


class GuestCount(models.Model):
    """One count of one host: `guests` maps instance uuid to its figures, in the order of `core.guest_figures.NAMES`.

    A row per host and count, not per guest: ten thousand servers are then a handful of rows in a second.
    """

    host = models.CharField(max_length=255)
    counted_at = models.FloatField()  # in seconds since 1970, by the host's clock
    guests = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "counted_at"], name="one_count_of_host_at_a_time")]
