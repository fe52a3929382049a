"""Keep a volume's data, or its snapshot's, where they outlive the volume."""

from __future__ import annotations

from conductor.volume import backup_store, backups, store
from conductor.volume.models import Backup
from conductor.workflows.flow import Result, Step, Work
from conductor.workflows.steps import volume_data


class CopyIntoBackup(Step):
    """A backup that was finished before is not made again; one that was cut short begins anew."""

    title = "Copy data"

    def execute(self, work: Work) -> Result:
        row = volume_data.existing_backup(work.inputs["backup_id"])
        snapshot_id = work.inputs["snapshot_id"]
        source = store.snapshot_path_of(snapshot_id) if snapshot_id else store.path_of(work.inputs["volume_id"])
        added = backup_store.take(row.data_uuid, source, row.parent.data_uuid if row.parent else None)
        return {"blocks": added}

    def apply(self, work: Work, result: Result) -> None:
        row = Backup.objects.filter(uuid=work.inputs["backup_id"]).first()
        if row is not None:
            backups.describe(row, object_count=result["blocks"])

    def revert(self, work: Work, result: Result) -> None:
        backup_store.remove(work.inputs["backup_id"])
