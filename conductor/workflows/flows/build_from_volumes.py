"""Flow that builds a server in its cell with volumes: fills those that the launch created, and marks them as in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from conductor.cell_db.models import BlockDevice
from conductor.core.states import TaskState
from conductor.db.transactions import database_now
from conductor.volume import operations
from conductor.workflows.flow import UNTIL_DONE, Result, RetryPolicy, Step, StepContext
from conductor.workflows.flows.build import (
    BuildInCell,
    CheckOnHost,
    ClaimDestination,
    MarkActive,
    MarkFailed,
    PlugNetworks,
    SpawnOnHost,
)
from conductor.workflows.steps import devices, instance_rows, volume_data


class MarkVolumesInUse(Step):
    """Sets the volumes to in use, with their host.

    No revert: the volumes' release works for those in use or not.
    """

    title = "Mark volumes as in use"
    lane = "Cell conductor"
    retry = RetryPolicy(max_attempts=5)

    def execute(self, work: StepContext) -> Result:
        host = instance_rows.read(work).host or ""
        with work.fenced("default"):
            operations.move(work.instance_uuid, host)
            for device in work.inputs["devices"]:
                operations.complete(device["attachment_id"])
        return {}


class MarkWithoutVolumes(MarkFailed):
    """Sets the server to error; deletes volumes that were created for it, and releases the others and the ports.

    While a host may still write to them they stay `detaching`, and the delete of the server releases them.
    """

    retry = UNTIL_DONE

    def is_final(self, work: StepContext, error: Mapping[str, Any]) -> bool:
        return False

    def execute(self, work: StepContext) -> Result:
        super().execute(work)
        host = devices.kept_by(work)
        for device in work.inputs["devices"]:
            with work.fenced("default"):
                if host:
                    operations.keep_detaching(device["attachment_id"])
                else:
                    operations.let_go(device["attachment_id"], is_deleted=device["is_made"])
            operations.settle(device["volume_id"])
        return {}


class FillVolumes(Step):
    """Copies images into the new volumes, and records all volumes in the cell.

    A finished copy is not repeated; an interrupted one starts again.
    """

    title = "Fill volumes"
    lane = "Cell conductor"
    event = "compute__prep_block_device"

    def on_start(self, work: StepContext) -> None:
        instance_rows.update(work, task_state=TaskState.BLOCK_DEVICE_MAPPING)

    def execute(self, work: StepContext) -> Result:
        connections = []
        for device in work.inputs["devices"]:
            volume = volume_data.existing(device["volume_id"])
            if device["is_made"]:
                volume_data.fill(work.context, volume, device["image"])
                with work.fenced("default"):
                    operations.is_filled(device["attachment_id"])
            connections.append(operations.connection_of(volume, device["device_name"], boot_index=device["boot_index"]))
        return {"connections": connections}

    def commit(self, work: StepContext, result: Result) -> None:
        now = database_now()
        BlockDevice.objects.using(work.alias).bulk_create(
            (
                BlockDevice(
                    uuid=device["attachment_id"],
                    instance_uuid=work.instance_uuid,
                    volume_uuid=device["volume_id"],
                    device_name=device["device_name"],
                    boot_index=device["boot_index"],
                    tag=device["tag"],
                    delete_on_termination=device["delete_on_termination"],
                    connection=connection,
                    created_at=now,
                )
                for device, connection in zip(work.inputs["devices"], result["connections"], strict=True)
            ),
            ignore_conflicts=True,  # kept from an earlier attempt
        )

    def commit_revert(self, work: StepContext) -> None:
        """Forget the devices, but keep the volumes reserved: another attempt may need them.

        While a host may still write to them, the devices stay recorded: the delete of the server releases the volumes.
        """
        if not devices.kept_by(work):
            BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid).delete()


BUILD_FROM_VOLUMES = BuildInCell(
    "build_from_volumes",
    version=1,
    steps=(
        ClaimDestination(),  # the scheduler's claim, later the next alternate's; revert releases it
        CheckOnHost(),  # one command to the host, which may refuse; nothing is prepared yet
        FillVolumes(),  # the launch has reserved them; those created for the server get their data
        PlugNetworks(),  # ports get addresses and the host; all attempts share them
        SpawnOnHost(),  # one command to the host, the run suspends; revert destroys the guest
        MarkVolumesInUse(),
        MarkActive(),
    ),
    on_failure=MarkWithoutVolumes(),  # releases the ports and the volumes
    on_cancel=MarkWithoutVolumes(),
    is_retryable=False,  # the volumes have been released
    max_attempts=settings.NOVELLA_MAX_BUILD_ATTEMPTS,
)
