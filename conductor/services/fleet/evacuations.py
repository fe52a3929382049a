"""Evacuation: rebuilds instances of a failed host elsewhere, and checks that their guests on that host are
destroyed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from uuid import UUID, uuid4

from django.db import connections

from conductor.cell_db import statements
from conductor.cell_db.models import Instance, Migration
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.core.phrases import phrase
from conductor.core.states import FINAL_MIGRATION_STATUSES, MigrationStatus, MigrationType, VmState
from conductor.db.transactions import database_now, write_tx
from conductor.scheduler import claims
from conductor.services.hosts import hosts
from conductor.services.hosts.types import ServiceView
from conductor.services.server_migrations import resizes
from conductor.services.servers import actions
from conductor.services.servers.actions import ActionRequest

log = logging.getLogger(__name__)

MOST_AT_ONCE = 50  # per host; the next ones find room when these have arrived
WAITS = f"It waits: {MOST_AT_ONCE} servers of its host are on their way. Ask again when they have arrived."


def begin(
    context: RequestContext, instance_uuid: str, host: str = "", *, stays_off: bool = False, admin_password: str = ""
) -> str:
    """Evacuate an instance of a failed host to `host`, or to any host with room. Return the workflow's uuid.

    Raises:
        Invalid: its host is up.
        Conflict: the host is not forced down; a guest that still runs there must not run twice.
    """
    migration_uuid = uuid4()
    inputs: dict[str, object] = {"migration_uuid": str(migration_uuid), "host": host}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        require_fenced(alias, instance.host or "")
        resizes.check_destination(alias, instance, host)
        if host and not _service(alias, host).is_up:
            raise Invalid(
                phrase("Compute host %(host)s doesn't respond. Select another one.", host=host), field="evacuate.host"
            )
        inputs["is_running"] = instance.vm_state != VmState.STOPPED and not stays_off
        resizes.record(
            context, alias, instance, run_uuid=run_uuid, migration_uuid=migration_uuid,
            migration_type=MigrationType.EVACUATION,
        )  # fmt: skip

    secrets = {"admin_password": admin_password} if admin_password else {}
    requested = ActionRequest(inputs=inputs, secrets=secrets, prepare=prepare)
    return actions.begin(context, instance_uuid, "evacuate", requested)


def begin_all(context: RequestContext, service: ServiceView) -> tuple[dict[str, str], dict[str, str]]:
    """Evacuate the instances of a failed host. Return workflows by instance, and the reason for each that is refused
    for now.

    Running evacuations continue. Calling again is safe, and starts the next ones.
    """
    require_fenced(service.cell, service.host)
    begun: dict[str, str] = {}
    refused: dict[str, str] = {}
    on_their_way = _on_their_way(service.cell, service.host)
    for uuid, _ in hosts.instances_on(context, [service.host])[service.host]:
        if uuid in on_their_way:
            continue
        if len(on_their_way) + len(begun) >= MOST_AT_ONCE:
            refused[uuid] = WAITS
            continue
        try:
            begun[uuid] = begin(context, uuid)
        except NovellaError as error:
            refused[uuid] = error.message
    return begun, refused


def _on_their_way(cell: str, host: str) -> set[str]:
    """Return the instances of a host whose evacuation has begun and not ended."""
    rows = Migration.objects.using(cell).filter(source_host=host, migration_type=MigrationType.EVACUATION)
    return {
        str(uuid) for uuid in rows.exclude(status__in=FINAL_MIGRATION_STATUSES).values_list("instance_uuid", flat=True)
    }


def require_fenced(alias: str, host: str) -> None:
    """Raise Invalid for a host that is up, Conflict for one that is down but not forced down."""
    service = _service(alias, host)
    if service.is_up:
        raise Invalid(phrase("Compute service of %(host)s is still in use.", host=host))
    if not service.is_forced_down:
        raise Conflict(
            phrase(
                "Host %(host)s is down but not fenced: its servers may still run. "
                "Cut its power, force its service down, then evacuate.",
                host=host,
            )
        )


def clean(cell: str, host: str, guests: Mapping[str, int]) -> None:
    """Release the claims of evacuated instances on a host once its report shows that their guests are gone."""
    if not statements.has_evacuated(connections[cell], host):  # the typical report
        return
    rows = Migration.objects.using(cell).filter(
        source_host=host, migration_type=MigrationType.EVACUATION, status=MigrationStatus.DONE
    )
    for row in rows:
        if str(row.instance_uuid) in guests:
            continue
        claims.settle(row.instance_uuid, row.uuid)
        with write_tx(cell):
            rows.filter(pk=row.pk).update(status=MigrationStatus.COMPLETED, updated_at=database_now())
        log.info("evacuated host is clean of a guest: host=%s instance=%s", host, row.instance_uuid)


def not_clean(cell: str, host: str) -> int:
    """Return how many instances were evacuated from a host that has not yet reported them as removed."""
    rows = Migration.objects.using(cell).filter(source_host=host, migration_type=MigrationType.EVACUATION)
    return rows.filter(status=MigrationStatus.DONE).count()


def _service(alias: str, host: str) -> ServiceView:
    row = hosts.services_in(alias).filter(binary=hosts.COMPUTE, host=host).first()
    if row is None:
        raise Conflict(phrase("Host %(host)s has no compute service.", host=host))
    return hosts.service_view(row, alias, 0)
