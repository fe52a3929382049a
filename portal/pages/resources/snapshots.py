"""Snapshots of volumes: data as they were at one moment."""

from __future__ import annotations

from portal.pages.api_calls import Call
from portal.pages.resources import cells, volumes
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME,
    VOLUMES,
    filled,
    named,
    options,
    whole,
)
from portal.pages.resources.model import Column, Deed, Field, Resource
from portal.pages.resources.shared_deeds import rename

PATH = "/volume/v3/snapshots"
SNAPSHOTS = Resource(
    id="snapshots",
    noun="snapshot",
    title="Volume snapshots",
    icon="camera",
    service="volume",
    path=f"{PATH}/detail",
    path_of=PATH,
    key="snapshots",
    one="snapshot",
    rule="volume:get_all_snapshots",
    search="name~",
    sorting="sort",
    empty="A snapshot keeps a volume's data as they were at one moment.",
    names=("volumes",),
    lock="snapshot",
    tool=("snapshot-schedules", "Schedules"),
    columns=(
        Column("Name", cells.text("name"), sort="name"),
        Column("State", cells.state(volumes.FACES), sort="status"),
        Column("Volume", cells.link("volume_id", "volumes")),
        Column("Size", volumes.size_of, is_number=True),
        Column("Age", cells.age("created_at"), is_number=True, sort="created_at"),
        Column("Description", cells.text("description"), is_in_list=False),
        Column("Metadata", cells.pairs("metadata"), is_in_list=False),
    ),
    deeds=(
        Deed(
            id="create",
            title="Create snapshot",
            does="Keep a volume's data as they are now.",
            rule="volume:create_snapshot",
            is_creation=True,
            icon="plus",
            fields=(Field("volume_id", "Volume", "choice", choices=VOLUMES, is_required=True), NAME, DESCRIPTION),
            call=lambda asked: Call(
                "POST", PATH, {"snapshot": filled(asked.values, "volume_id", "name", "description")}
            ),
            cli=lambda asked: [
                "openstack volume snapshot create",
                *options(asked.values, volume_id="volume", description="description"),
                asked.values["name"] or "NAME",
            ],
        ),
        Deed(
            id="restore",
            title="New volume from it",
            does="A new volume with the data of this snapshot.",
            rule="volume:create",
            fields=(
                NAME,
                Field("size", "Size in GB", "number", start=lambda item: str(item["size"]) if item else "", least=1),
            ),
            call=lambda asked: Call(
                "POST",
                volumes.PATH,
                {
                    "volume": {
                        "name": asked.values["name"],
                        "snapshot_id": asked.item["id"],
                        "size": whole(asked.values["size"]),
                    }
                },
            ),
            cli=lambda asked: [
                "openstack volume create",
                "--snapshot",
                named(asked.item),
                *options(asked.values, size="size"),
                asked.values["name"] or "NAME",
            ],
        ),
        rename("snapshot", "volume:update_snapshot", PATH, "volume snapshot"),
        Deed(
            id="delete",
            title="Delete",
            does="The snapshot is gone for good; its volume stays.",
            rule="volume:delete_snapshot",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=lambda item: "" if item["status"] in ("available", "error") else f"It is {volumes.word(item)}.",
            call=lambda asked: Call("DELETE", f"{PATH}/{asked.item['id']}"),
            cli=lambda asked: ["openstack volume snapshot delete", named(asked.item)],
        ),
    ),
)
