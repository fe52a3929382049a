"""Services, endpoints and regions that operators add to the built-in ones, which the code defines."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from django.db import IntegrityError

from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.db.transactions import write_tx
from conductor.identity.models import Endpoint, ProjectEndpoint, Region, RegisteredLimit, RegisteredService

FIRST_REGION = "RegionOne"
R = TypeVar("R", RegisteredService, Endpoint, Region)


def ensure_first_region() -> None:
    """Create the region of the built-in services where it is missing."""
    Region.objects.get_or_create(id=FIRST_REGION)


def services() -> list[RegisteredService]:
    """Return all added services, by type."""
    return list(RegisteredService.objects.order_by("type", "id"))


def create_service(kind: str, **fields: Any) -> RegisteredService:
    """Create a service of a type."""
    with write_tx():
        return RegisteredService.objects.create(type=kind, **fields)


def change_service(service_id: str, changes: Mapping[str, Any]) -> RegisteredService:
    """Update a service. Raises NotFound."""
    with write_tx():
        return _changed(RegisteredService.objects.filter(id=service_id).first(), "service", service_id, changes)


def delete_service(service_id: str) -> None:
    """Delete the service with its endpoints. Raises NotFound, and Forbidden while limits are registered for it."""
    with write_tx():
        if RegisteredLimit.objects.filter(service_id=service_id).exists():
            raise Forbidden(f"Service {service_id} has registered limits; remove them first.")
        gone = Endpoint.objects.filter(service_id=service_id)
        ProjectEndpoint.objects.filter(endpoint_id__in=list(gone.values_list("id", flat=True))).delete()
        gone.delete()
        _removed(RegisteredService.objects.filter(id=service_id).delete(), "service", service_id)


def endpoints() -> list[Endpoint]:
    """Return all added endpoints."""
    return list(Endpoint.objects.order_by("id"))


def create_endpoint(own: Collection[str], *, service_id: str, region_id: str | None, **fields: Any) -> Endpoint:
    """Create an endpoint. `own` are the ids of the built-in services. Raises Invalid for unknown service or region."""
    with write_tx():
        _require_service(own, service_id)
        _require_region(region_id)
        return Endpoint.objects.create(service_id=service_id, region_id=region_id, **fields)


def make_region(region_id: str) -> None:
    """Create the region where it is missing; for clients that name an endpoint's region in the old way."""
    Region.objects.get_or_create(id=region_id)


def change_endpoint(own: Collection[str], endpoint_id: str, changes: Mapping[str, Any]) -> Endpoint:
    """Update an endpoint. Raises NotFound, and Invalid for a service or region that does not exist."""
    with write_tx():
        if "service_id" in changes:
            _require_service(own, changes["service_id"])
        _require_region(changes.get("region_id"))
        return _changed(Endpoint.objects.filter(id=endpoint_id).first(), "endpoint", endpoint_id, changes)


def delete_endpoint(endpoint_id: str) -> None:
    """Delete an endpoint. Raises NotFound."""
    with write_tx():
        ProjectEndpoint.objects.filter(endpoint_id=endpoint_id).delete()
        _removed(Endpoint.objects.filter(id=endpoint_id).delete(), "endpoint", endpoint_id)


def _require_service(own: Collection[str], service_id: str) -> None:
    if service_id not in own and not RegisteredService.objects.filter(id=service_id).exists():
        raise Invalid(f"Could not find service: {service_id}.", field="service_id")


def _require_region(region_id: str | None) -> None:
    if region_id is not None and not Region.objects.filter(id=region_id).exists():
        raise Invalid(f"Could not find region: {region_id}.", field="region_id")


def regions(*, parent_id: str | None = None) -> list[Region]:
    """Return all regions, or those below one, by id."""
    found = Region.objects.order_by("id")
    return list(found if parent_id is None else found.filter(parent_region_id=parent_id))


def region(region_id: str) -> Region:
    """Return a region. Raises NotFound."""
    found = Region.objects.filter(id=region_id).first()
    if found is None:
        raise NotFound(f"Could not find region: {region_id}.")
    return found


def create_region(region_id: str | None, **fields: Any) -> Region:
    """Create a region. Raises Conflict for a taken id, NotFound for the parent."""
    named = {"id": region_id} if region_id else {}
    try:
        with write_tx():
            if fields.get("parent_region_id") is not None:
                region(fields["parent_region_id"])
            return Region.objects.create(**named, **fields)
    except IntegrityError:
        raise Conflict(f"Conflict occurred attempting to store region - Duplicate ID, {region_id}.") from None


def change_region(region_id: str, changes: Mapping[str, Any]) -> Region:
    """Update a region. Raises NotFound for the region or its parent, Invalid for a cycle."""
    with write_tx():
        row = region(region_id)
        above = changes.get("parent_region_id")
        while above is not None:
            if above == region_id:
                raise Invalid(f"Region {region_id} cannot stand under itself.", field="parent_region_id")
            above = region(above).parent_region_id
        return _changed(row, "region", region_id, changes)


def delete_region(region_id: str) -> None:
    """Delete a region. Raises NotFound, and Forbidden while regions or endpoints are in it."""
    with write_tx():
        region(region_id)
        is_full = Endpoint.objects.filter(region_id=region_id).exists() or region_id == FIRST_REGION
        if is_full or RegisteredLimit.objects.filter(region_id=region_id).exists():
            raise Forbidden(f"Unable to delete region {region_id} because it or its child regions have endpoints.")
        for below in regions(parent_id=region_id):
            delete_region(below.id)
        Region.objects.filter(id=region_id).delete()


def _changed(row: R | None, what: str, row_id: str, changes: Mapping[str, Any]) -> R:
    if row is None:
        raise NotFound(f"Could not find {what}: {row_id}.")
    for field, value in changes.items():
        setattr(row, field, {**getattr(row, field), **value} if field == "extra" else value)
    row.save(update_fields=sorted(changes))
    return row


def _removed(answer: tuple[int, Mapping[str, int]], what: str, row_id: str) -> None:
    if not answer[0]:
        raise NotFound(f"Could not find {what}: {row_id}.")
