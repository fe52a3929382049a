"""Where things are: cells, hosts and instances."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings

from conductor.api_db.models import HostMapping, InstanceMapping
from conductor.core.errors import NotFound

CELL0 = "cell0"
API_ALIAS = "default"


def cell_aliases(*, with_cell0: bool = True) -> list[str]:
    """Aliases of all cells, cell0 first."""
    names = sorted(alias for alias in settings.DATABASES if alias != API_ALIAS)
    return names if with_cell0 else [name for name in names if name != CELL0]


def journal_aliases() -> list[str]:
    """Every database that has a journal."""
    return [API_ALIAS, *cell_aliases()]


def queue_of(alias: str) -> str:
    """The conductor queue that works on the journal in `alias`. The API-level conductor also looks after cell0."""
    return "conductor" if alias in (API_ALIAS, CELL0) else f"conductor.{alias}"


def cell_of_instance(instance_uuid: UUID | str) -> str | None:
    """The alias of the cell that an instance lives in; None while its build has no cell. Raises NotFound."""
    mapping = InstanceMapping.objects.filter(instance_uuid=instance_uuid).select_related("cell").first()
    if mapping is None:
        raise NotFound(f"Instance {instance_uuid} could not be found.")
    return mapping.cell.name if mapping.cell else None


def cell_of_host(host: str) -> str:
    """The alias of the cell that a host belongs to. Raises NotFound."""
    mapping = HostMapping.objects.filter(host=host).select_related("cell").first()
    if mapping is None:
        raise NotFound(f"Host {host} could not be found.")
    return mapping.cell.name
