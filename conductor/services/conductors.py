"""Conductors as services of a cell: each process says that it lives, and operators see it beside the hosts."""

from __future__ import annotations

from conductor.cell_db.models import Service
from conductor.rpc.versions import SERVICE_VERSION
from conductor.transactions import database_now, write_tx

BINARY = "nova-conductor"


def record(cell: str, name: str) -> None:
    """The conductor `name` of `cell` is alive now; the first time it gets its row."""
    with write_tx(cell):
        ours = Service.objects.using(cell).filter(binary=BINARY, host=name)
        if not ours.update(last_seen_at=database_now(), version=SERVICE_VERSION):
            Service.objects.using(cell).get_or_create(
                binary=BINARY,
                host=name,
                defaults={
                    "version": SERVICE_VERSION,
                    "availability_zone": "internal",
                    "last_seen_at": database_now(),
                    "created_at": database_now(),
                },
            )
