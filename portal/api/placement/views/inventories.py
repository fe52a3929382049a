"""/resource_providers/{uuid}/inventories: a provider's inventory of each resource class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.exceptions import MethodNotAllowed
from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.core.placement.amounts import Amount
from conductor.placement import inventories, providers
from portal.api.base import ApiRequest
from portal.api.placement.known import refuse_unknown_classes
from portal.api.placement.representations.inventories import amount, amounts, show
from portal.api.placement.schemas.inventories import ALL, NEW, ONE
from portal.api.placement.uuids import provider_uuid
from portal.api.placement.view import PlacementView


class Inventories(PlacementView):
    """All classes of a provider at once."""

    def get(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:inventories:list")
        self.readable()
        return self._show(*inventories.all_of(provider_uuid(uuid)))

    def post(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:inventories:create")
        self.json_only()
        provider = providers.view(provider_uuid(uuid))
        body = dict(self.body(NEW))
        name = body.pop("resource_class")
        refuse_unknown_classes([name], "resource_class")
        wanted = amount(name, body, request.microversion)
        generation, found = inventories.add(
            provider.uuid, name, wanted, body.get("resource_provider_generation", provider.generation)
        )
        location = f"/resource_providers/{provider.uuid}/inventories/{name}"
        return self.answer(one(generation, found[name]), status=201, location=location)

    def put(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:inventories:update")
        self.json_only()
        provider = providers.view(provider_uuid(uuid))
        body = self.body(ALL)
        refuse_unknown_classes(body["inventories"], "inventories")
        wanted = amounts(body["inventories"], request.microversion)
        return self._show(*inventories.replace(provider.uuid, wanted, body["resource_provider_generation"]))

    def delete(self, request: ApiRequest, uuid: str) -> Response:
        if not self.covers("1.5"):
            raise MethodNotAllowed("DELETE")
        self.allow("resource_providers:inventories:delete")
        inventories.delete_all(provider_uuid(uuid))
        return self.done()

    def _show(self, generation: int, found: Mapping[str, Amount]) -> Response:
        shown = {name: show(of_class) for name, of_class in found.items()}
        return self.answer({"resource_provider_generation": generation, "inventories": shown})


class Inventory(PlacementView):
    """One class of a provider."""

    def get(self, request: ApiRequest, uuid: str, name: str) -> Response:
        self.allow("resource_providers:inventories:show")
        self.readable()
        generation, found = inventories.all_of(provider_uuid(uuid))
        if name not in found:
            raise NotFound(f"No inventory of class {name[:80]} for {uuid}.")
        return self.answer(one(generation, found[name]))

    def put(self, request: ApiRequest, uuid: str, name: str) -> Response:
        self.allow("resource_providers:inventories:update")
        self.json_only()
        provider = providers.view(provider_uuid(uuid))
        body = self.body(ONE)
        wanted = amount(name, body, request.microversion)
        generation, found = inventories.put(provider.uuid, name, wanted, body["resource_provider_generation"])
        return self.answer(one(generation, found[name]))

    def delete(self, request: ApiRequest, uuid: str, name: str) -> Response:
        self.allow("resource_providers:inventories:delete")
        inventories.delete_one(provider_uuid(uuid), name)
        return self.done()


def one(generation: int, found: Amount) -> dict[str, Any]:
    """Return one inventory with the generation of its provider."""
    return {**show(found), "resource_provider_generation": generation}
