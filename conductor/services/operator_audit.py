"""The audit log of what operators change about the cloud itself: people, rights, limits, sizes, groups of hosts."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

from django.db import DatabaseError, InterfaceError

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.services import audit
from conductor.services.audit import LONGEST_TEXT, Entry
from conductor.transactions import write_tx

log = logging.getLogger(__name__)

SECRET = re.compile(r"pass|secret|token|credential|blob", re.IGNORECASE)
HIDDEN = "…"
LONGEST_DETAILS = 4000


def keep(
    context: RequestContext, action: str, *, reason: str, error: Exception | None, details: Mapping[str, Any]
) -> None:
    """Put a change, or its refusal, on record; after it, as a refusal has undone its transaction.

    An audit log that cannot be written does not change the answer to the person who asked: the server's log has the
    record then.
    """
    entry = Entry(
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
    """The same with passwords and their like made unreadable."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if SECRET.search(str(name)) and not isinstance(one, Mapping | list) else without_secrets(one)
            for name, one in value.items()
        }
    return [without_secrets(one) for one in value] if isinstance(value, list | tuple) else value


def _bounded(details: Mapping[str, Any]) -> dict[str, Any]:
    """Clients may send bodies of megabytes: of those the log keeps where they were sent."""
    if len(json.dumps(details, default=str)) <= LONGEST_DETAILS:
        return dict(details)
    return {name: value for name, value in details.items() if isinstance(value, str)} | {"is_cut": True}
