"""Keeps where each host joins consoles, as its agent says it."""

from __future__ import annotations

from dataclasses import asdict

from conductor.cell_db.models import ConsoleDoor
from conductor.cells.targeting import target_cell
from conductor.rpc.messages import ConsolesOffered
from conductor.transactions import database_now, write_tx

FIRST_PORT, LAST_PORT = 1, 65535


def record(cell: str, message: ConsolesOffered) -> None:
    """Take in a host's offer; one that says what is known writes nothing, one without a key or port is ignored."""
    if not (FIRST_PORT <= message.tcp_port <= LAST_PORT and message.address and message.fingerprint and message.key):
        return
    said = asdict(message)
    with target_cell(cell):
        if ConsoleDoor.objects.using(cell).filter(**said).exists():
            return
        host = said.pop("host")
        with write_tx(cell):
            ConsoleDoor.objects.using(cell).update_or_create(host=host, defaults={**said, "updated_at": database_now()})
