"""Enabling, disabling and deleting services of hosts. Refused while a workflow uses the host or guests may be left."""

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
from conductor.core.phrases import phrase, phrases
from conductor.core.states import FINAL_MIGRATION_STATUSES, MigrationStatus
from conductor.db.transactions import write_tx
from conductor.journal.models import OutboxMessage, ResourceLock
from conductor.placement import providers
from conductor.rpc import broker
from conductor.scheduler import claims
from conductor.services.fleet import evacuations
from conductor.services.hosts import hosts
from conductor.services.hosts.types import ServiceView


def update(context: RequestContext, service: ServiceView, **values: Any) -> ServiceView:
    """Set `is_disabled`, `disabled_reason` or `is_forced_down`. A host that is disabled always has a reason.

    Raises Invalid for a host that may have evacuated guests.
    """
    if values.get("is_forced_down") is False and service.is_forced_down:
        left = evacuations.not_clean(service.cell, service.host)
        if left:
            raise Invalid(
                phrases(
                    "Host %(host)s can't come back yet: it may still run %(count)s evacuated server. "
                    "Start its agent: it destroys the server and reports.",
                    "Host %(host)s can't come back yet: it may still run %(count)s evacuated servers. "
                    "Start its agent: it destroys the servers and reports.",
                    left,
                    host=service.host,
                ),
                field="forced_down",
            )
    if values.get("is_disabled") and not values.get("disabled_reason"):
        values["disabled_reason"] = f"closed by {context.user_name[:120]} without a reason ({context.request_id})"
    return hosts.update_service(context, service, **values)


def delete(context: RequestContext, service: ServiceView) -> None:
    """Delete a service, and with it a compute host's records, deferred commands and queue.

    Raises Conflict while it has instances, moves or workflows. A host that returns later is again ordered to destroy
    guests that don't belong there.
    """
    with write_tx(service.cell):
        rows = Service.objects.using(service.cell).filter(uuid=service.uuid)
        rows.select_for_update().first()
        if service.binary == hosts.COMPUTE:
            _refuse_busy(service)
            _forget_host(service)
            OutboxMessage.objects.using(service.cell).filter(host=service.host, is_deferred=True).delete()
            transaction.on_commit(partial(broker.forget_host, service.host), using=service.cell)
        rows.delete()


def users_of(cell: str, host: str) -> list[ResourceLock]:
    """Return the locks on a host, shared and exclusive."""
    name = host_resource(host)
    locks = ResourceLock.objects.using(cell).select_related("run")
    return list(locks.filter(Q(resource=name) | Q(resource__startswith=f"{name}#")).order_by("resource"))


def _refuse_busy(service: ServiceView) -> None:
    held = users_of(service.cell, service.host)
    if held:
        raise ResourceLocked(
            phrase("Host %(host)s is in use by %(holder)s.", host=service.host, holder=held[0].holder),
            resource=held[0].resource,
        )
    if Instance.objects.using(service.cell).alive().filter(host=service.host).exists():
        raise Conflict(
            phrase(
                "Unable to delete compute service of %(host)s: it is hosting instances. Move or delete them first.",
                host=service.host,
            )
        )
    ends = Q(source_host=service.host) | Q(destination_host=service.host)
    moves = Migration.objects.using(service.cell).filter(ends)
    if moves.exclude(status__in=FINAL_MIGRATION_STATUSES).exists():
        raise Conflict(
            phrase(
                "Unable to delete compute service of %(host)s: it has moves in progress. "
                "Complete, confirm or revert them first.",
                host=service.host,
            )
        )


def _forget_host(service: ServiceView) -> None:
    """Delete the host's records. Idempotent: after a crash between the databases, a repeated call completes it."""
    evacuated = Migration.objects.using(service.cell).filter(source_host=service.host, status=MigrationStatus.DONE)
    for row in evacuated:
        claims.settle(row.instance_uuid, row.uuid)
    evacuated.update(status=MigrationStatus.COMPLETED)
    nodes = ComputeNode.objects.using(service.cell).filter(host=service.host)
    for node in nodes:
        providers.remove(node.uuid)
    with write_tx():
        AggregateHost.objects.filter(host=service.host).delete()
        HostMapping.objects.filter(host=service.host).delete()
    nodes.delete()
