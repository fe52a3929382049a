"""Periodic cleanup of images, volumes and ports: finishes or removes what a dead process left half done."""

from __future__ import annotations

import logging
from collections.abc import Callable

from conductor.db.transactions import write_tx
from conductor.journal import locks
from conductor.network import ports
from conductor.services.servers import server_images, server_volumes, volume_images
from conductor.services.volumes import volumes

log = logging.getLogger(__name__)


def settle_ports() -> int:
    """Remove or release ports that are bound to a guest, not plugged, and locked by no workflow. Return how many.

    A port is bound in the transaction that locks it for its workflow. Without a lock, the process that bound it died
    before it could start the workflow, and the sweep of locks has released the lock since.
    """
    removed = 0
    for port_id, instance_uuid in ports.not_plugged_yet():
        with write_tx():
            if locks.holder_of(f"port:{port_id}") is None:
                ports.unplug_one(instance_uuid, port_id)
                removed += 1
    return removed


ROUND: tuple[tuple[str, Callable[[], int]], ...] = (
    ("volumes finished", volumes.settle_all),
    ("volumes of deleted servers freed", server_volumes.release_of_gone),
    ("abandoned images removed", server_images.settle_abandoned),
    ("data of deleted images released", volume_images.settle_released),
    ("abandoned ports removed", settle_ports),
    ("shelved servers offloaded", server_images.offload_due),
)


def tend() -> None:
    """Run all cleanups once; one that fails does not stop the others."""
    for what, work in ROUND:
        try:
            count = work()
        except Exception:
            log.exception("upkeep failed: %s", what)
            continue
        if count:
            log.info("upkeep: %s=%d", what, count)
