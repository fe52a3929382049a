"""Audit of what members change in their projects: networks, volumes, keys and similar resources."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from django.db import DatabaseError, InterfaceError

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.db.transactions import write_tx
from conductor.services.audit import audit, targets
from conductor.services.audit.audit import LONGEST_TEXT, AuditEntry
from conductor.services.audit.targets import AuditTarget

log = logging.getLogger(__name__)


def keep(
    context: RequestContext,
    verb: str,
    changed: Callable[[], Sequence[AuditTarget]],
    *,
    reason: str,
    error: Exception | None,
    **details: Any,
) -> None:
    """Audit a change of each target after it was made or refused. The target's project sees the record.

    Changes that a workflow carries out are skipped, as the activity page shows the workflow. If the record can't be
    written, or a database needed for `changed` is down, it goes to the server's log, and the caller's answer stays the
    same.
    """
    try:
        lines = [one for one in changed() if not targets.is_under_workflow(context, one)]
        entries = [replace(_entry(context, verb, one, reason, details), error=error) for one in lines]
        if entries:
            with write_tx(API_ALIAS):
                audit.record_all(API_ALIAS, context, entries)
    except (DatabaseError, InterfaceError):
        log.exception("audit record lost: verb=%s user=%s request=%s", verb, context.user_id, context.request_id)


def _entry(
    context: RequestContext, verb: str, subject: AuditTarget, reason: str, details: dict[str, Any]
) -> AuditEntry:
    return AuditEntry(
        action=f"{subject.kind}.{verb}"[:64],
        project_id=subject.project_id or context.project_id,
        instance_uuid=subject.id if subject.kind == targets.SERVER else None,
        reason=reason[:LONGEST_TEXT],
        details={**details, "subject": {"kind": subject.kind, "id": subject.id, "name": subject.name}},
    )
