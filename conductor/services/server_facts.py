"""What is known of a server beside its own page: how it runs, and what of its host it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from conductor.cell_db.models import ComputeNode
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Conflict
from conductor.core.hardware.request import InstanceCell
from conductor.core.hardware.wire import grant_from_json
from conductor.core.states import PowerState
from conductor.placement.models import HardwareClaim
from conductor.services.instance_queries import get
from conductor.services.values import InstanceView

# Guests in other states have nothing to tell.
TELLING = (PowerState.RUNNING, PowerState.PAUSED)


@dataclass(frozen=True)
class Hypervisor:
    """What a server's host runs it with."""

    driver: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Diagnostics:
    """A guest as its cell knows it. `disks` are the root disk, ephemeral and swap disks and volumes together."""

    view: InstanceView
    hypervisor: Hypervisor
    disks: int


@dataclass(frozen=True)
class CellOfServer:
    """One NUMA cell of a server: its CPUs, and where on the host it is. `pinning` is guest CPU → host CPU."""

    memory_mb: int
    cpus: tuple[int, ...]
    host_cell: int
    pinning: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Topology:
    """The inside of a server; no cells where it asked for none."""

    cells: tuple[CellOfServer, ...] = ()
    page_size_kb: int | None = None


def diagnostics(context: RequestContext, instance_uuid: str) -> Diagnostics:
    """Raises NotFound, Conflict for a server that does not run, CellUnavailable."""
    view = _placed(context, instance_uuid)
    if view.power_state not in TELLING:
        state = PowerState(view.power_state).name.lower()
        raise Conflict(f"Cannot 'get_diagnostics' instance {view.uuid} while it is in power state {state}")
    found = scatter_gather(lambda alias: _hypervisor(alias, view.host), [view.cell])
    if found.failures:
        raise CellUnavailable(f"The cell of instance {instance_uuid} does not answer.")
    flavor = view.flavor
    own = bool(view.image.image_id) + bool(flavor.ephemeral_gb) + bool(flavor.swap_mb)
    return Diagnostics(view, found.answers[view.cell], own + len(view.volumes))


def topology(context: RequestContext, instance_uuid: str) -> Topology:
    """What the server has of its host. Raises NotFound."""
    view = get(context, instance_uuid)
    claims = HardwareClaim.objects.filter(consumer__uuid=UUID(view.uuid)).order_by("-pk")
    for grant in claims.values_list("grant", flat=True):
        guest = grant_from_json(grant).numa
        if guest is not None:
            sizes = [cell.page_size_kb for cell in guest.cells if (cell.page_size_kb or 0) > 0]
            return Topology(tuple(_cell(cell) for cell in guest.cells), sizes[0] if sizes else None)
    return Topology()


def _cell(cell: InstanceCell) -> CellOfServer:
    return CellOfServer(cell.memory_mb, tuple(sorted(cell.cpus | cell.pcpus)), cell.id, dict(cell.pins))


def _placed(context: RequestContext, instance_uuid: str) -> InstanceView:
    view = get(context, instance_uuid)
    if view.is_partial:
        raise CellUnavailable(f"The cell of instance {instance_uuid} does not answer.")
    if not view.host:
        raise Conflict(f"Instance {instance_uuid} is not ready: it has no host.")
    return view


def _hypervisor(alias: str, host: str) -> Hypervisor:
    rows = ComputeNode.objects.using(alias).filter(host=host).values_list("driver", "hypervisor_type")
    return next((Hypervisor(driver, kind) for driver, kind in rows), Hypervisor())
