"""Endpoint filters: catalogs of single projects, restricted to endpoints or endpoint groups.

A project with any endpoint or group sees only these in its catalogs; a project without any sees
all. The filters do not restrict access to a service.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError

from conductor.core.errors import Conflict, NotFound
from conductor.db.transactions import write_tx
from conductor.identity import projects
from conductor.identity.models import EndpointGroup, Project, ProjectEndpoint


@dataclass(frozen=True)
class CatalogFilter:
    """The visible part of a catalog."""

    endpoint_ids: Collection[str]
    filters: Collection[Mapping[str, str]]

    def keeps(self, endpoint: Mapping[str, Any]) -> bool:
        """Whether an endpoint with its id, service_id, region_id and interface is visible."""
        return endpoint["id"] in self.endpoint_ids or any(is_in(endpoint, filters) for filters in self.filters)


def is_in(endpoint: Mapping[str, Any], filters: Mapping[str, str]) -> bool:
    """Whether a group with these filters has the endpoint."""
    return all(endpoint[name] == value for name, value in filters.items())


def narrowing(project_id: str) -> CatalogFilter | None:
    """Return the project's filter; None for a project that sees all."""
    ids = frozenset(ProjectEndpoint.objects.filter(project_id=project_id).values_list("endpoint_id", flat=True))
    filters = list(EndpointGroup.objects.filter(projects=project_id).values_list("filters", flat=True))
    return CatalogFilter(ids, filters) if ids or filters else None


def add(project_id: str, endpoint_id: str) -> None:
    """Add an endpoint. Raises NotFound for the project, Conflict where it has the endpoint."""
    project = projects.get(project_id)
    try:
        with write_tx():
            ProjectEndpoint.objects.create(project=project, endpoint_id=endpoint_id)
    except IntegrityError:
        raise Conflict(f"Endpoint {endpoint_id} is already associated with project {project_id}.") from None


def has(project_id: str, endpoint_id: str) -> bool:
    return ProjectEndpoint.objects.filter(project_id=project_id, endpoint_id=endpoint_id).exists()


def remove(project_id: str, endpoint_id: str) -> None:
    """Remove an endpoint. Raises NotFound."""
    with write_tx():
        gone, _ = ProjectEndpoint.objects.filter(project_id=project_id, endpoint_id=endpoint_id).delete()
    if not gone:
        raise NotFound(f"Could not find endpoint {endpoint_id} of project {project_id}.")


def projects_of(endpoint_id: str) -> list[Project]:
    found = Project.objects.filter(endpoints__endpoint_id=endpoint_id)
    return list(found.prefetch_related("tags").order_by("name", "id"))


def groups(name: str | None = None) -> list[EndpointGroup]:
    """Return all groups, or those of that name."""
    found = EndpointGroup.objects.order_by("name")
    return list(found if name is None else found.filter(name=name))


def group(group_id: str) -> EndpointGroup:
    """Return a group. Raises NotFound."""
    found = EndpointGroup.objects.filter(id=group_id).first()
    if found is None:
        raise NotFound(f"Could not find endpoint group: {group_id}.")
    return found


def create_group(fields: Mapping[str, Any]) -> EndpointGroup:
    """Create a group. Raises Conflict for a taken name."""
    try:
        with write_tx():
            return EndpointGroup.objects.create(**fields)
    except IntegrityError:
        raise _taken(fields["name"]) from None


def change_group(group_id: str, changes: Mapping[str, Any]) -> EndpointGroup:
    """Update a group. Raises NotFound, and Conflict for a taken name. Filters that are not given stay."""
    try:
        with write_tx():
            row = group(group_id)
            for name, value in changes.items():
                setattr(row, name, {**row.filters, **value} if name == "filters" else value)
            if changes:
                row.save(update_fields=sorted(changes))
            return row
    except IntegrityError:
        raise _taken(changes["name"]) from None


def delete_group(group_id: str) -> None:
    """Delete a group. Raises NotFound."""
    with write_tx():
        group(group_id).delete()


def add_group(group_id: str, project_id: str) -> None:
    """Add a group to a project. Raises NotFound for either, Conflict where the project has the group."""
    with write_tx():
        row, project = group(group_id), projects.get(project_id)
        if row.projects.filter(pk=project.pk).exists():
            raise Conflict(f"Endpoint group {group_id} is already associated with project {project_id}.")
        row.projects.add(project)


def group_of(group_id: str, project_id: str) -> EndpointGroup:
    """Return a project's group. Raises NotFound where the project does not have it."""
    found = EndpointGroup.objects.filter(id=group_id, projects=project_id).first()
    if found is None:
        raise NotFound(f"Could not find endpoint group {group_id} of project {project_id}.")
    return found


def remove_group(group_id: str, project_id: str) -> None:
    """Remove a group from a project. Raises NotFound."""
    with write_tx():
        group_of(group_id, project_id).projects.remove(projects.get(project_id))


def groups_of(project_id: str) -> list[EndpointGroup]:
    """Return a project's groups. Raises NotFound for the project."""
    return list(projects.get(project_id).endpoint_groups.order_by("name"))


def projects_with(group_id: str) -> list[Project]:
    """Return the projects with a group. Raises NotFound for the group."""
    return list(group(group_id).projects.prefetch_related("tags").order_by("name", "id"))


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store endpoint group - Duplicate name, {name}.")
