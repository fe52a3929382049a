"""Flavors: sizes of servers, the projects that may use them, and their extra specs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from django.db import IntegrityError
from django.db.models import Q, QuerySet

from conductor.api_db.models import Flavor, FlavorAccess
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.core.page import Page
from conductor.core.request_spec import FlavorSpec
from conductor.db.transactions import database_now, write_tx
from conductor.identity.models import Project
from conductor.services.servers import name_search
from conductor.services.servers.types import FlavorView

# flavor_id, name, vcpus, memory_mb, root_gb. The smallest still boots the shipped Linux with a stock kernel.
SHIPPED = (
    ("1", "tiny", 1, 128, 1),
    ("2", "small", 1, 512, 5),
    ("3", "medium", 2, 2048, 20),
    ("4", "large", 4, 4096, 40),
)
SORT_KEYS: Mapping[str, str] = {
    "created_at": "created_at",
    "description": "description",
    "disabled": "is_disabled",
    "ephemeral_gb": "ephemeral_gb",
    "flavorid": "flavor_id",
    "id": "pk",
    "is_public": "is_public",
    "memory_mb": "memory_mb",
    "name": "name",
    "root_gb": "root_gb",
    "rxtx_factor": "rxtx_factor",
    "swap": "swap_mb",
    "updated_at": "created_at",
    "vcpus": "vcpus",
}


@dataclass(frozen=True)
class NewFlavor:
    """A flavor to create; `flavor_id` "" or "auto" generates an id."""

    spec: FlavorSpec
    is_public: bool = True
    rxtx_factor: float = 1.0
    description: str | None = None


@dataclass(frozen=True)
class FlavorQuery:
    """Filters, order and page of a list. `is_public` None means all flavors, for administrators.

    `name` is a regular expression that matches anywhere in the name.
    """

    is_public: bool | None = True
    min_ram_mb: int = 0
    min_disk_gb: int = 0
    name: str = ""
    sort_key: str = "flavorid"
    is_descending: bool = False
    limit: int = 1000
    marker: str = field(default="")


def seed() -> None:
    """Create the shipped flavors that are missing."""
    for flavor_id, name, vcpus, memory_mb, root_gb in SHIPPED:
        values = {
            "name": name,
            "vcpus": vcpus,
            "memory_mb": memory_mb,
            "root_gb": root_gb,
            "created_at": database_now(),
        }
        if not Flavor.objects.filter(Q(flavor_id=flavor_id) | Q(name=name)).exists():
            Flavor.objects.create(flavor_id=flavor_id, **values)


def list_page(context: RequestContext, query: FlavorQuery) -> Page[FlavorView]:
    """Return flavors that the caller may use. Raises Invalid for an unknown sort key or marker, or an invalid name."""
    if query.sort_key not in SORT_KEYS:
        raise Invalid(f"Sort key {query.sort_key} is not one of {', '.join(SORT_KEYS)}.", field="sort_key")
    rows = _visible(context).filter(memory_mb__gte=query.min_ram_mb, root_gb__gte=query.min_disk_gb)
    pattern = name_search.parse(query.name) if query.name else None
    if not context.is_admin or query.is_public:
        rows = rows.filter(Q(is_public=True) | _granted(context))
    elif query.is_public is False:
        rows = rows.filter(is_public=False)
    sign = "-" if query.is_descending else ""
    ordered = rows.order_by(sign + SORT_KEYS[query.sort_key], sign + "pk").distinct()
    found = [row for row in ordered if pattern is None or pattern.is_found_in(row.name)]
    start = _after(found, query.marker) if query.marker else 0
    shown = found[start : start + query.limit]
    return Page([view(row) for row in shown], has_more=len(found) > start + query.limit)


def get(context: RequestContext, flavor_id: str) -> FlavorView:
    """Return a flavor. Raises NotFound for an unknown one or one that the caller's project may not use."""
    return view(_get(context, flavor_id))


def create(context: RequestContext, wanted: NewFlavor) -> FlavorView:
    """Create a flavor. Raises Conflict when the id or the name is taken."""
    spec = wanted.spec
    flavor_id = spec.flavor_id if spec.flavor_id not in ("", "auto") else str(uuid4())
    with write_tx():
        if Flavor.objects.filter(name=spec.name).exists():
            raise Conflict(f"Flavor with name {spec.name} already exists.")
        if Flavor.objects.filter(flavor_id=flavor_id).exists():
            raise Conflict(f"Flavor with ID {flavor_id} already exists.")
        row = Flavor.objects.create(
            flavor_id=flavor_id,
            name=spec.name,
            vcpus=spec.vcpus,
            memory_mb=spec.memory_mb,
            root_gb=spec.root_gb,
            ephemeral_gb=spec.ephemeral_gb,
            swap_mb=spec.swap_mb,
            is_public=wanted.is_public,
            rxtx_factor=wanted.rxtx_factor,
            description=wanted.description,
            created_at=database_now(),
        )
    return view(row)


def describe(context: RequestContext, flavor_id: str, description: str | None) -> FlavorView:
    """Change the description, the only field of a flavor that servers do not depend on."""
    with write_tx():
        row = _get(context, flavor_id)
        row.description = description
        row.save(update_fields=["description"])
    return view(row)


def delete(context: RequestContext, flavor_id: str) -> None:
    """Delete a flavor. Instances keep their own copy and are not affected."""
    with write_tx():
        _get(context, flavor_id).delete()


def set_extra_specs(context: RequestContext, flavor_id: str, specs: Mapping[str, str]) -> FlavorView:
    """Add `specs` to the flavor's own; equal keys are replaced."""
    with write_tx():
        row = _get(context, flavor_id)
        row.extra_specs = {**row.extra_specs, **specs}
        row.save(update_fields=["extra_specs"])
    return view(row)


def extra_spec(context: RequestContext, flavor_id: str, key: str) -> str:
    """Return one extra spec. Raises NotFound when the flavor has no such key."""
    specs = _get(context, flavor_id).extra_specs
    if key not in specs:
        raise NotFound(f"Flavor {flavor_id} has no extra specs with key {key}.")
    return str(specs[key])


def remove_extra_spec(context: RequestContext, flavor_id: str, key: str) -> None:
    """Remove an extra spec. Raises NotFound when the flavor has no such key."""
    with write_tx():
        row = _get(context, flavor_id)
        if key not in row.extra_specs:
            raise NotFound(f"Flavor {flavor_id} has no extra specs with key {key}.")
        row.extra_specs = {name: value for name, value in row.extra_specs.items() if name != key}
        row.save(update_fields=["extra_specs"])


def access(context: RequestContext, flavor_id: str) -> list[str]:
    """Return ids of the projects with access to a private flavor.

    Raises NotFound for a public flavor, which has no such list.
    """
    row = _get(context, flavor_id)
    if row.is_public:
        raise NotFound(f"Access list not available for public flavor {flavor_id}.")
    return sorted(row.access.values_list("project_id", flat=True))


def grant(context: RequestContext, flavor_id: str, project_id: str) -> list[str]:
    """Give a project access to a private flavor.

    Raises Conflict for a public one, or a second time, and Invalid for a project that does not exist.
    """
    if not Project.objects.filter(pk=project_id).exists():
        raise Invalid(f"Project ID {project_id} is not a valid project.", field="addTenantAccess.tenant")
    with write_tx():
        row = _get(context, flavor_id)
        if row.is_public:
            raise Conflict("Can not add access to a public flavor.")
        try:
            FlavorAccess.objects.create(flavor=row, project_id=project_id)
        except IntegrityError:
            raise Conflict(f"Flavor access already exists for flavor {flavor_id} and project {project_id}.") from None
    return access(context, flavor_id)


def revoke(context: RequestContext, flavor_id: str, project_id: str) -> list[str]:
    """Remove a project's access. Raises NotFound when it had none."""
    with write_tx():
        row = _get(context, flavor_id)
        if row.is_public:
            raise Conflict("Can not remove access from a public flavor.")
        gone, _ = FlavorAccess.objects.filter(flavor=row, project_id=project_id).delete()
        if not gone:
            raise NotFound(f"Flavor access not found for flavor {flavor_id} and project {project_id}.")
    return access(context, flavor_id)


def view(row: Flavor) -> FlavorView:
    """Convert a row to a view."""
    spec = FlavorSpec(
        flavor_id=row.flavor_id,
        name=row.name,
        vcpus=row.vcpus,
        memory_mb=row.memory_mb,
        root_gb=row.root_gb,
        ephemeral_gb=row.ephemeral_gb,
        swap_mb=row.swap_mb,
        extra_specs=dict(row.extra_specs),
    )
    return FlavorView(spec, row.is_public, row.is_disabled, row.rxtx_factor, row.description)


def _granted(context: RequestContext) -> Q:
    return Q(access__project_id=context.project_id)


def _visible(context: RequestContext) -> QuerySet[Flavor]:
    if context.is_admin:
        return Flavor.objects.all()
    return Flavor.objects.filter(Q(is_public=True) | _granted(context), is_disabled=False).distinct()


def _get(context: RequestContext, flavor_id: str) -> Flavor:
    row = _visible(context).filter(flavor_id=flavor_id).first()
    if row is None:
        raise NotFound(f"Flavor {flavor_id} could not be found.")
    return row


def _after(rows: list[Flavor], marker: str) -> int:
    """Return the index after the marker's row."""
    for index, row in enumerate(rows):
        if row.flavor_id == marker:
            return index + 1
    raise Invalid(f"marker [{marker}] not found", field="marker")
