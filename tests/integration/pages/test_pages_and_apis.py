"""Pages of resources read through services what clients read through the API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from conductor.core.context import RequestContext
from conductor.identity.application_credentials import ApplicationCredentialCreate
from conductor.services.accounts import application_credentials
from portal.pages.resource_pages.catalog import BY_ID
from portal.pages.resources import service_calls
from tests import factories
from tests.api_client import ApiClient

QUERIES = {"role-assignments": {"include_names": "true"}}


@pytest.mark.parametrize("kind", ["users", "projects", "roles", "role-assignments", "credentials", "images"])
def test_a_page_has_what_the_api_has(people: Any, kind: str) -> None:
    factories.cells()
    resource, admin = BY_ID[kind], people.admin.context()
    MADE.get(kind, lambda caller: None)(admin)
    path = resource.path.format(user_id=admin.user_id)
    items = service_calls.list_items(admin, resource, {**resource.query, "limit": 100}).items
    client = ApiClient(people.admin.token())
    listed = client.get(f"{path}?{urlencode(QUERIES.get(kind, {}))}").json()[resource.key]
    assert items
    assert [as_json(item, one) for item, one in zip(items, listed, strict=True)] == listed
    for item in () if resource.is_only_listed else items:
        ident = resource.id_of(item)
        shown = client.get(f"{resource.path_of or path}/{ident}").json()
        shown = shown if resource.is_whole else shown[resource.one]
        assert as_json(service_calls.get_item(admin, resource, ident), shown) == shown


def credential(caller: RequestContext) -> None:
    application_credentials.create(caller, ApplicationCredentialCreate("ci", description="for builds"))


MADE: dict[str, Callable[[RequestContext], Any]] = {
    "credentials": credential,
    "images": lambda caller: factories.image("linux", caller),
}


def as_json(item: Any, shown: Any) -> Any:
    """Return the item with the rest of what the API shows, so that a value of the item that differs remains."""
    return {name: value for name, value in {**shown, **json.loads(json.dumps(item))}.items() if name != "path"}
