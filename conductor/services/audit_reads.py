"""Puts on record who reads the audit log."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.journal.models import AuditRecord
from conductor.services import operator_audit
from conductor.transactions import database_now

READ, EXPORT = "audit.read", "audit.export"
# Somebody who turns pages and narrows lists reads once.
ONCE_IN_SECONDS = 600.0


def note(context: RequestContext, *, via: str, narrowed: Mapping[str, str]) -> None:
    """Somebody was shown a page of the log: "page", or "api"."""
    lately = AuditRecord.objects.using(API_ALIAS).filter(
        action=READ, user_id=context.user_id, created_at__gte=database_now(-ONCE_IN_SECONDS)
    )
    if not lately.exists():
        operator_audit.keep(context, READ, reason="", error=None, details={"via": via, "narrowed": dict(narrowed)})


def note_export(context: RequestContext, *, narrowed: Mapping[str, str]) -> None:
    """Somebody took a file of it away; each time."""
    operator_audit.keep(context, EXPORT, reason="", error=None, details={"narrowed": dict(narrowed)})
