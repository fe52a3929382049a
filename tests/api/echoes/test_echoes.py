"""What a client sent comes back as it was sent: from creation, show, list and change, for all kinds of resources."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.echoes.resources import RESOURCES, Resource
from tests.api.rights.scene import Names, filled, make_scene
from tests.api_client import ApiClient
from tests.fixtures.undone import undone
from tests.people import People

MADE = (200, 201, 202)


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
        return found if resource.is_bare else found[resource.name]

    def listed(self, item_id: str) -> dict[str, Any]:
        answer = self._client.get(self.resource.path, headers=self._headers)
        items = next(value for value in answer.json().values() if isinstance(value, list))
        items = [item.get(self.resource.name, item) for item in items]  # each key pair has its name around it
        return next(item for item in items if str(item[self.resource.id_at]) == item_id)


def differences(sent: dict[str, Any], shown: dict[str, Any], *, may_be_absent: bool = False) -> dict[str, Any]:
    """Return the fields that came back otherwise, each with what was sent and shown. Lists of tags have no order."""
    return {
        name: (value, shown.get(name))
        for name, value in sent.items()
        if not (may_be_absent and name not in shown) and _plain(name, shown.get(name)) != _plain(name, value)
    }


def _plain(name: str, value: Any) -> Any:
    return sorted(value) if name == "tags" and value is not None else value


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: f"{one.name}-{len(one.fixed)}")
def test_what_is_sent_comes_back(resource: Resource, people: People, names: Names) -> None:
    collection = Collection(resource, people)

    @settings(max_examples=6, suppress_health_check=list(HealthCheck))
    @given(body=resource.bodies(), change=resource.changes() if resource.fields else st.just({}))
    def played(body: dict[str, Any], change: dict[str, Any]) -> None:
        sent = filled(body, names)
        with undone():
            made = collection.call("POST", body=sent)
            path, before = f"/{quote(item_id := str(made[resource.id_at]))}", sent
            assert differences(sent, made, may_be_absent=resource.name == "volume_type") == {}
            if change:
                changed = collection.call(resource.changing, path, change)
                before = sent | change
                assert differences(before, changed) == {}
            shown = collection.call("GET", path)
            assert differences(before, shown) == {}
            assert differences(before, collection.listed(item_id), may_be_absent=True) == {}
            if change:  # the answer is a body of a change that changes nothing
                again = collection.call(resource.changing, path, {name: shown[name] for name in resource.fields})
                assert differences({name: shown[name] for name in before}, again) == {}

    played()
