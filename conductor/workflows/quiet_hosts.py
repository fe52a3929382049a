"""Hosts that are heard, but say nothing of a command that they were sent: its driver hangs."""

from __future__ import annotations

from django.conf import settings

from conductor.journal.models import Event, StepRecord, WorkflowRun
from conductor.transactions import database_now


def complaint(alias: str, run: WorkflowRun, record_pk: int) -> str:
    """What is wrong with a command that has waited too long for a word, be it of progress; "" while it is not."""
    long_ago = database_now(-settings.NOVELLA_COMMAND_SECONDS)
    record = StepRecord.objects.using(alias).filter(pk=record_pk, started_at__lt=long_ago).first()
    if record is None:
        return ""
    told = Event.objects.using(alias).filter(run_uuid=run.uuid, kind="step.progress", created_at__gte=long_ago)
    if told.exists():
        return ""
    seconds = f"{settings.NOVELLA_COMMAND_SECONDS:g} seconds"
    return f"Host {record.host} is up, but has said nothing of this for {seconds}: its driver seems to hang."
