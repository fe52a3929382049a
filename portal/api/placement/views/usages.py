"""/usages: the amounts in use, of a provider or by a project."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.placement import providers, usages
from portal.api.base import ApiRequest
from portal.api.microversions import since
from portal.api.placement.microversions import newest
from portal.api.placement.schemas.allocations import USAGES
from portal.api.placement.uuids import provider_uuid
from portal.api.placement.view import PlacementView


class ProviderUsages(PlacementView):
    """/resource_providers/{uuid}/usages."""

    def get(self, request: ApiRequest, uuid: str) -> Response:
        self.allow("resource_providers:usages")
        self.readable()
        provider = providers.view(provider_uuid(uuid))
        held = usages.of_provider(provider.uuid)
        return self.answer({"resource_provider_generation": provider.generation, "usages": held})


class Usages(PlacementView):
    """/usages: of a project; from 1.38 on by type of consumer. Readers see their own project's."""

    @since("1.9")
    def get(self, request: ApiRequest) -> Response:
        project_id = request.query_params.get("project_id")
        if not self.may("placement:usages:any_project"):
            self.allow("usages", target_project_id=project_id)
        self.readable()
        given = self.query(newest(USAGES, request.microversion))
        user_id = given.get("user_id")
        if not self.covers("1.38"):
            return self.answer({"usages": usages.of_project(given["project_id"], user_id)})
        found = usages.by_consumer_type(given["project_id"], user_id, given.get("consumer_type"))
        return self.answer({"usages": {name: _show(usage) for name, usage in found.items()}})


def _show(usage: usages.TypeUsage) -> dict[str, Any]:
    return {"consumer_count": usage.consumer_count, **usage.resources}
