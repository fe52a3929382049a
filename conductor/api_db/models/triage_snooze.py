"""What operators have put off in the list of what needs them."""

from __future__ import annotations

from django.db import models


class TriageSnooze(models.Model):
    """One line of the triage that somebody has put off, with how bad it was then: it comes back when it is worse."""

    key = models.CharField(max_length=300, unique=True)  # "wf:<uuid>", "host:<name>", "finding:<uuid>"
    reason = models.CharField(max_length=255)
    until = models.DateTimeField(db_index=True)
    level = models.PositiveSmallIntegerField()  # of harm; 1 is the worst
    hurt = models.PositiveIntegerField()  # how many it hurt
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255, default="")
    created_at = models.DateTimeField()
