"""Updates of instances' names, metadata and tags. They act at once, and are not lost to a concurrent build."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from conductor import events
from conductor.api_db.models import BuildRequest
from conductor.cell_db.models import Instance
from conductor.cells import quarantine
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound, QuotaExceeded
from conductor.core.messages import message
from conductor.core.states import VmState
from conductor.db.transactions import database_now, write_tx
from conductor.network import ports
from conductor.rpc import outbox
from conductor.services.quotas import quotas
from conductor.services.servers import queries
from conductor.services.servers.queries import mapping_of, missing
from conductor.services.servers.types import InstanceData

RENAMEABLE = frozenset({"name", "description", "hostname", "access_ip_v4", "access_ip_v6", "disk_config"})
PIN = "pinned_availability_zone"
LABELLED_STATES = (VmState.ACTIVE, VmState.PAUSED, VmState.SUSPENDED, VmState.STOPPED)
MOST_TAGS = 50
ANSWERED = "SelectDestinations"  # the step whose result starts the copying of requests into cells
# Copying takes milliseconds, and clients that rename a server right after its launch do not retry. The wait is limited,
# as the conductor may have died meanwhile.
COPYING_SECONDS = 2.0
PAUSE_SECONDS = 0.05
Values = dict[str, Any]


class StillScheduled(Conflict):
    """The instance has no cell yet."""


def update(context: RequestContext, instance_uuid: str, values: Mapping[str, Any]) -> InstanceData:
    """Set fields of RENAMEABLE, also of a build request. Raises Conflict when it does not get its cell in time.

    On a server with a host, PIN can be set to its current zone, or to none.
    """
    unknown = values.keys() - RENAMEABLE - {PIN}
    if unknown:
        raise Invalid(f"{', '.join(sorted(unknown))} cannot be changed.")

    def change(row: Instance) -> Values:
        if PIN in values:
            _check_pin(row, values[PIN])
        return dict(values)

    gives_up_at = time.monotonic() + COPYING_SECONDS
    while PIN in values or not _change_request(context, instance_uuid, dict(values)):
        try:
            _change(context, instance_uuid, change)
        except StillScheduled:
            if PIN in values or time.monotonic() > gives_up_at:
                raise
            time.sleep(PAUSE_SECONDS)
        else:
            if "hostname" in values:
                ports.rename_guest(instance_uuid.lower(), values["hostname"])
            break
    return queries.get(context, instance_uuid)


def merge_metadata(context: RequestContext, instance_uuid: str, items: Mapping[str, str]) -> dict[str, str]:
    """Add items to the metadata, or replace those with the same key; returns all of it."""
    return _set_metadata(context, instance_uuid, lambda row: {**row.metadata, **items})


def replace_metadata(context: RequestContext, instance_uuid: str, items: Mapping[str, str]) -> dict[str, str]:
    """Replace all metadata by these items; returns them."""
    return _set_metadata(context, instance_uuid, lambda row: dict(items))


def remove_metadata(context: RequestContext, instance_uuid: str, key: str) -> None:
    """Remove a metadata item. Raises NotFound when there is none of this key."""

    def without(row: Instance) -> dict[str, str]:
        if key not in row.metadata:
            raise NotFound("Metadata item was not found")
        return {name: value for name, value in row.metadata.items() if name != key}

    _set_metadata(context, instance_uuid, without)


def replace_tags(context: RequestContext, instance_uuid: str, tags: Sequence[str]) -> tuple[str, ...]:
    """Replace all tags by these; returns them."""
    return _set_tags(context, instance_uuid, lambda row: list(dict.fromkeys(tags)))


def add_tag(context: RequestContext, instance_uuid: str, tag: str) -> bool:
    """Add a tag; returns whether it is new. Raises Invalid for too many tags."""
    before = queries.get(context, instance_uuid).tags
    _set_tags(context, instance_uuid, lambda row: list(dict.fromkeys([*row.tags, tag])))
    return tag not in before


def remove_tag(context: RequestContext, instance_uuid: str, tag: str) -> None:
    """Remove a tag. Raises NotFound when the instance does not have it."""

    def without(row: Instance) -> list[str]:
        if tag not in row.tags:
            raise NotFound(f"Instance {instance_uuid} has no tag '{tag}'")
        return [one for one in row.tags if one != tag]

    _set_tags(context, instance_uuid, without)


def _set_metadata(
    context: RequestContext, instance_uuid: str, make: Callable[[Instance], dict[str, str]]
) -> dict[str, str]:
    limit = quotas.limits(mapping_of(context, instance_uuid).project_id)["metadata_items"]

    def change(row: Instance) -> Values:
        _require_labelled_state(row, "update_instance_metadata")
        made = make(row)
        if limit != quotas.UNLIMITED and len(made) > max(limit, len(row.metadata)):
            raise QuotaExceeded(message("quota.metadata", wanted=len(made), most=limit))
        return {"metadata": made}

    changed: dict[str, str] = _change(context, instance_uuid, change)["metadata"]
    return changed


def _set_tags(context: RequestContext, instance_uuid: str, make: Callable[[Instance], list[str]]) -> tuple[str, ...]:
    def change(row: Instance) -> Values:
        _require_labelled_state(row, "update_instance_tags")
        made = make(row)
        if len(made) > MOST_TAGS:
            raise Invalid(f"The number of tags exceeded the per-server limit {MOST_TAGS}", field="tags")
        return {"tags": made}

    return tuple(_change(context, instance_uuid, change)["tags"])


def _check_pin(row: Instance, zone: str) -> None:
    if zone and zone != row.availability_zone:
        raise Invalid(
            f"Availability zone {zone[:60]} is not that of the server, which is in "
            f"{row.availability_zone or 'none'}: a server can be bound to the zone that it is in, or to none.",
            field=f"server.{PIN}",
        )


def _require_labelled_state(row: Instance, action: str) -> None:
    if row.vm_state not in LABELLED_STATES:
        raise Conflict(f"Cannot '{action}' instance {row.uuid} while it is in vm_state {row.vm_state}")


def _change_request(context: RequestContext, instance_uuid: str, values: Values) -> bool:
    """Change a build request before it is copied. False where there is none, or a conductor may be copying it.

    Every transaction of a conductor starts by locking its run, and the copying starts after the one that records the
    scheduler's result. So a caller that locks the run and sees no result writes before the copy is made.
    """
    mapping = mapping_of(context, instance_uuid)
    if mapping.cell is not None:
        return False
    requests = BuildRequest.objects.filter(instance_uuid=mapping.instance_uuid, is_deleting=False)
    with write_tx(API_ALIAS):
        run_uuid = requests.values_list("run_uuid", flat=True).first()
        held = outbox.hold(API_ALIAS, uuid=run_uuid) if run_uuid else []
        request = requests.first() if held else None
        if request is None or request.run_uuid != held[0].uuid:
            return False
        if held[0].direction != "do" or ANSWERED in held[0].variables:
            return False
        requests.update(instance={**request.instance, **values})
        topic = events.about_instance(request.instance_uuid, request.project_id, request.run_uuid)
        events.append(API_ALIAS, topic, "instance.updated", {"changed": sorted(values)})
    return True


def _change(context: RequestContext, instance_uuid: str, make: Callable[[Instance], Values]) -> Values:
    """Write what `make` returns for the row, in the same transaction that reads the row."""
    mapping = mapping_of(context, instance_uuid)
    if mapping.cell is None:
        if mapping.is_deleted:
            raise missing(instance_uuid)
        raise StillScheduled(f"Instance {instance_uuid} is still being scheduled; try again in a moment.")
    alias = mapping.cell.name
    quarantine.refuse(alias)
    with write_tx(alias):
        rows = Instance.objects.using(alias).alive().filter(uuid=mapping.instance_uuid)
        row = rows.select_for_update().first()
        if row is None:
            raise missing(instance_uuid)
        values = make(row)
        rows.update(**values, updated_at=database_now())
        events.append(
            alias, events.about_instance(row.uuid, row.project_id), "instance.updated", {"changed": sorted(values)}
        )
    return values
