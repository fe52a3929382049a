"""Snapshots of volumes: their data at one point in time."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.services.volumes import snapshots
from conductor.services.volumes.volumes import changes as changes_of
from portal.api.volume.schemas import volumes as schemas
from portal.pages.resources import columns
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME,
    filled,
    named,
    options,
    whole,
)
from portal.pages.resources.model import (
    Call,
    Column,
    Field,
    Item,
    ItemReader,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.resources.shared_actions import rename
from portal.pages.storage import volumes

PATH = "/volume/v3/snapshots"


def _get(caller: RequestContext, ident: str) -> Item:
    return volumes.snapshot_item(snapshots.get_snapshot(caller, ident))


def _restore(caller: RequestContext, form: SubmittedForm) -> None:
    volumes.create_volume(caller, form)


def _rename(caller: RequestContext, form: SubmittedForm) -> Item:
    changes = changes_of(form.body["snapshot"])
    return volumes.snapshot_item(snapshots.update(caller, form.item["id"], changes))


def _delete(caller: RequestContext, form: SubmittedForm) -> None:
    snapshots.delete(caller, form.item["id"])


SNAPSHOTS = Resource(
    id="snapshots",
    noun="snapshot",
    title="Volume snapshots",
    icon="camera",
    service="volume",
    one="snapshot",
    rule="volume:get_all_snapshots",
    reader=ItemReader(volumes.list_snapshots, _get, "volume:get_snapshot"),
    search="name~",
    sorting="sort",
    empty="A snapshot is a copy of a volume's data at one point in time.",
    names=("volumes",),
    lock="snapshot",
    tool=("snapshot-schedules", "Schedules"),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", columns.state(volumes.BADGES), sort="status"),
        Column("Volume", columns.link("volume_id", "volumes")),
        Column("Size", volumes.size_of, is_number=True),
        Column("Age", columns.age("created_at"), is_number=True, sort="created_at"),
        Column("Description", columns.text("description"), is_in_list=False),
        Column("Metadata", columns.pairs("metadata"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create snapshot",
            does="Saves the volume's current data.",
            rule="volume:create_snapshot",
            is_creation=True,
            icon="plus",
            fields=(
                Field("volume_id", "Volume", "choice", choices=volumes.VOLUMES, is_required=True),
                NAME,
                DESCRIPTION,
            ),
            call=lambda form: Call("POST", PATH, {"snapshot": filled(form.values, "volume_id", "name", "description")}),
            schema=schemas.CREATE_SNAPSHOT,
            execute=volumes.take_snapshot,
            cli=lambda form: [
                "openstack volume snapshot create",
                *options(form.values, volume_id="volume", description="description"),
                form.values["name"] or "NAME",
            ],
        ),
        ResourceAction(
            id="restore",
            title="Create volume from snapshot",
            does="Creates a volume with the data of this snapshot.",
            rule="volume:create",
            fields=(
                NAME,
                Field("size", "Size (GB)", "number", start=lambda item: str(item["size"]) if item else "", least=1),
            ),
            call=lambda form: Call(
                "POST",
                volumes.PATH,
                {
                    "volume": {
                        "name": form.values["name"],
                        "snapshot_id": form.item["id"],
                        "size": whole(form.values["size"]),
                    }
                },
            ),
            schema=schemas.CREATE,
            execute=_restore,
            cli=lambda form: [
                "openstack volume create",
                "--snapshot",
                named(form.item),
                *options(form.values, size="size"),
                form.values["name"] or "NAME",
            ],
        ),
        rename(
            "snapshot",
            "volume:update_snapshot",
            PATH,
            "volume snapshot",
            execute=_rename,
            schema=schemas.UPDATE_SNAPSHOT,
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="Deletes the snapshot permanently. Its volume stays.",
            rule="volume:delete_snapshot",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=lambda item: (
                "" if item["status"] in ("available", "error") else columns.state_refusal(item, volumes.BADGES)
            ),
            call=lambda form: Call("DELETE", f"{PATH}/{form.item['id']}"),
            execute=_delete,
            cli=lambda form: ["openstack volume snapshot delete", named(form.item)],
        ),
    ),
)
