"""What comes round for images, volumes and ports: finish or remove what a process that died left half done."""

from __future__ import annotations

import logging
from collections.abc import Callable

from conductor.journal import foreign_locks
from conductor.network import ports
from conductor.services import server_images, server_volumes, volumes
from conductor.transactions import write_tx

log = logging.getLogger(__name__)

# How long a port that was made for a guest may wait for the workflow that plugs it.
ABANDONED_SECONDS = 300.0


def settle_ports() -> int:
    """Remove or give back ports that were bound to a guest and have no workflow, which would lock them; counts them.

    The process that bound them died before it could open the workflow.
    """
    removed = 0
    for port_id, instance_uuid in ports.abandoned(ABANDONED_SECONDS):
        with write_tx():
            if foreign_locks.holder_of(f"port:{port_id}") is None:
                ports.unplug_one(instance_uuid, port_id)
                removed += 1
    return removed


ROUND: tuple[tuple[str, Callable[[], int]], ...] = (
    ("volumes finished", volumes.settle_all),
    ("volumes of deleted servers freed", server_volumes.release_of_gone),
    ("abandoned images removed", server_images.settle_abandoned),
    ("abandoned ports removed", settle_ports),
    ("shelved servers offloaded", server_images.offload_due),
)


def tend() -> None:
    """One round of all; what fails does not keep the rest from its turn."""
    for what, work in ROUND:
        try:
            count = work()
        except Exception:
            log.exception("upkeep failed: %s", what)
            continue
        if count:
            log.info("upkeep: %s=%d", what, count)
