"""Projects: create, find, change, delete, and their trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError
from django.db.models import Q, QuerySet

from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.identity import domains, project_tags, rights
from conductor.identity.domains import merged_value
from conductor.identity.listing import IdentityListQuery, narrowed, paged
from conductor.identity.models import Project
from conductor.identity.options import refuse_immutable
from conductor.identity.revocations import revoke_where

CHANGEABLE = frozenset({"name", "description", "is_enabled", "options", "extra", "tags"})
COLUMNS = {"name": "name", "domain_id": "domain_id", "enabled": "is_enabled", "id": "id"}
DEEPEST = 5  # levels, the one at the top included


def _rows() -> QuerySet[Project]:
    return Project.objects.select_related("domain").prefetch_related("tags")


def get(project_id: str) -> Project:
    """Return a project. Raises NotFound."""
    project = _rows().filter(id=project_id).first()
    if project is None:
        raise NotFound(f"Could not find project: {project_id}.")
    return project


def domain_id_of(project_id: str) -> str:
    """Return the domain of a project; empty where there is no such project."""
    return Project.objects.filter(id=project_id).values_list("domain_id", flat=True).first() or ""


def exists(project_id: str) -> bool:
    """Whether there is such a project."""
    return Project.objects.filter(id=project_id).exists()


def find(question: IdentityListQuery, ids: list[str] | None = None) -> tuple[list[Project], bool]:
    """Return a page of projects by name, and whether there are more; of `ids` only, where given."""
    rows = narrowed(_rows(), question, COLUMNS)
    parent_id = question.filters.get("parent_id")
    if parent_id is not None:
        rows = rows.filter(Q(parent_id=parent_id) | Q(parent=None, domain_id=parent_id))
    rows = project_tags.narrowed(rows, question.filters)
    return paged(rows if ids is None else rows.filter(id__in=ids), question, "name")


def parents_of(project: Project) -> list[Project]:
    """Return all ancestors, the nearest first."""
    found = {row.id: row for row in _rows().filter(id__in=project.ancestor_ids)}
    return [found[project_id] for project_id in reversed(project.ancestor_ids) if project_id in found]


def subtree_of(project: Project) -> list[Project]:
    """Return all descendants, each parent before its children."""
    below = _rows().filter(path__startswith=f"{project.path}{project.id}/")
    return sorted(below, key=lambda row: (row.path.count("/"), row.name, row.id))


def create(name: str, *, domain_id: str = domains.DEFAULT_ID, parent_id: str | None = None, **fields: Any) -> Project:
    """Create a project. Raises Conflict for a taken name, NotFound for domain or parent, Forbidden by tree rules."""
    assert fields.keys() <= CHANGEABLE, fields.keys()
    tags = fields.pop("tags", [])
    domain = domains.get(domain_id)
    try:
        with write_tx():
            parent = _parent(parent_id, domain_id)
            path = f"{parent.path}{parent.id}/" if parent else ""
            project = Project.objects.create(domain=domain, parent=parent, path=path, name=name, **fields)
            project_tags.replace(project, tags)
            return project
    except IntegrityError:
        raise _taken(name) from None


def _parent(parent_id: str | None, domain_id: str) -> Project | None:
    if parent_id in (None, domain_id):
        return None
    parent = get(str(parent_id))
    if parent.domain_id != domain_id:
        raise Invalid("Invalid input for field/attribute parent_id. The parent is in another domain.")
    chain = [parent, *parents_of(parent)]
    if len(chain) >= DEEPEST:
        raise Forbidden(f"Max hierarchy depth reached: a project stands at most {DEEPEST} levels deep.")
    _refuse_disabled(chain, f"create a project under {parent_id}")
    return parent


def _refuse_disabled(chain: list[Project], requested: str) -> None:
    for project in chain:
        if not project.is_enabled:
            raise Forbidden(f"Cannot {requested}: its branch contains the disabled project {project.id}.")


def change(project_id: str, changes: Mapping[str, Any], *, cascade: bool = False) -> Project:
    """Update the fields in `changes` (of CHANGEABLE). Disabling ends every session on the project.

    `cascade` disables or enables all descendants too; without it, an enabled subtree forbids disabling.
    """
    assert changes.keys() <= CHANGEABLE, changes.keys()
    try:
        with write_tx():
            project = get(project_id)
            refuse_immutable(project, "project", changes)
            if changes.get("is_enabled", project.is_enabled) != project.is_enabled or cascade:
                _turn(project, bool(changes.get("is_enabled")), cascade)
            for field, value in changes.items():
                if field != "tags":
                    setattr(project, field, merged_value(project, field, value))
            project.save(update_fields=sorted(changes.keys() - {"tags"}))
            if "tags" in changes:
                project_tags.replace(project, changes["tags"])
            rights.changed()
            return get(project_id)
    except IntegrityError:
        raise _taken(str(changes.get("name"))) from None


def _turn(project: Project, is_enabled: bool, cascade: bool) -> None:
    below = subtree_of(project)
    if is_enabled:
        _refuse_disabled(parents_of(project), f"enable project {project.id}")
    elif not cascade and any(row.is_enabled for row in below):
        raise Forbidden(f"Cannot disable project {project.id} since its subtree contains enabled projects.")
    turned = [project.id, *(row.id for row in below if cascade)]
    Project.objects.filter(id__in=turned).update(is_enabled=is_enabled)
    if not is_enabled:
        revoke_where(project_id__in=turned)


def delete(project_id: str, *, cascade: bool = False) -> None:
    """Delete the project with its assignments and tokens. Servers that still exist stay, visible to administrators.

    Raises Forbidden while it has descendants; `cascade` deletes those too, once all of them are disabled.
    """
    with write_tx():
        project = get(project_id)
        refuse_immutable(project, "project")
        below = subtree_of(project)
        if below and not cascade:
            raise Forbidden(f"Cannot delete the project {project_id} since it is not a leaf in the hierarchy.")
        if cascade and any(row.is_enabled for row in [project, *below]):
            raise Forbidden(f"Cannot delete project {project_id} since its subtree contains enabled projects.")
        for row in below:
            refuse_immutable(row, "project")
        Project.objects.filter(id__in=[project_id, *(row.id for row in below)]).delete()
        rights.changed()


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store project - Duplicate entry found with name {name}.")
