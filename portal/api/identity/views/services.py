"""The catalog as resources: services, endpoints, regions. Read-only: it is made from the code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import NotFound
from portal.api.base import ApiRequest
from portal.api.catalog import INTERFACES, REGION, SERVICES, Service
from portal.api.identity.view import IdentityView
from portal.api.links import absolute, base_url

Document = dict[str, Any]


def _service(request: ApiRequest, service: Service) -> Document:
    return {
        "id": service.id,
        "type": service.type,
        "name": service.name,
        "description": service.description,
        "enabled": True,
        "links": {"self": absolute(request, f"/identity/v3/services/{service.id}")},
    }


def _endpoints(request: ApiRequest) -> Iterator[Document]:
    for service in SERVICES:
        for interface in INTERFACES:
            endpoint_id = service.endpoint_id(interface)
            yield {
                "id": endpoint_id,
                "service_id": service.id,
                "interface": interface,
                "region": REGION,
                "region_id": REGION,
                "url": base_url(request) + service.path,
                "enabled": True,
                "links": {"self": absolute(request, f"/identity/v3/endpoints/{endpoint_id}")},
            }


def _region(request: ApiRequest) -> Document:
    links = {"self": absolute(request, f"/identity/v3/regions/{REGION}")}
    return {"id": REGION, "description": "", "parent_region_id": None, "links": links}


def _collection(request: ApiRequest, name: str, items: list[Document], *filters: str) -> Response:
    wanted = {key: request.query_params[key] for key in filters if key in request.query_params}
    kept = [item for item in items if all(item[key] == value for key, value in wanted.items())]
    links = {"self": request.build_absolute_uri(), "previous": None, "next": None}
    return Response({name: kept, "links": links})


def _one(name: str, items: list[Document], item_id: str) -> Response:
    for item in items:
        if item["id"] == item_id:
            return Response({name: item})
    raise NotFound(f"Could not find {name}: {item_id}.")


class Services(IdentityView):
    """/v3/services."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_services")
        return _collection(request, "services", [_service(request, item) for item in SERVICES], "type", "name")


class ServiceDetail(IdentityView):
    """/v3/services/{id}."""

    def get(self, request: ApiRequest, service_id: str) -> Response:
        self.authorize("identity:list_services")
        return _one("service", [_service(request, item) for item in SERVICES], service_id)


class Endpoints(IdentityView):
    """/v3/endpoints."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_endpoints")
        return _collection(request, "endpoints", list(_endpoints(request)), "interface", "service_id", "region_id")


class EndpointDetail(IdentityView):
    """/v3/endpoints/{id}."""

    def get(self, request: ApiRequest, endpoint_id: str) -> Response:
        self.authorize("identity:list_endpoints")
        return _one("endpoint", list(_endpoints(request)), endpoint_id)


class Regions(IdentityView):
    """/v3/regions."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_regions")
        return _collection(request, "regions", [_region(request)])


class RegionDetail(IdentityView):
    """/v3/regions/{id}."""

    def get(self, request: ApiRequest, region_id: str) -> Response:
        self.authorize("identity:list_regions")
        return _one("region", [_region(request)], region_id)
