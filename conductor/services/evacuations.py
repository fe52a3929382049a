"""Building instances anew whose host is dead, and making sure that its guests are gone before it works again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from uuid import UUID, uuid4

from django.db import connections

from conductor.cell_db.models import Instance, Migration
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.core.states import FINAL_MIGRATION_STATUSES, MigrationStatus, MigrationType, VmState
from conductor.scheduler import moving
from conductor.services import hosts, moves, server_actions
from conductor.services.server_actions import Asked
from conductor.services.values import ServiceView
from conductor.sql import dialect
from conductor.transactions import database_now, write_tx

log = logging.getLogger(__name__)

MOST_AT_ONCE = 50  # of one host: those that are left find room when the ones before have arrived
_ANY_EVACUATED = (
    "SELECT 1 FROM cell_db_migration WHERE source_host = %s AND migration_type = %s AND status = %s LIMIT 1"
)
WAITS = f"It waits: {MOST_AT_ONCE} servers of its host are on their way. Ask again when they have arrived."


def begin(
    context: RequestContext, instance_uuid: str, host: str = "", *, stays_off: bool = False, admin_password: str = ""
) -> str:
    """Build an instance of a dead host anew, on `host` or where there is room; the workflow's uuid.

    Raises Invalid while its host lives, Conflict while nobody has said that it is fenced: a guest that still runs
    somewhere must not run twice.
    """
    migration_uuid = uuid4()
    inputs: dict[str, object] = {"migration_uuid": str(migration_uuid), "host": host}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        require_fenced(alias, instance.host or "")
        moves.check_destination(alias, instance, host)
        if host and not _service(alias, host).is_up:
            raise Invalid(f"Compute host {host} does not answer: name another one.", field="evacuate.host")
        inputs["is_running"] = instance.vm_state != VmState.STOPPED and not stays_off
        moves.record(
            context, alias, instance, run_uuid=run_uuid, migration_uuid=migration_uuid,
            migration_type=MigrationType.EVACUATION,
        )  # fmt: skip

    secrets = {"admin_password": admin_password} if admin_password else {}
    asked = Asked(inputs=inputs, secrets=secrets, prepare=prepare)
    return server_actions.begin(context, instance_uuid, "evacuate", asked)


def begin_all(context: RequestContext, service: ServiceView) -> tuple[dict[str, str], dict[str, str]]:
    """Evacuate the instances of a dead host: workflows by instance, and the reason for each that cannot be, or not yet.

    What is on its way already goes on: to ask again is safe, and takes the next ones.
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
    """Instances of a host whose evacuation has begun and not ended."""
    rows = Migration.objects.using(cell).filter(source_host=host, migration_type=MigrationType.EVACUATION)
    return {
        str(uuid) for uuid in rows.exclude(status__in=FINAL_MIGRATION_STATUSES).values_list("instance_uuid", flat=True)
    }


def require_fenced(alias: str, host: str) -> None:
    """Raises Invalid for a host that lives, Conflict for one that is only silent."""
    service = _service(alias, host)
    if service.is_up:
        raise Invalid(f"Compute service of {host} is still in use.")
    if not service.is_forced_down:
        raise Conflict(
            f"Host {host} is silent, but nobody has said that it is off: its guests may still run. Cut its power, then "
            "force its service down, and evacuate."
        )


def clean(cell: str, host: str, guests: Mapping[str, int]) -> None:
    """A host reports: evacuated instances that it does not have (any more) hold nothing there any more."""
    evacuated = (host, MigrationType.EVACUATION.value, MigrationStatus.DONE.value)
    if not dialect.run(connections[cell], _ANY_EVACUATED, evacuated):  # by hand, as it is asked with each report
        return
    rows = Migration.objects.using(cell).filter(
        source_host=host, migration_type=MigrationType.EVACUATION, status=MigrationStatus.DONE
    )
    for row in rows:
        if str(row.instance_uuid) in guests:
            continue
        moving.settle(row.instance_uuid, row.uuid)
        with write_tx(cell):
            rows.filter(pk=row.pk).update(status=MigrationStatus.COMPLETED, updated_at=database_now())
        log.info("evacuated host is clean of a guest: host=%s instance=%s", host, row.instance_uuid)


def not_clean(cell: str, host: str) -> int:
    """How many instances were evacuated from a host that has not shown since that it is rid of them."""
    rows = Migration.objects.using(cell).filter(source_host=host, migration_type=MigrationType.EVACUATION)
    return rows.filter(status=MigrationStatus.DONE).count()


def _service(alias: str, host: str) -> ServiceView:
    row = hosts.services_in(alias).filter(binary=hosts.COMPUTE, host=host).first()
    if row is None:
        raise Conflict(f"Host {host} has no compute service.")
    return hosts.service_view(row, alias, 0)
