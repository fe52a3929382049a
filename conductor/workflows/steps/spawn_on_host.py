"""Have the host build and start the guest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conductor.core.compute_driver import GuestSpec, NetworkPort
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import PowerState, TaskState
from conductor.image import operations as images
from conductor.rpc.messages import DestroyInstance, SpawnInstance
from conductor.workflows.flow import RemoteStep, Result, Work
from conductor.workflows.steps import instance_rows
from conductor.workflows.steps.plug_networks import PlugNetworks


class SpawnOnHost(RemoteStep):
    title = "Spawn on host"
    event = "compute__do_build_and_run_instance"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.SPAWNING)

    def command(self, work: Work) -> Any:
        instance = instance_rows.read(work)
        image = ImageSpec(**instance.image)
        guest = GuestSpec(
            instance_uuid=str(instance.uuid),
            name=instance.name,
            hostname=instance.hostname,
            project_id=instance.project_id,
            flavor=FlavorSpec(**instance.flavor),
            image=image,
            kernel=_boot_part(image, "kernel_id"),
            ramdisk=_boot_part(image, "ramdisk_id"),
            ports=tuple(NetworkPort(**port) for port in work.result_of(PlugNetworks)["ports"]),
            user_data=instance.user_data or "",
            public_key=instance.public_key,
            metadata=instance.metadata,
        )
        return SpawnInstance(**addressed(work, instance.host or ""), guest=guest.to_json())

    def apply(self, work: Work, result: Result) -> None:
        instance_rows.update(work, power_state=PowerState.RUNNING)

    def revert_command(self, work: Work) -> Any:
        host = instance_rows.read(work).host
        return DestroyInstance(**addressed(work, host)) if host else None

    def apply_revert(self, work: Work) -> None:
        instance_rows.update(work, power_state=PowerState.NOSTATE)


def addressed(work: Work, host: str) -> dict[str, Any]:
    """The fields that every command to a host carries."""
    return {
        "step_key": work.step_key,
        "fencing_token": work.token,
        "run_uuid": str(work.run.uuid),
        "cell": work.alias,
        "host": host,
        "instance_uuid": work.instance_uuid,
    }


def _boot_part(image: ImageSpec, name: str) -> ImageSpec | None:
    """The kernel or ramdisk that the image's properties name."""
    part_id = image.properties.get(name)
    return replace(images.image_spec(images.get(part_id)), properties={}) if part_id else None
