"""What clients ask about the API itself: versions, extensions, quotas, and things that are not offered."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.response import Response

from conductor.core.errors import NotFound
from portal.api.base import ApiRequest
from portal.api.discovery import DiscoveryView, version_entry
from portal.api.links import absolute
from portal.api.network.extensions import EXTENSIONS
from portal.api.network.resources import RESOURCES
from portal.api.network.view import NetworkView

UNLIMITED = -1
QUOTAS = ("network", "subnet", "subnetpool", "port", "security_group", "security_group_rule")


class Root(DiscoveryView):
    """/network: the one version."""

    service = "network"

    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"versions": [version_entry(request, "v2.0", path="/network/v2.0/", status="CURRENT")]}


class V2(DiscoveryView):
    """/network/v2.0: its collections."""

    service = "network"

    def document(self, request: ApiRequest) -> dict[str, Any]:
        return {"resources": [self._entry(request, segment) for segment in RESOURCES]}

    def _entry(self, request: ApiRequest, segment: str) -> dict[str, Any]:
        link = {"rel": "self", "href": absolute(request, f"/network/v2.0/{segment}")}
        resource = RESOURCES[segment]
        return {"name": resource.rule, "collection": resource.plural, "links": [link]}


class Extensions(NetworkView):
    """/v2.0/extensions."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("get_extension")
        return Response({"extensions": [extension.to_json() for extension in EXTENSIONS]})


class Extension(NetworkView):
    """/v2.0/extensions/{alias}."""

    def get(self, request: ApiRequest, alias: str) -> Response:
        self.authorize("get_extension")
        for extension in EXTENSIONS:
            if extension.alias == alias:
                return Response({"extension": extension.to_json()})
        raise NotFound(f"Extension with alias {alias} does not exist", type="ExtensionNotFound")


class Empty(NetworkView):
    """A collection of things that are not offered: its list is empty, and nothing can be made."""

    name: ClassVar[str] = ""
    rule: ClassVar[str] = ""

    def get(self, request: ApiRequest) -> Response:
        self.authorize(self.rule)
        return Response({self.name: []})


class Quotas(NetworkView):
    """/v2.0/quotas: nothing differs from the defaults."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("list_quotas")
        return Response({"quotas": []})


class Quota(NetworkView):
    """/v2.0/quotas/{project}: networks are not limited."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("get_quota", target_project_id=project_id)
        return Response({"quota": dict.fromkeys(QUOTAS, UNLIMITED)})
