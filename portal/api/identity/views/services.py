"""The catalog as resources: services, endpoints, regions. Ours are generated from the code and cannot be changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Forbidden, NotFound
from conductor.identity import catalog
from portal.api.base import ApiRequest
from portal.api.catalog import SERVICES
from portal.api.identity.representations import catalog as shown
from portal.api.identity.representations.resources import Document
from portal.api.identity.schemas import catalog as schemas
from portal.api.identity.schemas.resources import extra_of
from portal.api.identity.view import IdentityView, require_unchanged
from portal.api.validation import validate

OWN_SERVICES = frozenset(service.id for service in SERVICES)


def collection(request: ApiRequest, name: str, items: list[Document], *filters: str) -> Response:
    wanted = {key: request.query_params[key] for key in filters if key in request.query_params}
    kept = [item for item in items if all(item[key] == value for key, value in wanted.items())]
    links = {"self": request.build_absolute_uri(), "previous": None, "next": None}
    return Response({name: kept, "links": links})


def one(name: str, items: list[Document], item_id: str) -> Document:
    for item in items:
        if item["id"] == item_id:
            return item
    raise NotFound(f"Could not find {name}: {item_id}.")


def _refuse_own(item_id: str, items: list[Document], what: str) -> None:
    if any(item["id"] == item_id for item in items):
        raise Forbidden(f"This {what} is one of the cloud's own, made from its code: it cannot be changed.")


def _fields(given: Mapping[str, Any], extra: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {name: given[name] for name in names if name in given}
    for name in ("name", "description"):
        if name in given and name in names:
            fields[name] = given[name] or ""
    if "enabled" in given:
        fields["is_enabled"] = given["enabled"]
    return {**fields, "extra": extra} if extra else fields


def _own_services(request: ApiRequest) -> list[Document]:
    return [shown.own_service(request, row) for row in SERVICES]


def _services(request: ApiRequest) -> list[Document]:
    return [*_own_services(request), *(shown.added_service(request, row) for row in catalog.services())]


class Services(IdentityView):
    """/v3/services."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_services")
        return collection(request, "services", _services(request), "type", "name")

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:change_services")
        given = validate(request.data, schemas.CREATE_SERVICE)["service"]
        extra = extra_of(given, schemas.CREATE_SERVICE, "service")
        created = catalog.create_service(given["type"], **_fields(given, extra, ("name", "description")))
        return Response({"service": shown.added_service(request, created)}, status=201)


class Service(IdentityView):
    """/v3/services/{id}."""

    def get(self, request: ApiRequest, service_id: str) -> Response:
        self.authorize("identity:list_services")
        return Response({"service": one("service", _services(request), service_id)})

    def patch(self, request: ApiRequest, service_id: str) -> Response:
        self.authorize("identity:change_services")
        _refuse_own(service_id, _own_services(request), "service")
        given = validate(request.data, schemas.CHANGE_SERVICE)["service"]
        extra = extra_of(given, schemas.CHANGE_SERVICE, "service")
        changed = catalog.change_service(service_id, _fields(given, extra, ("type", "name", "description")))
        return Response({"service": shown.added_service(request, changed)})

    def delete(self, request: ApiRequest, service_id: str) -> Response:
        self.authorize("identity:change_services")
        _refuse_own(service_id, _own_services(request), "service")
        catalog.delete_service(service_id)
        return Response(status=204)


def all_endpoints(request: ApiRequest) -> list[Document]:
    return [*shown.own_endpoints(request), *(shown.added_endpoint(request, row) for row in catalog.endpoints())]


def _endpoint_fields(given: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an endpoint. `region` is the old name of `region_id`, and creates a missing region."""
    kept = {**extra, **{name: given[name] for name in ("name", "description") if name in given}}
    fields = _fields(given, kept, ("service_id", "interface", "url"))
    if given.get("region") is not None and given.get("region_id") is None:
        catalog.make_region(given["region"])
    if "region" in given or "region_id" in given:
        fields["region_id"] = given.get("region_id") or given.get("region")
    return fields


class Endpoints(IdentityView):
    """/v3/endpoints."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_endpoints")
        return collection(request, "endpoints", all_endpoints(request), "interface", "service_id", "region_id")

    def post(self, request: ApiRequest) -> Response:
        self.authorize("identity:change_endpoints")
        given = validate(request.data, schemas.CREATE_ENDPOINT)["endpoint"]
        fields = _endpoint_fields(given, extra_of(given, schemas.CREATE_ENDPOINT, "endpoint"))
        created = catalog.create_endpoint(OWN_SERVICES, **{"region_id": None, **fields})
        return Response({"endpoint": shown.added_endpoint(request, created)}, status=201)


class Endpoint(IdentityView):
    """/v3/endpoints/{id}."""

    def get(self, request: ApiRequest, endpoint_id: str) -> Response:
        self.authorize("identity:list_endpoints")
        return Response({"endpoint": one("endpoint", all_endpoints(request), endpoint_id)})

    def patch(self, request: ApiRequest, endpoint_id: str) -> Response:
        self.authorize("identity:change_endpoints")
        _refuse_own(endpoint_id, shown.own_endpoints(request), "endpoint")
        given = validate(request.data, schemas.CHANGE_ENDPOINT)["endpoint"]
        one("endpoint", all_endpoints(request), endpoint_id)
        fields = _endpoint_fields(given, extra_of(given, schemas.CHANGE_ENDPOINT, "endpoint"))
        changed = catalog.change_endpoint(OWN_SERVICES, endpoint_id, fields)
        return Response({"endpoint": shown.added_endpoint(request, changed)})

    def delete(self, request: ApiRequest, endpoint_id: str) -> Response:
        self.authorize("identity:change_endpoints")
        _refuse_own(endpoint_id, shown.own_endpoints(request), "endpoint")
        catalog.delete_endpoint(endpoint_id)
        return Response(status=204)


def _region_fields(given: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    fields = _fields(given, extra, ("description",))
    if "parent_region_id" in given:
        fields["parent_region_id"] = given["parent_region_id"]
    return fields


class Regions(IdentityView):
    """/v3/regions."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("identity:list_regions")
        found = catalog.regions(parent_id=request.query_params.get("parent_region_id"))
        return collection(request, "regions", [shown.region(request, row) for row in found])

    def post(self, request: ApiRequest) -> Response:
        return self.create(request, None)

    def create(self, request: ApiRequest, region_id: str | None) -> Response:
        self.authorize("identity:change_regions")
        given = validate(request.data, schemas.CREATE_REGION)["region"]
        if region_id is not None:
            require_unchanged(given, {"id": region_id}, ["id"])
        fields = _region_fields(given, extra_of(given, schemas.CREATE_REGION, "region"))
        created = catalog.create_region(region_id or given.get("id"), **fields)
        return Response({"region": shown.region(request, created)}, status=201)


class Region(Regions):
    """/v3/regions/{id}."""

    def get(self, request: ApiRequest, region_id: str) -> Response:  # type: ignore[override]
        self.authorize("identity:list_regions")
        return Response({"region": shown.region(request, catalog.region(region_id))})

    def post(self, request: ApiRequest, region_id: str) -> Response:  # type: ignore[override]
        return self.http_method_not_allowed(request)

    def put(self, request: ApiRequest, region_id: str) -> Response:
        return self.create(request, region_id)

    def patch(self, request: ApiRequest, region_id: str) -> Response:
        self.authorize("identity:change_regions")
        given = validate(request.data, schemas.CHANGE_REGION)["region"]
        require_unchanged(given, {"id": region_id}, ["id"])
        fields = _region_fields(given, extra_of(given, schemas.CHANGE_REGION, "region"))
        return Response({"region": shown.region(request, catalog.change_region(region_id, fields))})

    def delete(self, request: ApiRequest, region_id: str) -> Response:
        self.authorize("identity:change_regions")
        catalog.delete_region(region_id)
        return Response(status=204)
