"""Give the volumes that are made for the server their data, and tell the cell of all its volumes."""

from __future__ import annotations

from conductor.cell_db.models import BlockDevice
from conductor.core.states import TaskState
from conductor.transactions import database_now
from conductor.volume import operations
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import devices, instance_rows, volume_data


class FillVolumes(Step):
    """A copy that was finished before is not made again; one that was cut short begins anew."""

    title = "Fill volumes"
    lane = "Cell conductor"
    event = "compute__prep_block_device"

    def apply_start(self, work: Work) -> None:
        instance_rows.update(work, task_state=TaskState.BLOCK_DEVICE_MAPPING)

    def execute(self, work: Work) -> Result:
        connections = []
        for device in work.inputs["devices"]:
            volume = volume_data.existing(device["volume_id"])
            if device["is_made"]:
                volume_data.fill(work.context, volume, device["image"])
                with work.fenced("default"):
                    operations.is_filled(device["attachment_id"])
            connections.append(operations.connection_of(volume, device["device_name"], boot_index=device["boot_index"]))
        return {"connections": connections}

    def apply(self, work: Work, result: Result) -> None:
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
            ignore_conflicts=True,  # kept from an attempt before
        )

    def apply_revert(self, work: Work) -> None:
        """The volumes stay taken: another attempt may need them, and what fails for good gives them back.

        While a host may still write to them, the devices stay known: the delete of the server frees them.
        """
        if not devices.kept_by(work):
            BlockDevice.objects.using(work.alias).filter(instance_uuid=work.instance_uuid).delete()
