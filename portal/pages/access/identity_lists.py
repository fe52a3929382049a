"""Lists of users, projects, roles and credentials, for their pages and as options of forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.accounts import application_credentials, projects, roles, users
from portal.api.identity import queries
from portal.api.identity.queries import list_query
from portal.api.identity.representations import resources
from portal.api.identity.representations.delegation import application_credential_fields
from portal.pages.resources.model import Item, ItemOptions, Query


def list_users(caller: RequestContext, query: Query) -> Page[Item]:
    return _page(users.find(_wanted(query, queries.USERS)), resources.user_fields)


def list_projects(caller: RequestContext, query: Query) -> Page[Item]:
    return _page(projects.find(_wanted(query, queries.PROJECTS)), resources.project_fields)


def list_roles(caller: RequestContext, query: Query) -> Page[Item]:
    return _page(roles.find(_wanted(query, queries.ROLES)), resources.role_fields)


def list_credentials(caller: RequestContext, query: Query) -> Page[Item]:
    found = application_credentials.find(caller, _wanted(query, queries.CREDENTIALS))
    return _page(found, application_credential_fields)


def _wanted(query: Query, names: tuple[str, ...]) -> Any:
    return list_query(query, names, query.get("limit"), query.get("marker", ""))


def _page(found: tuple[list[Any], bool], fields: Callable[[Any], Item]) -> Page[Item]:
    rows, has_more = found
    return Page([fields(row) for row in rows], has_more)


USERS = ItemOptions("identity", "identity:list_users", list_users, lambda item: str(item["name"]))
PROJECTS = ItemOptions("identity", "identity:list_projects", list_projects, lambda item: str(item["name"]))
ROLES = ItemOptions("identity", "identity:list_roles", list_roles, lambda item: str(item["name"]))
