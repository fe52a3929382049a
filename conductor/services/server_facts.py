"""What is known of a server beside its own page: how it runs, and what of its host it has."""

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
from conductor.core.states import PowerState
from conductor.placement.models import HardwareClaim
from conductor.services import console_lines, consoles
from conductor.services.instance_queries import get
from conductor.services.values import InstanceView

# Guests in other states have nothing to tell.
TELLING = (PowerState.RUNNING, PowerState.PAUSED)


@dataclass(frozen=True)
class Hypervisor:
    """What a server's host runs it with."""

    driver: str = ""
    kind: str = ""
    able: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Diagnostics:
    """A guest as its cell knows it. `disks` are the root disk, ephemeral and swap disks and volumes together.

    `figures` are what its host has counted; empty where that does not count, or cannot be asked.
    """

    view: InstanceView
    hypervisor: Hypervisor
    disks: int
    uptime: int | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


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
    hypervisor = _hypervisor_of(view)
    flavor = view.flavor
    own = bool(view.image.image_id) + bool(flavor.ephemeral_gb) + bool(flavor.swap_mb)
    figures: Mapping[str, Any] = {}
    if CAPABILITY_OF[GuestQuestion.DIAGNOSTICS] in hypervisor.able:
        with suppress(Unavailable):  # what its cell knows is more than nothing
            figures = _ask(view, GuestQuestion.DIAGNOSTICS)
    uptime = int((now() - view.launched_at).total_seconds()) if view.launched_at else None
    return Diagnostics(view, hypervisor, own + len(view.volumes), uptime, figures)


def password(context: RequestContext, instance_uuid: str) -> str:
    """What the guest has posted as its password, encrypted for its owner; "" where it has not, or cannot.

    Raises NotFound, CellUnavailable, Unavailable.
    """
    view = get(context, instance_uuid)
    return str(_ask(view, GuestQuestion.PASSWORD)["password"]) if _keeps_password(view) else ""


def forget_password(context: RequestContext, instance_uuid: str) -> None:
    """From here on there is none, and the guest may post another. Raises NotFound, CellUnavailable, Unavailable."""
    view = get(context, instance_uuid)
    if _keeps_password(view):
        _ask(view, GuestQuestion.FORGET_PASSWORD)


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


def _keeps_password(view: InstanceView) -> bool:
    if view.is_partial:
        raise CellUnavailable(f"The cell of instance {view.uuid} does not answer.")
    return bool(view.host) and CAPABILITY_OF[GuestQuestion.PASSWORD] in _hypervisor_of(view).able


def _ask(view: InstanceView, question: GuestQuestion) -> dict[str, Any]:
    return console_lines.ask(consoles.door_of(view.cell, view.host), view.host, view.uuid, question)


def _hypervisor_of(view: InstanceView) -> Hypervisor:
    found = scatter_gather(lambda alias: _hypervisor(alias, view.host), [view.cell])
    if found.failures:
        raise CellUnavailable(f"The cell of instance {view.uuid} does not answer.")
    return found.answers[view.cell]


def _hypervisor(alias: str, host: str) -> Hypervisor:
    rows = ComputeNode.objects.using(alias).filter(host=host).values_list("driver", "hypervisor_type", "report")
    able = (
        Hypervisor(driver, kind, frozenset(report.get("capabilities", {}).get("actions", ())))
        for driver, kind, report in rows
    )
    return next(able, Hypervisor())
