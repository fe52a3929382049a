"""Commands to a host: their common fields, the guest for the driver, and the shared lock of a destination."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import connections

from conductor.cell_db.models import BlockDevice, Instance
from conductor.cell_db.statements import lock_service
from conductor.core.compute_driver import GuestFile, GuestSpec, NetworkPort, VolumeConnection
from conductor.core.errors import HostClosed
from conductor.core.hardware.wire import grant_to_json
from conductor.core.identifiers import host_resource, host_use_resource
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState
from conductor.db.rows import Rows
from conductor.image import boot_images
from conductor.journal import statements
from conductor.journal.models import ResourceLock
from conductor.placement.hardware import held_by
from conductor.rpc.messages import DestroyInstance
from conductor.workflows.flow import UNTIL_DONE, RemoteStep, Result, StepContext
from conductor.workflows.steps import instance_rows

ASKS_FOR_HARDWARE = ("hw:", "hw_", "pci_passthrough:", "resources")
DEVICES = Rows(BlockDevice, "instance_uuid")


def addressed(work: StepContext, host: str) -> dict[str, Any]:
    """Return the fields of every command to a host."""
    return {
        "step_key": work.step_key,
        "fencing_token": work.token,
        "run_uuid": str(work.run.uuid),
        "cell": work.alias,
        "host": host,
        "instance_uuid": work.instance_uuid,
    }


def guest_of(work: StepContext, instance: Instance, **changes: Any) -> dict[str, Any]:
    """Return the instance as core.GuestSpec in JSON. `changes` replace its fields, such as `flavor` or `image`."""
    guest = GuestSpec(
        instance_uuid=str(instance.uuid),
        name=instance.name,
        hostname=instance.hostname,
        project_id=instance.project_id,
        flavor=FlavorSpec(**instance.flavor),
        image=ImageSpec(**instance.image),
        ports=tuple(NetworkPort.from_json(port) for port in instance.addresses),
        user_data=instance.user_data or "",
        public_key=instance.public_key,
        metadata=instance.metadata,
        volumes=_volumes(work, instance),
        hardware=hardware_of(instance),
        files=tuple(GuestFile(**file) for file in instance.injected_files or ()),
    )
    guest = replace(guest, **changes)
    kernel, ramdisk = boot_images.boot_parts(instance.project_id, guest.image.properties)
    return replace(guest, kernel=kernel, ramdisk=ramdisk).to_json()


def fresh_guest_of(work: StepContext, instance: Instance, **changes: Any) -> dict[str, Any]:
    """Return the guest as `guest_of` does, for a host that fetches the image now.

    Raises BuildAborted when the project may not read the image.
    """
    image = changes.get("image") or ImageSpec(**instance.image)
    boot_images.require_readable(work.context, instance.project_id, image.image_id)
    return guest_of(work, instance, **changes)


def rescued_volumes(work: StepContext, instance: Instance) -> tuple[VolumeConnection, ...]:
    """Return the instance's volumes for a guest that boots from another disk. None of them is the boot disk then."""
    return tuple(
        replace(volume, boot_index=-1, device_name="") if volume.boot_index == 0 else volume
        for volume in _volumes(work, instance)
    )


def _volumes(work: StepContext, instance: Instance) -> tuple[VolumeConnection, ...]:
    devices = DEVICES.all(connections[work.alias], instance.uuid)
    ordered = sorted(devices, key=lambda device: (device.boot_index, device.pk))
    return tuple(VolumeConnection(**device.connection) for device in ordered)


def hardware_of(instance: Instance) -> dict[str, Any]:
    """Return the NUMA cells, CPUs and devices granted to the guest. Empty for one that requests none."""
    keys = (*instance.flavor.get("extra_specs", {}), *instance.image.get("properties", {}))
    if not any(key.startswith(ASKS_FOR_HARDWARE) for key in keys):
        return {}
    return next((grant_to_json(grant) for grant in held_by(instance.uuid).values()), {})


class DestroyOnHost(RemoteStep):
    """Destroys the guest on its host, as soon as the host answers; without a host nothing is sent."""

    title = "Destroy on host"
    event = "compute_terminate_instance"
    retry = UNTIL_DONE

    def command(self, work: StepContext) -> Any:
        host = instance_rows.read(work).host
        return DestroyInstance(**addressed(work, host)) if host else None

    def commit(self, work: StepContext, result: Result) -> None:
        instance_rows.update(work, power_state=PowerState.NOSTATE)


def hold_host(work: StepContext, host: str) -> None:
    """Take a shared lock of the host that is the destination of a build or move. Call it inside a fenced transaction.

    A run that needs a host exclusively (a drain, the deletion of its service) locks `host:<name>`. Both sides first
    lock the row of the host's service, so that neither can begin unnoticed by the other. Idempotent.

    Raises:
        HostClosed: the host is locked exclusively; the error names the holder.
    """
    connection = connections[work.alias]
    if connection.vendor != "sqlite":  # SQLite's write transactions are exclusive from the start
        lock_service(connection, host)
    is_closed = statements.is_held_by_other(connection, host_resource(host), work.run.pk)
    locks = ResourceLock.objects.using(work.alias).select_related("run")
    held = locks.filter(resource=host_resource(host)).first() if is_closed else None
    if held is not None:
        raise HostClosed(f"Host {host} accepts no commands now: it is held by {held.holder}.")
    statements.take_locks(connection, [(host_use_resource(host, work.run.uuid), work.run.pk)])


def let_go_of_hosts(work: StepContext) -> None:
    """Release the run's locks of hosts. Call it inside a fenced transaction. The end of a run does it too."""
    mine = ResourceLock.objects.using(work.alias).filter(run_id=work.run.pk)
    mine.filter(resource__startswith="host:", resource__endswith=f"#{work.run.uuid}").delete()
