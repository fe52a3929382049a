"""The audit log of what members change about the things of their projects: networks, volumes, keys and their like."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from django.db import DatabaseError, InterfaceError

from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.services import audit, subjects
from conductor.services.audit import LONGEST_TEXT, Entry
from conductor.services.subjects import Subject
from conductor.transactions import write_tx

log = logging.getLogger(__name__)


def keep(
    context: RequestContext,
    verb: str,
    changed: Callable[[], Sequence[Subject]],
    *,
    reason: str,
    error: Exception | None,
    **details: Any,
) -> None:
    """Put on record what was done to each, after it was done, or was refused; whose thing it is sees it.

    What a workflow carries out has its line on the page of activity by that. An audit log that cannot be written does
    not change the answer to the person who asked, nor does a database that is not there to say what `changed`: the
    server's log has the record then.
    """
    try:
        told = [one for one in changed() if not subjects.is_under_workflow(context, one)]
        entries = [replace(_entry(context, verb, one, reason, details), error=error) for one in told]
        if entries:
            with write_tx(API_ALIAS):
                audit.record_all(API_ALIAS, context, entries)
    except (DatabaseError, InterfaceError):
        log.exception("audit record lost: verb=%s user=%s request=%s", verb, context.user_id, context.request_id)


def _entry(context: RequestContext, verb: str, subject: Subject, reason: str, details: dict[str, Any]) -> Entry:
    return Entry(
        action=f"{subject.kind}.{verb}"[:64],
        project_id=subject.project_id or context.project_id,
        instance_uuid=subject.id if subject.kind == subjects.SERVER else None,
        reason=reason[:LONGEST_TEXT],
        details={**details, "subject": {"kind": subject.kind, "id": subject.id, "name": subject.name}},
    )
