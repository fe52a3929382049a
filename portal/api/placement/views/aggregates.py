"""/resource_providers/{uuid}/aggregates: the aggregates of a provider."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.placement import aggregates, providers
from portal.api.base import ApiRequest
from portal.api.microversions import since
from portal.api.placement.microversions import newest
from portal.api.placement.schemas.providers import SET_AGGREGATES
from portal.api.placement.uuids import provider_uuid, uuid_of
from portal.api.placement.view import PlacementView


class Aggregates(PlacementView):
    """Aggregates; before 1.19 a bare list, without a check of the generation."""

    @since("1.1")
    def get(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:aggregates:list")
        self.readable()
        generation, found = aggregates.of_provider(provider_uuid(uuid))
        return self._show(generation, found)

    @since("1.1")
    def put(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:aggregates:update")
        self.json_only()
        provider = providers.view(provider_uuid(uuid))
        body = self.body(newest(SET_AGGREGATES, request.microversion))
        is_checked = self.covers("1.19")
        wanted = body["aggregates"] if is_checked else body
        expected = body["resource_provider_generation"] if is_checked else None
        names = [str(uuid_of(name)) for name in wanted]
        generation, _ = aggregates.set_of_provider(provider.uuid, names, expected)
        return self._show(generation, names)  # in the order of the request

    def _show(self, generation: int, names: list[str]) -> Response:
        shown = {"resource_provider_generation": generation} if self.covers("1.19") else {}
        return self.answer({"aggregates": names, **shown})
