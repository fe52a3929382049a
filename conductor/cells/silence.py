"""Whether a compute host is heard: asked by parked runs before they give up on it."""

from __future__ import annotations

from django.conf import settings

from conductor.cell_db.models import Service
from conductor.transactions import database_now

BINARY = "nova-compute"


def is_silent(alias: str, host: str) -> bool:
    """True when the host was never heard, is forced down, or was not heard for `host_down_seconds`."""
    heard = Service.objects.using(alias).filter(
        binary=BINARY,
        host=host,
        is_forced_down=False,
        last_seen_at__gt=database_now(-settings.NOVELLA_HOST_DOWN_SECONDS),
    )
    return not heard.exists()
