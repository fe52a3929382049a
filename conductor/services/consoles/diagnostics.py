"""Diagnostics of a server: counters, guest password and NUMA topology."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.utils.timezone import now

from conductor.cell_db.models import ComputeNode
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, Conflict, Unavailable
from conductor.core.guest_questions import CAPABILITY_OF, GuestQuestion
from conductor.core.hardware.request import InstanceCell
from conductor.core.hardware.wire import grant_from_json
from conductor.core.messages import message
from conductor.core.phrases import phrase
from conductor.core.states import PowerState
from conductor.placement.models import HardwareClaim
from conductor.services.consoles import connections, consoles
from conductor.services.servers.queries import get
from conductor.services.servers.types import InstanceData

# Guests in other states report nothing.
WITH_DIAGNOSTICS = (PowerState.RUNNING, PowerState.PAUSED)


@dataclass(frozen=True)
class Hypervisor:
    """The hypervisor of a server's host."""

    driver: str = ""
    kind: str = ""
    able: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Diagnostics:
    """Diagnostics of a guest. `disks` counts the root disk, ephemeral and swap disks and volumes together.

    `figures` are the host's counters. Empty where it has none, or cannot be reached.
    """

    view: InstanceData
    hypervisor: Hypervisor
    disks: int
    uptime: int | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CellOfServer:
    """One NUMA cell of a server: its CPUs, and its cell on the host. `pinning` is guest CPU → host CPU."""

    memory_mb: int
    cpus: tuple[int, ...]
    host_cell: int
    pinning: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Topology:
    """NUMA topology of a server. It has no cells if the server requests none."""

    cells: tuple[CellOfServer, ...] = ()
    page_size_kb: int | None = None


def diagnostics(context: RequestContext, instance_uuid: str) -> Diagnostics:
    """Return a server's diagnostics. Raises NotFound, CellUnavailable, or Conflict for a server that does not run."""
    view = _placed(context, instance_uuid)
    if view.power_state not in WITH_DIAGNOSTICS:
        state = PowerState(view.power_state).name.lower()
        raise Conflict(f"Cannot 'get_diagnostics' instance {view.uuid} while it is in power state {state}")
    hypervisor = _hypervisor_of(view)
    flavor = view.flavor
    own = bool(view.image.image_id) + bool(flavor.ephemeral_gb) + bool(flavor.swap_mb)
    figures: Mapping[str, Any] = {}
    if CAPABILITY_OF[GuestQuestion.DIAGNOSTICS] in hypervisor.able:
        with suppress(Unavailable):  # the cell's facts are better than nothing
            figures = _ask(view, GuestQuestion.DIAGNOSTICS)
    uptime = int((now() - view.launched_at).total_seconds()) if view.launched_at else None
    return Diagnostics(view, hypervisor, own + len(view.volumes), uptime, figures)


def password(context: RequestContext, instance_uuid: str) -> str:
    """Return the password that the guest has posted, encrypted for its owner. Empty where there is none.

    Raises NotFound, CellUnavailable, Unavailable.
    """
    view = get(context, instance_uuid)
    return str(_ask(view, GuestQuestion.PASSWORD)["password"]) if _keeps_password(view) else ""


def forget_password(context: RequestContext, instance_uuid: str) -> None:
    """Delete the guest's password. The guest may post another one. Raises NotFound, CellUnavailable, Unavailable."""
    view = get(context, instance_uuid)
    if _keeps_password(view):
        _ask(view, GuestQuestion.FORGET_PASSWORD)


def topology(context: RequestContext, instance_uuid: str) -> Topology:
    """Return the NUMA topology that the server has on its host. Raises NotFound."""
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


def _placed(context: RequestContext, instance_uuid: str) -> InstanceData:
    view = get(context, instance_uuid)
    if view.is_partial:
        raise CellUnavailable(phrase("The cell of instance %(instance)s does not answer.", instance=instance_uuid))
    if not view.host:
        raise Conflict(message("console.no_host", server=str(instance_uuid)))
    return view


def _keeps_password(view: InstanceData) -> bool:
    if view.is_partial:
        raise CellUnavailable(phrase("The cell of instance %(instance)s does not answer.", instance=view.uuid))
    return bool(view.host) and CAPABILITY_OF[GuestQuestion.PASSWORD] in _hypervisor_of(view).able


def _ask(view: InstanceData, question: GuestQuestion) -> dict[str, Any]:
    return connections.ask(consoles.endpoint_of(view.cell, view.host), view.host, view.uuid, question)


def _hypervisor_of(view: InstanceData) -> Hypervisor:
    found = scatter_gather(lambda alias: _hypervisor(alias, view.host), [view.cell])
    if found.failures:
        raise CellUnavailable(phrase("The cell of instance %(instance)s does not answer.", instance=view.uuid))
    return found.answers[view.cell]


def _hypervisor(alias: str, host: str) -> Hypervisor:
    rows = ComputeNode.objects.using(alias).filter(host=host).values_list("driver", "hypervisor_type", "report")
    able = (
        Hypervisor(driver, kind, frozenset(report.get("capabilities", {}).get("actions", ())))
        for driver, kind, report in rows
    )
    return next(able, Hypervisor())
