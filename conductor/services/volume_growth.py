"""Volumes that grow, also while servers have them: what has grown is on record among the server's actions."""

from __future__ import annotations

import logging

from django.db import DatabaseError

from conductor.core.context import RequestContext
from conductor.services import external_events, volumes
from conductor.services.external_events import ExternalEvent
from conductor.volume.models import Volume
from conductor.volume.states import IN_USE

log = logging.getLogger(__name__)


def extend(context: RequestContext, volume_id: str, size_gb: int, *, may_be_in_use: bool = False) -> Volume:
    """As volumes.extend, and its servers are told. One whose cell does not answer sees the size all the same."""
    volume = volumes.extend(context, volume_id, size_gb, may_be_in_use=may_be_in_use)
    lent = volume.attachments.filter(status=IN_USE, instance_uuid__isnull=False)
    for instance_uuid in lent.values_list("instance_uuid", flat=True):
        told = ExternalEvent("volume-extended", str(instance_uuid), tag=str(volume.uuid))
        try:
            external_events.take(context, [told])
        except DatabaseError:
            log.warning("growth not told: instance=%s volume=%s", instance_uuid, volume.uuid)
    return volume
