"""Resizes and cold migrations of instances, their confirmation and their revert."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings

from conductor.api_db.models import HostMapping
from conductor.cell_db.models import Instance, Migration
from conductor.cells.hosts import is_unresponsive
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import Conflict, Invalid, NotFound, NovellaError
from conductor.core.request_spec import FlavorSpec
from conductor.core.states import MigrationStatus, MigrationType, VmState
from conductor.db.transactions import database_now, database_time
from conductor.scheduler import claims, hardware_requests
from conductor.services.quotas import quotas
from conductor.services.servers import actions, flavors
from conductor.services.servers.actions import ActionRequest

log = logging.getLogger(__name__)

WITH_GUEST_OFF = (MigrationType.RESIZE, MigrationType.MIGRATION)


def resize(context: RequestContext, instance_uuid: str, flavor_ref: str, *, disk_config: str = "") -> str:
    """Resize an instance, on any host with room; returns the workflow's uuid. It waits for confirmation at the end.

    Raises Invalid for an impossible flavor, QuotaExceeded for growth that does not fit.
    """
    flavor = _flavor(context, flavor_ref)
    migration_uuid = uuid4()
    limits: dict[str, int] = {}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        _check_size(instance, flavor)
        claims.refuse_excess(instance.project_id, str(instance.uuid), flavor, limits_of(instance.project_id))
        limits.update(limits_of(instance.project_id))
        if disk_config:
            Instance.objects.using(alias).filter(pk=instance.pk).update(disk_config=disk_config)
        record(
            context, alias, instance, run_uuid=run_uuid, migration_uuid=migration_uuid,
            migration_type=MigrationType.RESIZE, new_flavor=asdict(flavor),
        )  # fmt: skip

    requested = ActionRequest(inputs={"migration_uuid": str(migration_uuid), "limits": limits}, prepare=prepare)
    return actions.begin(context, instance_uuid, "resize", requested)


def migrate(
    context: RequestContext, instance_uuid: str, host: str = "", *, details: Mapping[str, Any] | None = None,
    parent_uuid: UUID | None = None,
) -> str:  # fmt: skip
    """Move an instance with its guest off, to `host` or where there is room; returns the workflow's uuid."""
    migration_uuid = uuid4()

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        check_destination(alias, instance, host)
        record(
            context, alias, instance, run_uuid=run_uuid, migration_uuid=migration_uuid,
            migration_type=MigrationType.MIGRATION, details=details or {},
        )  # fmt: skip

    inputs = {"migration_uuid": str(migration_uuid), "host": host}
    return actions.begin(
        context, instance_uuid, "migrate", ActionRequest(inputs=inputs, prepare=prepare, parent_uuid=parent_uuid)
    )


def confirm(context: RequestContext, instance_uuid: str) -> str:
    """Confirm a resize or move; returns the workflow's uuid. Raises Conflict while the source is unresponsive."""

    def check(alias: str, migration: Migration) -> None:
        if is_unresponsive(alias, migration.source_host):
            raise Conflict(
                f"Cannot confirm instance {instance_uuid} yet: its source host does not answer, and must remove "
                "what it kept."
            )

    return _settle(context, instance_uuid, "confirmResize", check)


def revert(context: RequestContext, instance_uuid: str) -> str:
    """Revert a resize or move; returns the workflow's uuid. Raises Conflict while the source is unresponsive."""

    def check(alias: str, migration: Migration) -> None:
        if is_unresponsive(alias, migration.source_host):
            raise Conflict(
                f"Cannot revert instance {instance_uuid} now: its source host does not answer, and must bring it back."
            )

    return _settle(context, instance_uuid, "revertResize", check)


def confirm_overdue(alias: str) -> int:
    """Confirm moves in a cell that waited for confirmation longer than configured; returns how many were started.

    Moves of a drain are confirmed at once. An instance with a task under way is left for the next time.
    """
    begun = 0
    for migration in _overdue(alias):
        try:
            confirm(system_context(), str(migration.instance_uuid))
            begun += 1
        except NovellaError as error:
            log.info("not confirmed yet: instance=%s %s", migration.instance_uuid, error.message)
    return begun


def _overdue(alias: str) -> list[Migration]:
    waiting = Migration.objects.using(alias).filter(status=MigrationStatus.FINISHED, migration_type__in=WITH_GUEST_OFF)
    due = list(waiting.filter(details__confirms_itself=True))
    if settings.NOVELLA_RESIZE_CONFIRM_SECONDS:
        window = database_now(-settings.NOVELLA_RESIZE_CONFIRM_SECONDS)
        due += [row for row in waiting.filter(updated_at__lt=window) if not row.details.get("confirms_itself")]
    return due


def _settle(context: RequestContext, instance_uuid: str, action: str, check: Any) -> str:
    """Confirm or revert the newest finished move of an instance."""
    inputs: dict[str, Any] = {}

    def prepare(alias: str, instance: Instance, run_uuid: UUID) -> None:
        migration = finished(alias, instance)
        check(alias, migration)
        inputs["migration_uuid"] = str(migration.uuid)
        Migration.objects.using(alias).filter(pk=migration.pk).update(run_uuid=run_uuid)

    return actions.begin(context, instance_uuid, action, ActionRequest(inputs=inputs, prepare=prepare))


def finished(alias: str, instance: Instance) -> Migration:
    """Return the move of an instance that waits for confirmation. Raises Invalid when there is none."""
    rows = Migration.objects.using(alias).filter(
        instance_uuid=instance.uuid, status=MigrationStatus.FINISHED, migration_type__in=WITH_GUEST_OFF
    )
    found = rows.order_by("-pk").first()
    if found is None:
        raise Invalid("Instance has not been resized.")
    return found


def record(
    context: RequestContext,
    alias: str,
    instance: Instance,
    *,
    run_uuid: UUID,
    migration_uuid: UUID,
    migration_type: str,
    **values: Any,
) -> None:
    """Store an accepted move."""
    default: dict[str, Any] = {
        "status": MigrationStatus.PRE_MIGRATING if migration_type in WITH_GUEST_OFF else MigrationStatus.ACCEPTED,
        "new_flavor": instance.flavor,
    }
    Migration.objects.using(alias).create(
        uuid=migration_uuid,
        instance_uuid=instance.uuid,
        run_uuid=run_uuid,
        migration_type=migration_type,
        source_host=instance.host or "",
        source_node=instance.node or "",
        old_flavor=instance.flavor,
        was_running=instance.vm_state == VmState.ACTIVE,
        project_id=instance.project_id,
        user_id=context.user_id,
        created_at=database_time(alias),  # a value: pagination compares it exactly
        updated_at=database_now(),
        **{**default, **values},
    )


def check_destination(alias: str, instance: Instance, host: str) -> None:
    """Raise Invalid for a host that does not exist, is in another cell, or is the instance's own."""
    if not host:
        return
    mapping = HostMapping.objects.select_related("cell").filter(host=host).first()
    if mapping is None:
        raise Invalid(f"Compute host {host} could not be found.", field="host")
    if mapping.cell.name != alias:
        raise Invalid(f"Compute host {host} is in another cell: a server stays in its cell.", field="host")
    if host == instance.host:
        raise Invalid(f"Instance {instance.uuid} is on host {host} already: name another one.", field="host")


def limits_of(project_id: str) -> dict[str, int]:
    """Return the limits that a flavor counts against."""
    all_limits = quotas.limits(project_id)
    return {name: all_limits[name] for name in ("cores", "ram")}


def _flavor(context: RequestContext, ref: str) -> FlavorSpec:
    try:
        found = flavors.get(context, ref)
    except NotFound as error:
        raise Invalid(error.message, field="resize.flavorRef") from None
    if found.is_disabled:
        raise Invalid(f"Flavor {ref} is disabled.", field="resize.flavorRef")
    return found.spec


def _check_size(instance: Instance, flavor: FlavorSpec) -> None:
    if flavor.flavor_id == instance.flavor.get("flavor_id"):
        raise Invalid("When resizing, instances must change flavor!", field="resize.flavorRef")
    if instance.flavor.get("root_gb") and not flavor.root_gb and not instance.is_volume_backed:
        raise Invalid("Resize to zero disk flavor is not allowed.", field="resize.flavorRef")
    hardware_requests.refuse(flavor, instance.image.get("properties", {}))
    least_ram, least_disk = instance.image.get("min_ram_mb", 0), instance.image.get("min_disk_gb", 0)
    if flavor.memory_mb < least_ram:
        raise Invalid(
            f"Flavor {flavor.name} has {flavor.memory_mb} MB of memory, the server's image needs {least_ram} MB.",
            field="resize.flavorRef",
        )
    if 0 < flavor.root_gb < least_disk:
        raise Invalid(
            f"Flavor {flavor.name} has a disk of {flavor.root_gb} GB, the server's image needs {least_disk} GB.",
            field="resize.flavorRef",
        )
