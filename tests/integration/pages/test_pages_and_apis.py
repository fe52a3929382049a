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
from conductor.services.volumes import backups, creation
from conductor.services.volumes.backups import BackupAsk
from conductor.services.volumes.creation import VolumeAsk
from conductor.volume import messages, types
from conductor.volume.backups import BackupCreate
from portal.pages.resource_pages.catalog import BY_ID
from portal.pages.resources import service_calls
from tests import factories
from tests.api_client import ApiClient
from tests.integration.page_clients import signed_in, text

ID = "00000000-0000-4000-8000-000000000000"
QUERIES = {"role-assignments": {"include_names": "true"}}


# For each kind the path of its list in the API, and the list's name in the response.
LISTS = {
    "users": ("/identity/v3/users", "users"),
    "projects": ("/identity/v3/projects", "projects"),
    "roles": ("/identity/v3/roles", "roles"),
    "role-assignments": ("/identity/v3/role_assignments", "role_assignments"),
    "credentials": ("/identity/v3/users/{user_id}/application_credentials", "application_credentials"),
    "images": ("/image/v2/images", "images"),
    "backups": ("/volume/v3/backups/detail", "backups"),
    "volume-messages": ("/volume/v3/messages", "messages"),
}
LATEST = {"OpenStack-API-Version": "volume latest"}


@pytest.mark.parametrize("kind", LISTS)
def test_a_page_has_what_the_api_has(people: Any, kind: str) -> None:
    factories.cells()
    resource, admin = BY_ID[kind], people.admin.context()
    MADE.get(kind, lambda caller: None)(admin)
    path, key = LISTS[kind][0].format(user_id=admin.user_id), LISTS[kind][1]
    items = service_calls.list_items(admin, resource, {"limit": 100}).items
    client = ApiClient(people.admin.token())
    listed = client.get(f"{path}?{urlencode(QUERIES.get(kind, {}))}", headers=LATEST).json()[key]
    assert items
    assert [as_json(item, one) for item, one in zip(items, listed, strict=True)] == listed
    for item in () if resource.is_only_listed else items:
        ident = resource.id_of(item)
        shown = client.get(f"{path.removesuffix('/detail')}/{ident}", headers=LATEST).json()
        shown = shown.get(resource.one, shown)  # the Image API has no member around an image
        assert as_json(service_calls.get_item(admin, resource, ident), shown) == shown


def credential(caller: RequestContext) -> None:
    application_credentials.create(caller, ApplicationCredentialCreate("ci", description="for builds"))


def backup(caller: RequestContext) -> None:
    volume = creation.create(caller, VolumeAsk.parse({"name": "data", "size": 1}))
    backups.create(caller, BackupAsk(str(volume.uuid), BackupCreate(name="monday", metadata={"kept": "long"})))


def message(caller: RequestContext) -> None:
    messages.create_message(caller, messages.NO_BACKEND, "VOLUME", ID, "No storage has room for it.")


MADE: dict[str, Callable[[RequestContext], Any]] = {
    "credentials": credential,
    "images": lambda caller: factories.image("linux", caller),
    "backups": backup,
    "volume-messages": message,
}


def as_json(item: Any, shown: Any) -> Any:
    """Return the item with the rest of what the API shows, so that a value of the item that differs remains."""
    return {name: value for name, value in {**shown, **json.loads(json.dumps(item))}.items() if name != "path"}


def test_a_form_offers_what_its_lists_have(people: Any) -> None:
    factories.cells()
    image = factories.image("linux", people.admin.context())
    page = text(signed_in("admin").get("/volumes/do/create"))
    assert f'value="{image.uuid}"' in page
    assert f'value="{types.DEFAULT_NAME}"' in page
    page = text(signed_in("admin").get("/role-assignments/do/create"))
    assert all(f'value="{one}"' in page for one in (people.bo.user.id, people.bo.role.id, people.bo.project.id))
