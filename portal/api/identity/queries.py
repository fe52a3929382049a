"""Queries of Identity's lists, from the parameters of a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from conductor.core.errors import Invalid
from conductor.identity.assignments import AssignmentFilter
from conductor.identity.listing import OPERATORS, IdentityListQuery
from portal.api.validation import as_boolean

USERS = ("name", "domain_id", "enabled", "email", "default_project_id")
PROJECTS = ("name", "domain_id", "enabled", "parent_id", "tags", "tags-any", "not-tags", "not-tags-any")
ROLES = ("name", "domain_id")
CREDENTIALS = ("name",)
LONGEST_FILTER = 255


def list_query(
    parameters: Mapping[str, Any], names: Collection[str], limit: int | None, marker: str
) -> IdentityListQuery:
    """Return the query of a page, with those filters that are among `names`. Raises Invalid."""
    filters: dict[str, Any] = {}
    for name in parameters:
        plain, _, operator = name.partition("__")
        if plain in names and operator in ("", *OPERATORS):
            filters[name] = _parsed(name, parameters[name])
    return IdentityListQuery(filters, limit, marker)


def assignment_filter(
    parameters: Mapping[str, Any], *, is_inherited: bool | None = None, with_subtree: bool = False
) -> AssignmentFilter:
    """Return the filter of a list of role assignments. Raises Invalid for filters that exclude each other."""
    system = parameters.get("scope.system")
    wanted = AssignmentFilter(
        role_id=parameters.get("role.id"),
        user_id=parameters.get("user.id"),
        group_id=parameters.get("group.id"),
        project_id=parameters.get("scope.project.id"),
        domain_id=parameters.get("scope.domain.id"),
        is_on_system=None if system is None else as_boolean(_truth(system), "scope.system"),
        is_inherited=is_inherited,
        with_subtree=with_subtree,
    )
    targets: list[Any] = [wanted.project_id, wanted.domain_id, wanted.is_on_system]
    if sum(target is not None for target in targets) > 1:
        raise Invalid("Specify a domain or a project or the system, not several.")
    if wanted.user_id is not None and wanted.group_id is not None:
        raise Invalid("Specify a user or a group, not both.")
    if wanted.with_subtree and wanted.project_id is None:
        raise Invalid("include_subtree asks about a project: name it in scope.project.id.")
    return wanted


def _truth(word: str) -> str:
    """Return "true" for an empty word and for `all`, which some clients send for true; other words unchanged."""
    return "true" if word in ("", "all") else word


def _parsed(name: str, value: str) -> Any:
    if len(value) > LONGEST_FILTER or "\0" in value:
        raise Invalid(f"Invalid input for query parameter {name}. It is too long.", field=name)
    if name == "enabled":
        return as_boolean(value or "true", name)
    return value
