"""Give a volume the data that a backup has."""

from __future__ import annotations

from conductor.volume import backup_store
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import volume_data


class CopyFromBackup(Step):
    """The old data are there until the copy is whole; there is no way back after that, and none is needed."""

    title = "Copy data back"

    def execute(self, work: Work) -> Result:
        row = volume_data.existing_backup(work.inputs["backup_id"])
        volume = volume_data.existing(work.inputs["volume_id"])
        backup_store.restore(row.data_uuid, volume.uuid, volume.size_gb)
        return {}
