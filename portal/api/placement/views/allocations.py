"""/allocations: allocations of consumers, always replaced as a whole."""

from __future__ import annotations

from uuid import UUID

from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.placement import consumers_allocations
from conductor.placement.consumers_allocations import ConsumerAllocations
from portal.api.base import ApiRequest
from portal.api.microversions import since
from portal.api.placement.microversions import newest
from portal.api.placement.representations import allocations as serializers
from portal.api.placement.schemas.allocations import ONE_CONSUMER, SEVERAL_CONSUMERS
from portal.api.placement.uuids import provider_uuid
from portal.api.placement.view import PlacementView


class Allocations(PlacementView):
    """/allocations: several consumers, all or none."""

    @since("1.13")
    def post(self, request: ApiRequest) -> Response:
        self.allow("allocations:manage")
        self.json_only()
        body = self.body(newest(SEVERAL_CONSUMERS, request.microversion))
        consumers_allocations.put(serializers.requests(body, request.microversion))
        return self.done()


class ConsumerAllocation(PlacementView):
    """/allocations/{consumer}."""

    def get(self, request: ApiRequest, consumer: str) -> Response:
        self.allow("allocations:list")
        self.readable()
        found = consumers_allocations.of_consumer(consumer) if _is_uuid(consumer) else ConsumerAllocations(consumer)
        return self.answer(serializers.of_consumer(found, request.microversion))

    def put(self, request: ApiRequest, consumer: str) -> Response:
        self.allow("allocations:update")
        self.json_only()
        body = self.body(newest(ONE_CONSUMER, request.microversion))
        consumers_allocations.put([serializers.requested(consumer, body, request.microversion)])
        return self.done()

    def delete(self, request: ApiRequest, consumer: str) -> Response:
        self.allow("allocations:delete")
        if not _is_uuid(consumer):
            raise NotFound(f"No allocations for consumer '{consumer[:60]}'.")
        consumers_allocations.delete(consumer)
        return self.done()


class ProviderAllocations(PlacementView):
    """/resource_providers/{uuid}/allocations."""

    def get(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:allocations:list")
        self.readable()
        generation, found = consumers_allocations.of_provider(provider_uuid(uuid))
        return self.answer(serializers.of_provider(generation, found, request.microversion))


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
