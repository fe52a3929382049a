"""Audit of what operators change in the cloud itself: users, rights, limits, flavors, groups of hosts."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

from django.db import DatabaseError, InterfaceError

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import AuditRecord
from conductor.services.audit import audit
from conductor.services.audit.audit import LONGEST_TEXT, AuditEntry

log = logging.getLogger(__name__)

SECRET = re.compile(r"pass|secret|token|credential|blob", re.IGNORECASE)
HIDDEN = "…"
LONGEST_DETAILS = 4000


def keep(
    context: RequestContext, action: str, *, reason: str, error: Exception | None, details: Mapping[str, Any]
) -> None:
    """Audit a change, or its refusal, afterwards, as a refusal has rolled back its transaction.

    If the record can't be written, it goes to the server's log, and the caller's answer stays the same.
    """
    entry = AuditEntry(
        action=action[:64],
        project_id=context.project_id,
        reason=reason[:LONGEST_TEXT],
        error=error,
        details=_bounded(without_secrets(details)),
    )
    try:
        with write_tx(API_ALIAS):
            audit.record(API_ALIAS, context, entry)
    except (DatabaseError, InterfaceError):
        log.exception("audit record lost: action=%s user=%s request=%s", action, context.user_id, context.request_id)


def without_secrets(value: Any) -> Any:
    """Return the value with passwords and other secrets masked."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if SECRET.search(str(name)) and not isinstance(one, Mapping | list) else without_secrets(one)
            for name, one in value.items()
        }
    return [without_secrets(one) for one in value] if isinstance(value, list | tuple) else value


def _bounded(details: Mapping[str, Any]) -> dict[str, Any]:
    """Limit the size of details: of a client's body of megabytes only the top level's texts are kept."""
    if len(json.dumps(details, default=str)) <= LONGEST_DETAILS:
        return dict(details)
    return {name: value for name, value in details.items() if isinstance(value, str)} | {"is_cut": True}


READ, EXPORT = "audit.read", "audit.export"
# A user who pages through a list and changes its filters counts as one read.
ONCE_IN_SECONDS = 600.0


def note(context: RequestContext, *, via: str, narrowed: Mapping[str, str]) -> None:
    """Audit that the caller read a page of the log via "page" or "api"."""
    lately = AuditRecord.objects.using(API_ALIAS).filter(
        action=READ, user_id=context.user_id, created_at__gte=database_now(-ONCE_IN_SECONDS)
    )
    if not lately.exists():
        keep(context, READ, reason="", error=None, details={"via": via, "narrowed": dict(narrowed)})


def note_export(context: RequestContext, *, narrowed: Mapping[str, str]) -> None:
    """Audit that the caller exported the log to a file. Each export is recorded."""
    keep(context, EXPORT, reason="", error=None, details={"narrowed": dict(narrowed)})
