"""Audit of refused messages: one audit record a minute at most, however many there were."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from django.db import DatabaseError, InterfaceError

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import system_context
from conductor.core.errors import Forbidden
from conductor.db.transactions import write_tx
from conductor.rpc import trust
from conductor.rpc.messages import RefusalsCounted
from conductor.rpc.refusals import MOST_ROWS, RefusalCount, Refusals, row_from_json
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry

log = logging.getLogger(__name__)

ACTION = "message.refuse"
_refusals = Refusals()


def listen() -> None:
    """Count messages that this process refuses from now on."""
    trust.on_refusal(_refusals.note)


def record(cell: str, message: RefusalsCounted) -> None:
    """Record the messages that a host refused."""
    for data in message.refusals[:MOST_ROWS]:
        row = row_from_json(message.host, data) if isinstance(data, Mapping) else None
        if row is not None:
            _refusals.add(row)


def flush(*, is_urgent: bool = False) -> None:
    """Write the counts to the audit log when it is time. If the database is down, only the process's log has them."""
    rows = _refusals.take(is_urgent=is_urgent)
    if not rows:
        return
    log.warning("messages refused: %s", describe(rows))
    context = system_context()
    entry = AuditEntry(
        action=ACTION,
        project_id=context.project_id,
        error=Forbidden(describe(rows)),
        details={"refusals": [row.to_json() for row in rows]},
    )
    try:
        with write_tx(API_ALIAS):
            audit.record(API_ALIAS, context, entry)
    except (DatabaseError, InterfaceError):
        log.exception("audit record lost: action=%s", ACTION)


def describe(rows: Iterable[RefusalCount]) -> str:
    """Describe the refused messages in a sentence."""
    return "; ".join(
        f"{row.times} of {row.kind or 'unknown kind'} from {row.sender or 'an unknown sender'}"
        f"{f' at {row.host}' if row.host else ''}: {trust.CAUSES.get(row.cause, row.cause)}"
        for row in rows
    )
