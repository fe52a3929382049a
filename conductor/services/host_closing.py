"""What ends a host's service, or opens it again: refused while anybody is at work there, or a guest may be left."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q

from conductor.api_db.models import AggregateHost, HostMapping
from conductor.cell_db.models import ComputeNode, Instance, Migration, Service
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, ResourceLocked
from conductor.core.identifiers import host_resource
from conductor.core.states import FINAL_MIGRATION_STATUSES, MigrationStatus
from conductor.journal.models import OutboxMessage, ResourceLock
from conductor.placement import providers
from conductor.rpc import broker
from conductor.scheduler import moving
from conductor.services import evacuations, hosts
from conductor.services.values import ServiceView
from conductor.transactions import write_tx


def update(context: RequestContext, service: ServiceView, **values: Any) -> ServiceView:
    """Set `is_disabled`, `disabled_reason` or `is_forced_down`. Raises Invalid for a host that is not clean yet."""
    if values.get("is_forced_down") is False and service.is_forced_down:
        left = evacuations.not_clean(service.cell, service.host)
        if left:
            raise Invalid(
                f"Host {service.host} may not come back yet: it has not shown that it is rid of {left} evacuated "
                "servers. Let its agent report; their guests are destroyed then.",
                field="forced_down",
            )
    return hosts.update_service(context, service, **values)


def delete(context: RequestContext, service: ServiceView) -> None:
    """Forget a service, and a compute host with it: also what it still owes, and its queue.

    Raises Conflict while it has instances, moves or others at work. A host that comes back all the same is told again
    to destroy what does not belong there.
    """
    with write_tx(service.cell):
        rows = Service.objects.using(service.cell).filter(uuid=service.uuid)
        rows.select_for_update().first()
        if service.binary == hosts.COMPUTE:
            _refuse_busy(service)
            _forget_host(service)
            OutboxMessage.objects.using(service.cell).filter(host=service.host, is_owed=True).delete()
            transaction.on_commit(partial(broker.forget_host, service.host), using=service.cell)
        rows.delete()


def users_of(cell: str, host: str) -> list[ResourceLock]:
    """The locks of those who use a host, or have it for themselves."""
    name = host_resource(host)
    locks = ResourceLock.objects.using(cell).select_related("run")
    return list(locks.filter(Q(resource=name) | Q(resource__startswith=f"{name}#")).order_by("resource"))


def _refuse_busy(service: ServiceView) -> None:
    held = users_of(service.cell, service.host)
    if held:
        raise ResourceLocked(f"Host {service.host} is in use by {held[0].holder}.", resource=held[0].resource)
    if Instance.objects.using(service.cell).alive().filter(host=service.host).exists():
        raise Conflict(
            f"Unable to delete compute service of {service.host}: it is hosting instances. Move or delete them first."
        )
    ends = Q(source_host=service.host) | Q(destination_host=service.host)
    moves = Migration.objects.using(service.cell).filter(ends)
    if moves.exclude(status__in=FINAL_MIGRATION_STATUSES).exists():
        raise Conflict(
            f"Unable to delete compute service of {service.host}: it has moves in progress. Complete, confirm or "
            "revert them first."
        )


def _forget_host(service: ServiceView) -> None:
    """Doing it again changes nothing: who dies between the databases is simply asked once more."""
    evacuated = Migration.objects.using(service.cell).filter(source_host=service.host, status=MigrationStatus.DONE)
    for row in evacuated:
        moving.settle(row.instance_uuid, row.uuid)
    evacuated.update(status=MigrationStatus.COMPLETED)
    nodes = ComputeNode.objects.using(service.cell).filter(host=service.host)
    for node in nodes:
        providers.remove(node.uuid)
    with write_tx():
        AggregateHost.objects.filter(host=service.host).delete()
        HostMapping.objects.filter(host=service.host).delete()
    nodes.delete()
