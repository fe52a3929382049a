"""What projects mean to spend in a month."""

from __future__ import annotations

from django.db import models


class Budget(models.Model):
    """The monthly budget of a project; it warns and stops nothing.

    `thresholds` are percents of `amount`. `spent` and `forecast` are as of `counted_at`. `told_month` ("2026-01") and
    `told_percent` are the month and the highest threshold in it that were told of. `revision` rises with each change.
    """

    project_id = models.CharField(max_length=64, unique=True)
    amount = models.DecimalField(max_digits=14, decimal_places=2)
    currency = models.CharField(max_length=16)  # of the prices when it was set
    thresholds = models.JSONField(default=list)
    revision = models.PositiveIntegerField(default=1)
    set_by = models.CharField(max_length=255, default="")  # the name, as it was then
    updated_at = models.DateTimeField()
    spent = models.DecimalField(max_digits=20, decimal_places=4, default=0)
    forecast = models.DecimalField(max_digits=20, decimal_places=4, default=0)
    counted_at = models.DateTimeField(null=True)
    told_month = models.CharField(max_length=7, default="")
    told_percent = models.PositiveIntegerField(default=0)
