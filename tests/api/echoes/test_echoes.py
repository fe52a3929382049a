"""What a client sent comes back as it was sent: from creation, show, list and change, for all kinds of resources."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.api.echoes.resources import RESOURCES, Resource
from tests.api.rights.scene import Names, filled, make_scene
from tests.api_client import ApiClient
from tests.fixtures.undone import undone
from tests.people import People

MADE = (200, 201, 202)
PHASES = (Phase.explicit, Phase.generate)  # a smaller example takes minutes: each of its tries is five requests


@pytest.fixture
def names(resource: Resource, people: People, settings: Any, tmp_path: Path) -> Names:
    settings.NOVELLA_DATA = tmp_path
    return make_scene(resource.api, people) if resource.is_in_scene else {}


class Collection:
    """Calls of one resource's collection."""

    def __init__(self, resource: Resource, people: People) -> None:
        self.resource = resource
        self._client = ApiClient(people[resource.caller].token())
        self._headers = {"OpenStack-API-Version": resource.version} if resource.version else {}

    def call(self, method: str, path: str = "", body: Any = None) -> dict[str, Any]:
        resource = self.resource
        sent = body if body is None or resource.is_bare else {resource.name: body}
        arguments = [] if sent is None else [sent]
        answer = self._client.call(method, f"{resource.path}{path}", *arguments, headers=self._headers)
        assert answer.status_code in MADE, (method, path, body, answer.content)
        found: dict[str, Any] = answer.json()
        return self._as_sent(found if resource.is_bare else found[resource.name])

    def listed(self, item_id: str) -> dict[str, Any]:
        answer = self._client.get(f"{self.resource.path}{self.resource.details}", headers=self._headers)
        items = next(value for value in answer.json().values() if isinstance(value, list))
        items = [item.get(self.resource.name, item) for item in items]  # each key pair has its name around it
        return self._as_sent(next(item for item in items if str(item[self.resource.id_at]) == item_id))

    def _as_sent(self, shown: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of an answer under the names that requests have for them."""
        return shown | {sent: shown[name] for sent, name in self.resource.shown_as.items() if name in shown}


def differences(sent: dict[str, Any], shown: dict[str, Any], *, may_be_absent: bool = False) -> dict[str, Any]:
    """Return the fields that came back otherwise, each with what was sent and shown. Lists of tags have no order."""
    return {
        name: (value, shown.get(name))
        for name, value in sent.items()
        if not (may_be_absent and name not in shown) and _plain(name, shown.get(name)) != _plain(name, value)
    }


def _plain(name: str, value: Any) -> Any:
    return sorted(value) if name == "tags" and value is not None else value


def check_echoes(collection: Collection, item_id: str, sent: dict[str, Any], change: dict[str, Any]) -> None:
    """Change the resource, show it and list it. Then send what was shown as one more change, which changes nothing."""
    resource, path, expected = collection.resource, f"/{quote(item_id)}", sent | change
    if change:
        assert differences(expected, collection.call(resource.changing, path, change)) == {}
    shown = collection.call("GET", path)
    assert differences(expected, shown) == {}
    assert differences(expected, collection.listed(item_id), may_be_absent=True) == {}
    if change:
        again = collection.call(resource.changing, path, {name: shown[name] for name in resource.fields})
        assert differences({name: shown[name] for name in expected}, again) == {}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: f"{one.name}-{len(one.fixed)}")
def test_written_fields_are_returned_as_they_were_sent(resource: Resource, people: People, names: Names) -> None:
    collection = Collection(resource, people)

    @settings(max_examples=6, phases=PHASES, suppress_health_check=list(HealthCheck))
    @given(body=resource.bodies(), change=resource.changes() if resource.fields else st.just({}))
    def played(body: dict[str, Any], change: dict[str, Any]) -> None:
        sent = filled(body, names)
        with undone():
            made = collection.call("POST", body=filled(dict(resource.sent_only), names) | sent)
            assert differences(sent, made, may_be_absent=resource.is_made_bare) == {}
            check_echoes(collection, str(made[resource.id_at]), sent, change)

    played()


@pytest.mark.parametrize("resource", [one for one in RESOURCES if one.name == "server"], ids=lambda one: one.name)
def test_changes_of_a_server_with_a_host_come_back(resource: Resource, people: People, names: Names) -> None:
    """The test above changes servers that have no cell yet."""
    collection = Collection(resource, people)

    @settings(max_examples=6, phases=PHASES, suppress_health_check=list(HealthCheck))
    @given(change=resource.changes())
    def played(change: dict[str, Any]) -> None:
        with undone():
            check_echoes(collection, names["web"], {}, change)

    played()
