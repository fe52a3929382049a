"""/reshaper: replaces inventories and allocations together, as when a part of a host becomes a provider of its own."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.placement.reshape import reshape
from portal.api.base import ApiRequest
from portal.api.microversions import since
from portal.api.placement.known import refuse_unknown_classes
from portal.api.placement.microversions import newest
from portal.api.placement.representations import allocations, inventories
from portal.api.placement.schemas.allocations import RESHAPE
from portal.api.placement.uuids import uuid_in
from portal.api.placement.view import PlacementView


class Reshaper(PlacementView):
    """/reshaper."""

    @since("1.30")
    def post(self, request: ApiRequest) -> Response:
        self.allow("reshaper:reshape")
        self.json_only()
        version = request.microversion
        body = self.body(newest(RESHAPE, version))
        stocks = {}
        for uuid, stock in body["inventories"].items():
            refuse_unknown_classes(stock["inventories"], f"inventories.{uuid}")
            amounts = inventories.amounts(stock["inventories"], version)
            stocks[uuid_in(uuid, "inventories")] = (stock["resource_provider_generation"], amounts)
        reshape(stocks, allocations.requests(body["allocations"], version))
        return self.done()
