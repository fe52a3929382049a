"""JSON of services, endpoints and regions: ours, which are generated from the code, and those that operators added."""

from __future__ import annotations

from typing import Any

from conductor.identity.endpoint_filters import CatalogFilter
from conductor.identity.models import Endpoint, EndpointGroup, Policy, Region, RegisteredService
from conductor.identity.tokens import Granted
from portal.api import catalog as own
from portal.api.base import ApiRequest
from portal.api.identity.representations.resources import Document, link_to
from portal.api.links import base_url


def own_service(request: ApiRequest, row: own.CatalogService) -> Document:
    return {
        "id": row.id,
        "type": row.type,
        "name": row.name,
        "description": row.description,
        "enabled": True,
        "links": link_to(request, f"services/{row.id}"),
    }


def added_service(request: ApiRequest, row: RegisteredService) -> Document:
    return {
        **row.extra,
        "id": row.id,
        "type": row.type,
        "name": row.name,
        "description": row.description,
        "enabled": row.is_enabled,
        "links": link_to(request, f"services/{row.id}"),
    }


def own_endpoints(request: ApiRequest) -> list[Document]:
    return [
        {
            "id": service.endpoint_id(interface),
            "service_id": service.id,
            "interface": interface,
            "region": own.REGION,
            "region_id": own.REGION,
            "url": base_url(request) + service.path,
            "enabled": True,
            "links": link_to(request, f"endpoints/{service.endpoint_id(interface)}"),
        }
        for service in own.SERVICES
        for interface in own.INTERFACES
    ]


def added_endpoint(request: ApiRequest, row: Endpoint) -> Document:
    return {
        **row.extra,
        "id": row.id,
        "service_id": row.service_id,
        "interface": row.interface,
        "region": row.region_id,
        "region_id": row.region_id,
        "url": row.url,
        "enabled": row.is_enabled,
        "links": link_to(request, f"endpoints/{row.id}"),
    }


def region(request: ApiRequest, row: Region) -> Document:
    return {
        **row.extra,
        "id": row.id,
        "description": row.description,
        "parent_region_id": row.parent_region_id,
        "links": link_to(request, f"regions/{row.id}"),
    }


def endpoint_group(request: ApiRequest, row: EndpointGroup) -> Document:
    return {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "filters": row.filters,
        "links": link_to(request, f"OS-EP-FILTER/endpoint_groups/{row.id}"),
    }


def policy(request: ApiRequest, row: Policy) -> Document:
    shown = {"id": row.id, "type": row.type, "blob": row.blob, "links": link_to(request, f"policies/{row.id}")}
    return {**row.extra, **shown}


def narrowed(catalog: list[Document], narrowing: CatalogFilter) -> list[Document]:
    """Return the endpoints of a catalog that a project may see, without services that have none."""
    left = []
    for entry in catalog:
        about = {"service_id": entry["id"]}
        endpoints = [endpoint for endpoint in entry["endpoints"] if narrowing.keeps({**about, **endpoint})]
        if endpoints:
            left.append({**entry, "endpoints": endpoints})
    return left


def for_token(
    base: str, granted: Granted, services: list[RegisteredService], endpoints: list[Endpoint]
) -> list[Document]:
    """Return the catalog of a token: what is enabled, with the token's project in the addresses."""
    shown = own.catalog(base)
    shown += [{"id": row.id, "type": row.type, "name": row.name, "endpoints": []} for row in services if row.is_enabled]
    by_id: dict[str, Any] = {entry["id"]: entry for entry in shown}
    for row in endpoints:
        if row.is_enabled and row.service_id in by_id:
            entry = {"id": row.id, "interface": row.interface, "url": _address(row.url, granted)}
            by_id[row.service_id]["endpoints"].append({**entry, "region": row.region_id, "region_id": row.region_id})
    return shown


def _address(url: str, granted: Granted) -> str:
    """Fill in `%(project_id)s`, `$(project_id)s` and the like in an address."""
    project_id = granted.project.id if granted.project is not None else ""
    for name, value in (("project_id", project_id), ("tenant_id", project_id), ("user_id", granted.user.id)):
        url = url.replace(f"%({name})s", value).replace(f"$({name})s", value)
    return url
