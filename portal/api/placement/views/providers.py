"""/resource_providers: providers of resources, single or in trees."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.placement import providers
from portal.api.base import ApiRequest
from portal.api.microversions import Microversion
from portal.api.placement.known import refuse_unknown_classes, refuse_unknown_traits
from portal.api.placement.microversions import newest
from portal.api.placement.representations import queries
from portal.api.placement.representations.queries import AggregateQuery, TraitQuery
from portal.api.placement.schemas import providers as schemas
from portal.api.placement.uuids import provider_uuid, uuid_of
from portal.api.placement.view import ROOT, PlacementView

# Links with the first version that has their target.
_LINKS = (
    ("1.0", "inventories"),
    ("1.0", "usages"),
    ("1.1", "aggregates"),
    ("1.6", "traits"),
    ("1.11", "allocations"),
)


def show(provider: providers.ProviderView, version: Microversion) -> dict[str, Any]:
    """Return a provider in the format of the version."""
    path = f"{ROOT}/resource_providers/{provider.uuid}"
    links = [{"rel": "self", "href": path}]
    links += [{"rel": rel, "href": f"{path}/{rel}"} for first, rel in _LINKS if version.covers(first)]
    shown = {"uuid": provider.uuid, "name": provider.name, "generation": provider.generation, "links": links}
    if version.covers("1.14"):
        shown |= {"parent_provider_uuid": provider.parent_uuid, "root_provider_uuid": provider.root_uuid}
    return shown


class Providers(PlacementView):
    """/resource_providers."""

    def get(self, request: ApiRequest) -> Response:
        self.allow("resource_providers:list")
        self.readable()
        found = providers.search(**self._filters())
        return self.answer({"resource_providers": [show(provider, request.microversion) for provider in found]})

    def _filters(self) -> dict[str, Any]:
        version, params = self.request.microversion, self.request.query_params
        given = self.query(newest(schemas.LIST, version))
        member_of = params.getlist("member_of")
        places = queries.aggregates(member_of, version) if member_of else AggregateQuery()
        wanted = queries.traits(params.getlist("required"), version) if "required" in given else TraitQuery()
        amounts = queries.resources(given["resources"]) if "resources" in given else {}
        refuse_unknown_classes(amounts, "resources")
        refuse_unknown_traits(wanted.names, "required")
        return {
            "name": given.get("name"),
            "uuid": uuid_of(given["uuid"]) if "uuid" in given else None,
            "in_tree": uuid_of(given["in_tree"]) if "in_tree" in given else None,
            "member_of": places.member_of,
            "forbidden_aggregates": places.forbidden,
            "required": wanted.required,
            "forbidden": wanted.forbidden,
            "resources": amounts,
        }

    def post(self, request: ApiRequest) -> Response:
        self.allow("resource_providers:create")
        self.json_only()
        body = self.body(newest(schemas.CREATE, request.microversion))
        made = providers.create(
            body["name"], uuid=uuid_of(body.get("uuid")), parent=uuid_of(body.get("parent_provider_uuid"))
        )
        location = f"/resource_providers/{made.uuid}"
        if not self.covers("1.20"):
            return self.done(status=201, location=location)
        return self.answer(show(made, request.microversion), location=location)


class Provider(PlacementView):
    """/resource_providers/{uuid}."""

    def get(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:show")
        self.readable()
        return self.answer(show(providers.view(provider_uuid(uuid)), request.microversion))

    def put(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:update")
        self.json_only()
        found = providers.view(provider_uuid(uuid))
        body = self.body(newest(schemas.UPDATE, request.microversion))
        parent = uuid_of(body["parent_provider_uuid"]) if "parent_provider_uuid" in body else found.parent_uuid
        saved = providers.update(found.uuid, body["name"], parent, may_reparent=self.covers("1.37"))
        return self.answer(show(saved, request.microversion))

    def delete(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:delete")
        providers.delete(provider_uuid(uuid))
        return self.done()
