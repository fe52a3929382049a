"""Images of servers: creation and backup with a workflow; shelving, offloading and unshelving."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings

from conductor.cell_db.models import ComputeNode, Instance
from conductor.cells.lookup import cell_aliases
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.core.states import VmState
from conductor.db.transactions import database_now, write_tx
from conductor.image import properties as image_properties
from conductor.image import snapshots
from conductor.journal import locks
from conductor.services.hosts import availability_zones
from conductor.services.quotas import image_quotas
from conductor.services.servers import actions, volume_images
from conductor.services.servers.actions import ActionRequest
from conductor.services.servers.queries import missing

log = logging.getLogger(__name__)

# How long an image may wait for its workflow before it counts as left behind by a dead process.
ABANDONED_SECONDS = 300.0


@dataclass(frozen=True)
class ServerImageCreate:
    """An image of a server: its name, and properties in addition to the inherited ones."""

    name: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CreatedImage:
    """The image that waits for its data, and the workflow that fills it."""

    image_id: str
    run_uuid: str


def create_image(context: RequestContext, instance_uuid: str, requested: ServerImageCreate) -> CreatedImage:
    """Create an image of the server's disk, or of its volumes if it boots from one.

    Raises NotFound, Conflict, NotSupported, Invalid, QuotaExceeded.
    """
    row = _row(context, instance_uuid)
    if row.is_volume_backed:
        values = _values(context, row, requested, image_type=snapshots.SNAPSHOT)
        return CreatedImage(*volume_images.make(context, row, values))
    return _make(context, instance_uuid, "createImage", requested, image_type=snapshots.SNAPSHOT)


def create_backup(
    context: RequestContext,
    instance_uuid: str,
    requested: ServerImageCreate,
    *,
    backup_type: str,
    rotation: int,
    run_uuid: UUID | None = None,
) -> CreatedImage:
    """Create a backup image; the newest `rotation` backups of its type are kept, with 0 none.

    `run_uuid` sets the uuid of its workflow.
    """
    if _row(context, instance_uuid).is_volume_backed:
        raise Invalid("Backup is not supported for volume-backed instances.", field="createBackup")
    extra = {"backup_type": backup_type, "rotation": rotation, "run_uuid": run_uuid}
    return _make(context, instance_uuid, "createBackup", requested, image_type=snapshots.BACKUP, **extra)


def shelve(context: RequestContext, instance_uuid: str) -> str:
    """Shut the server down and save it as an image; returns the uuid of the workflow."""
    row = _row(context, instance_uuid)
    if row.is_volume_backed:  # its root volume holds all data
        return actions.begin(context, instance_uuid, "shelve")
    name = f"{row.name}-shelved"[:255]
    return _make(context, instance_uuid, "shelve", ServerImageCreate(name), image_type=snapshots.SNAPSHOT).run_uuid


def offload(context: RequestContext, instance_uuid: str) -> str:
    """Remove a shelved server from its host; returns the uuid of the workflow."""
    return actions.begin(context, instance_uuid, "shelveOffload")


def unshelve(
    context: RequestContext, instance_uuid: str, *, availability_zone: str | None = None, host: str = ""
) -> str:
    """Unshelve a server; returns the uuid of the workflow. A zone of "" removes its pin to a zone.

    Raises Invalid for an unknown zone or host, Conflict for either while the server is still on its old host.
    """
    if availability_zone and not availability_zones.exists(context, availability_zone):
        raise Invalid(f"The requested availability zone {availability_zone} is not available", field="unshelve")
    row = _row(context, instance_uuid)
    if host:
        _check_host(context, row, host)

    def only_where_offloaded(alias: str, instance: Instance, run_uuid: Any) -> None:
        if (host or availability_zone is not None) and instance.vm_state != VmState.SHELVED_OFFLOADED:
            raise Conflict(
                f"Cannot 'unshelve' instance {instance.uuid} to a zone or host while it is in vm_state "
                f"{instance.vm_state}: its host still keeps it."
            )

    inputs: dict[str, Any] = {"host": host}
    if availability_zone is not None:
        inputs["availability_zone"] = availability_zone
    image = [f"image:{row.shelved_image_id}"] if row.shelved_image_id else []
    requested = ActionRequest(inputs=inputs, resources=image, prepare=only_where_offloaded)
    return actions.begin(context, instance_uuid, "unshelve", requested)


def settle_abandoned() -> int:
    """Remove images whose process died before there was a workflow, and late data; returns the number of images."""
    left = [image for image in snapshots.abandoned(ABANDONED_SECONDS) if locks.holder_of(f"image:{image.uuid}") is None]
    for image in left:
        volume_images.discard(str(image.uuid), volume_images.reserved_for(image), image.project_id)
        snapshots.drop_data(image.uuid)
    snapshots.remove_late_data(within_seconds=ABANDONED_SECONDS)
    return len(left)


def offload_due() -> int:
    """Offload servers that were shelved long enough ago; returns how many."""
    seconds = settings.NOVELLA_SHELVED_OFFLOAD_SECONDS
    begun = 0
    for alias in cell_aliases(with_cell0=False) if seconds > 0 else ():
        rows = Instance.objects.using(alias).alive().filter(vm_state=VmState.SHELVED, task_state=None)
        for uuid in rows.filter(shelved_at__lt=database_now(-seconds)).values_list("uuid", flat=True):
            begun += _begin_due(str(uuid))
    return begun


def _begin_due(instance_uuid: str) -> bool:
    try:
        actions.begin(system_context(), instance_uuid, "shelveOffload")
    except (Conflict, NotFound) as error:  # another action is under way: the next round sees its result
        log.info("not offloaded now: instance=%s %s", instance_uuid, error.message)
        return False
    return True


def _make(
    context: RequestContext,
    instance_uuid: str,
    action: str,
    requested: ServerImageCreate,
    *,
    image_type: str,
    **inputs: Any,
) -> CreatedImage:
    image_id, wanted_uuid = str(uuid4()), inputs.pop("run_uuid", None)
    row = _row(context, instance_uuid)
    with write_tx():
        image_quotas.require_count(row.project_id)
    extra = {"backup_type": inputs["backup_type"]} if inputs else {}
    values = _values(context, row, requested, image_type=image_type, **extra)
    inputs = {"image_id": image_id, "image": values, **inputs}
    query = ActionRequest(inputs=inputs, resources=[f"image:{image_id}"], run_uuid=wanted_uuid)
    run_uuid = actions.begin(context, instance_uuid, action, query)
    # Callers read the image next; if this process dies here, the workflow's first step creates it.
    snapshots.reserve(image_id, row.project_id, values)
    return CreatedImage(image_id, run_uuid)


def _values(context: RequestContext, row: Instance, requested: ServerImageCreate, **typed: str) -> dict[str, Any]:
    """Return the values of the new image: it boots as the server's own did. Raises Invalid."""
    source = row.image
    own = {
        "user_id": context.user_id,
        "base_image_ref": source.get("image_id", ""),
        "instance_uuid": str(row.uuid),
    }
    if typed["image_type"] == snapshots.SNAPSHOT:  # a snapshot's type is its owner's to name, a backup's is not
        given = {**typed, **requested.metadata}
    else:
        given, own = dict(requested.metadata), {**typed, **own}
    inherited = snapshots.inherited(source.get("properties", {}))
    if not source.get("image_id"):
        inherited = image_properties.of_root_volume(context, inherited)
    properties = image_properties.of_server_image(context, given, inherited, own)
    return {
        "name": requested.name,
        "min_disk_gb": max(source.get("min_disk_gb", 0), row.flavor["root_gb"]),
        "min_ram_mb": source.get("min_ram_mb", 0),
        "is_simulated": _is_simulated(row),
        "properties": properties,
    }


def _is_simulated(row: Instance) -> bool:
    nodes = ComputeNode.objects.using(row._state.db).filter(host=row.host or "")
    return nodes.filter(is_simulated=True).exists()


def _check_host(context: RequestContext, row: Instance, host: str) -> None:
    if not context.is_admin:
        raise Forbidden("Policy doesn't allow os_compute_api:os-shelve:unshelve_to_host to be performed.")
    if not ComputeNode.objects.using(row._state.db).filter(host=host).exists():
        raise Invalid(f"Compute host {host} could not be found in the cell of the server.", field="unshelve.host")


def _row(context: RequestContext, instance_uuid: str) -> Instance:
    alias = actions.cell_of(context, instance_uuid)
    row = Instance.objects.using(alias).alive().filter(uuid=instance_uuid).first()
    if row is None:
        raise missing(instance_uuid)
    return row
