"""Projects: create, find, change, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError

from conductor.core.errors import Conflict, NotFound
from conductor.identity import domains, tokens
from conductor.identity.models import Project
from conductor.transactions import write_tx

CHANGEABLE = frozenset({"name", "description", "is_enabled"})


def get(project_id: str) -> Project:
    """Raises NotFound."""
    project = Project.objects.select_related("domain").filter(id=project_id).first()
    if project is None:
        raise NotFound(f"Could not find project: {project_id}.")
    return project


def find(**wanted: Any) -> list[Project]:
    """Projects by name, narrowed by `name`, `domain_id`, `is_enabled`, `id__in`; None means any."""
    narrowed = {field: value for field, value in wanted.items() if value is not None}
    return list(Project.objects.filter(**narrowed).order_by("name", "id"))


def of_user(user_id: str) -> list[Project]:
    """The projects in which a user has a role, enabled or not, by name."""
    return list(Project.objects.filter(role_assignments__user_id=user_id).distinct().order_by("name", "id"))


def create(
    name: str, *, domain_id: str = domains.DEFAULT_ID, description: str = "", is_enabled: bool = True
) -> Project:
    """Raises Conflict when the domain has a project of that name, NotFound for an unknown domain."""
    domain = domains.get(domain_id)
    try:
        with write_tx():
            return Project.objects.create(domain=domain, name=name, description=description, is_enabled=is_enabled)
    except IntegrityError:
        raise _taken(name) from None


def change(project_id: str, changes: Mapping[str, Any]) -> Project:
    """Sets the fields in `changes` (of CHANGEABLE). Disabling ends every session on the project."""
    unknown = changes.keys() - CHANGEABLE
    assert not unknown, unknown
    try:
        with write_tx():
            project = get(project_id)
            for field, value in changes.items():
                setattr(project, field, value)
            project.save(update_fields=sorted(changes))
            if not project.is_enabled:
                tokens.revoke_all(project_id=project_id)
            return project
    except IntegrityError:
        raise _taken(str(changes.get("name"))) from None


def delete(project_id: str) -> None:
    """Removes the project with its assignments and tokens. Servers that still live stay, for administrators to see."""
    with write_tx():
        removed, _ = Project.objects.filter(id=project_id).delete()
    if not removed:
        raise NotFound(f"Could not find project: {project_id}.")


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store project - Duplicate entry found with name {name}.")
