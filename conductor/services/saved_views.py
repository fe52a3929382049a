"""Views of lists that people keep: their own in each project. The view itself is an address, which anyone may open."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from conductor.api_db.models import SavedView
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.transactions import database_now, write_tx

MOST = 30
LONGEST_NAME = 60
LONGEST_QUERY = 1000


@dataclass(frozen=True)
class SavedViewView:
    """One kept view. `query` goes behind the question mark of the list's address."""

    uuid: str
    name: str
    query: str


def list_of(context: RequestContext, page: str) -> list[SavedViewView]:
    """What the asker keeps of a page, by name."""
    return [SavedViewView(str(row.uuid), row.name, row.query) for row in _mine(context, page).order_by("name")]


def save(context: RequestContext, page: str, name: str, query: str) -> SavedViewView:
    """Keep a view under a name; the same name again replaces it. Raises Invalid, Conflict when it is one too many."""
    said = " ".join(name.split())
    if not said or len(said) > LONGEST_NAME:
        raise Invalid(f"name takes 1 to {LONGEST_NAME} characters.", field="name")
    if len(query) > LONGEST_QUERY:
        raise Invalid(f"query takes at most {LONGEST_QUERY} characters.", field="query")
    with write_tx():
        mine = _mine(context, page)
        if mine.exclude(name=said).count() >= MOST:
            raise Conflict(f"There are {MOST} kept views already; delete one first.")
        row, _ = mine.update_or_create(
            page=page, user_id=context.user_id, project_id=context.project_id, name=said,
            defaults={"query": query}, create_defaults={"query": query, "created_at": database_now()},
        )  # fmt: skip
    return SavedViewView(str(row.uuid), row.name, row.query)


def delete(context: RequestContext, page: str, view_uuid: UUID | str) -> None:
    """Forget one of the asker's own. Raises NotFound."""
    known = uuid_or_none(str(view_uuid))
    with write_tx():
        gone, _ = _mine(context, page).filter(uuid=known).delete() if known else (0, {})
    if not gone:
        raise NotFound("There is no such view.")


def _mine(context: RequestContext, page: str) -> QuerySet[SavedView]:
    return SavedView.objects.filter(page=page, user_id=context.user_id, project_id=context.project_id)
