"""Tags of projects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import QuerySet

from conductor.core.errors import Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.identity.models import Project, ProjectTag

MOST = 80


def narrowed(rows: QuerySet[Project], filters: Mapping[str, Any]) -> QuerySet[Project]:
    """Return projects with all of `tags`, one of `tags-any`, not all of `not-tags`, none of `not-tags-any`."""
    for tag in _words(filters, "tags"):
        rows = rows.filter(tags__name=tag)
    if any_of := _words(filters, "tags-any"):
        rows = rows.filter(id__in=ProjectTag.objects.filter(name__in=any_of).values("project_id"))
    if not_all := _words(filters, "not-tags"):
        holders = Project.objects.all()
        for tag in not_all:
            holders = holders.filter(tags__name=tag)
        rows = rows.exclude(id__in=holders.values("id"))
    if none_of := _words(filters, "not-tags-any"):
        rows = rows.exclude(id__in=ProjectTag.objects.filter(name__in=none_of).values("project_id"))
    return rows


def _words(filters: Mapping[str, Any], name: str) -> list[str]:
    return [word for word in str(filters.get(name) or "").split(",") if word]


def replace(project: Project, names: Iterable[str]) -> None:
    """Replace the project's tags. Raises Invalid when they are too many."""
    wanted = dict.fromkeys(names)
    if len(wanted) > MOST:
        raise Invalid(f"Invalid input for field/attribute tags. At most {MOST} items are allowed.", field="tags")
    with write_tx():
        project.tags.all().delete()
        ProjectTag.objects.bulk_create(ProjectTag(project=project, name=name) for name in wanted)


def add(project: Project, name: str) -> None:
    """Add a tag; idempotent. Raises Invalid when there are too many."""
    with write_tx():
        if not project.tags.filter(name=name).exists():
            replace(project, [*project.tags.order_by("id").values_list("name", flat=True), name])


def remove(project: Project, name: str) -> None:
    """Remove a tag. Raises NotFound."""
    with write_tx():
        removed, _ = project.tags.filter(name=name).delete()
    if not removed:
        raise NotFound(f"Could not find project tag: {name}.")
