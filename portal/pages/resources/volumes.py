"""Volumes: disks that outlive servers."""

from __future__ import annotations

from portal.pages.api_calls import Call
from portal.pages.faces import Face
from portal.pages.resources import cells
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME,
    REASON,
    SERVERS,
    VOLUMES,
    any_state,
    filled,
    named,
    options,
    whole,
)
from portal.pages.resources.model import Asked, Cell, Column, Deed, Field, Item, Names, Part, Resource, Source
from portal.pages.resources.shared_deeds import rename

PATH = "/volume/v3/volumes"
FACES = {
    "available": Face("good", "available"),
    "in-use": Face("good", "in use"),
    "creating": Face("working", "being made"),
    "downloading": Face("working", "being filled"),
    "uploading": Face("working", "being uploaded"),
    "extending": Face("working", "growing"),
    "attaching": Face("working", "attaching"),
    "detaching": Face("working", "detaching"),
    "deleting": Face("working", "deleting"),
    "backing-up": Face("working", "being backed up"),
    "restoring-backup": Face("working", "being restored"),
    "reverting": Face("working", "going back to a snapshot"),
    "unmanaging": Face("working", "being given out of hand"),
    "reserved": Face("waiting", "reserved"),
    "maintenance": Face("waiting", "in maintenance"),
    "awaiting-transfer": Face("waiting", "awaiting transfer"),
    "error": Face("bad", "error"),
    "error_deleting": Face("bad", "error while deleting"),
    "error_extending": Face("bad", "error while growing"),
    "error_restoring": Face("bad", "error while being restored"),
}
IMAGES = Source(
    "/image/v2/images",
    "images",
    lambda item: str(item.get("name") or item["id"]),
    wanted=lambda item: bool(item["size"]),
)
DELETABLE = ("available", "error", "error_deleting", "error_extending", "error_restoring")
SNAPSHOTS = Source(
    "/volume/v3/snapshots/detail", "snapshots", lambda item: f"{item['name'] or item['id'][:8]} ({item['size']} GB)"
)
STORAGE = "novella@files#files"
STRAY_FILES = Source(
    "/volume/v3/manageable_volumes/detail",
    "manageable-volumes",
    lambda item: f"{item['reference']['source-name']} ({item['size']} GB)",
    value=lambda item: str(item["reference"]["source-name"]),
    wanted=lambda item: bool(item["safe_to_manage"]),
    query={"host": STORAGE},
)
TYPES = Source("/volume/v3/types", "volume_types", lambda item: str(item["name"]), value=lambda item: str(item["name"]))


def _create(asked: Asked) -> Call:
    values = asked.values
    body = filled(values, "name", "description", "imageRef", "snapshot_id", "source_volid", "volume_type")
    size = {"size": whole(values["size"])} if values.get("size") else {}
    return Call("POST", PATH, {"volume": {**body, **size}})


def _manage(asked: Asked) -> Call:
    values = asked.values
    wanted = {
        "host": STORAGE,
        "ref": {"source-name": values["ref"]},
        "bootable": bool(values.get("bootable")),
        **filled(values, "name", "description"),
    }
    return Call("POST", "/volume/v3/manageable_volumes", {"volume": wanted})


def _action(name: str, body: dict[str, object]) -> Call:
    return Call("POST", f"{PATH}/{{}}/action", {name: body})


def _of(asked: Asked, call: Call) -> Call:
    return Call(call.method, call.path.format(asked.item["id"]), call.body)


def _servers(item: Item, names: Names) -> Cell:
    held = item.get("attachments") or ()
    found = [cells.link_to(str(one["server_id"]), "servers", names) for one in held if one.get("server_id")]
    return Cell("lines", lines=tuple(found)) if found else cells.NOTHING


def size_of(item: Item, names: Names) -> Cell:
    return Cell("number", f"{item['size']} GB")


def _is_free(item: Item) -> str:
    return "" if item["status"] == "available" else f"Only while it is available; it is {word(item)}."


def _is_deletable(item: Item) -> str:
    if item["attachments"]:
        return "A server has it: detach it first."
    return "" if item["status"] in DELETABLE else f"It is {word(item)}."


def _is_attached(item: Item) -> str:
    if not item["attachments"]:
        return "No server has it."
    is_turning = item["status"] in ("attaching", "detaching") and not item["multiattach"]
    return f"It is {word(item)}." if is_turning else ""


def _has_data(item: Item) -> str:
    return "" if item["status"] in ("available", "in-use") else f"It is {word(item)}."


def word(item: Item) -> str:
    return cells.state_word(item, FACES)


def _attach(asked: Asked) -> Call:
    server = asked.values.get("server") or "SERVER"
    body = {"volumeId": asked.item.get("id", ""), **filled(asked.values, "device")}
    return Call("POST", f"/compute/v2.1/servers/{server}/os-volume_attachments", {"volumeAttachment": body})


def _detach(asked: Asked) -> Call:
    held = asked.item.get("attachments") or [{"server_id": "SERVER"}]
    server = asked.values.get("server") or held[0]["server_id"]
    return Call("DELETE", f"/compute/v2.1/servers/{server}/os-volume_attachments/{asked.item.get('id', '')}")


VOLUMES_KIND = Resource(
    id="volumes",
    noun="volume",
    title="Volumes",
    icon="disk",
    service="volume",
    path=f"{PATH}/detail",
    path_of=PATH,
    key="volumes",
    one="volume",
    rule="volume:get_all",
    search="name~",
    sorting="sort",
    empty="A volume is a disk that outlives servers: attach it, keep snapshots of it, make it larger.",
    names=("servers",),
    lock="volume",
    filters=(any_state(FACES, "available", "in-use", "error"),),
    columns=(
        Column("Name", cells.text("name"), sort="name"),
        Column("State", cells.state(FACES), sort="status"),
        Column("Size", size_of, is_number=True, sort="size"),
        Column("Servers", _servers),
        Column("Type", cells.text("volume_type")),
        Column("Bootable", cells.yes("bootable")),
        Column("Age", cells.age("created_at"), is_number=True, sort="created_at"),
        Column("Description", cells.text("description"), is_in_list=False),
        Column("Zone", cells.text("availability_zone"), is_in_list=False),
        Column("For several servers", cells.yes("multiattach"), is_in_list=False),
        Column("Made from snapshot", cells.link("snapshot_id", "snapshots"), is_in_list=False),
        Column("Copy of volume", cells.link("source_volid", "volumes"), is_in_list=False),
        Column("Metadata", cells.pairs("metadata"), is_in_list=False),
    ),
    parts=(
        Part("Snapshots", "snapshots", lambda item: {"volume_id": str(item["id"])}, "create", "volume_id"),
        Part(
            "Scheduled snapshots", "snapshot-schedules", lambda item: {"volume": str(item["id"])}, "of-volume", "volume"
        ),
        Part("Backups", "backups", lambda item: {"volume_id": str(item["id"])}, "create", "volume_id"),
    ),
    deeds=(
        Deed(
            id="create",
            title="Create volume",
            does="A new disk: empty, or filled from an image, a snapshot or another volume.",
            rule="volume:create",
            is_creation=True,
            icon="plus",
            fields=(
                NAME,
                Field(
                    "size",
                    "Size in GB",
                    "number",
                    start="10",
                    least=1,
                    most=999_999,
                    help="Copies are at least as large as their source.",
                ),
                Field("imageRef", "From image", "choice", choices=IMAGES, nothing="No image", also=("image_id",)),
                Field("snapshot_id", "From snapshot", "choice", choices=SNAPSHOTS, nothing="No snapshot"),
                Field("source_volid", "Copy of", "choice", choices=VOLUMES, nothing="No volume"),
                Field("volume_type", "Type", "choice", choices=TYPES, nothing="The usual type"),
                DESCRIPTION,
            ),
            call=_create,
            cli=lambda asked: [
                "openstack volume create",
                *options(
                    asked.values,
                    size="size",
                    imageRef="image",
                    snapshot_id="snapshot",
                    source_volid="source",
                    volume_type="type",
                    description="description",
                ),
                asked.values["name"] or "NAME",
            ],
        ),
        Deed(
            id="manage",
            title="Take in a file",
            does="A file that lies in the storage and is nobody's becomes a volume of this project, with its data.",
            rule="volume_extension:volume_manage",
            is_creation=True,
            fields=(
                Field("ref", "File", "choice", choices=STRAY_FILES, is_required=True, also=("source-name",)),
                NAME,
                Field("bootable", "A server can start from it", "check"),
                DESCRIPTION,
            ),
            call=_manage,
            cli=lambda asked: [
                "openstack volume create",
                "--remote-source",
                f"source-name={asked.values['ref'] or 'FILE'}",
                *options(asked.values, description="description"),
                *(["--bootable"] if asked.values.get("bootable") else []),
                "--host",
                STORAGE,
                asked.values["name"] or "NAME",
            ],
        ),
        Deed(
            id="attach",
            title="Attach",
            does="The server sees a new disk. It can be in one zone and with one server at a time.",
            service="compute",
            rule="os_compute_api:os-volumes-attachments:create",
            fields=(
                Field("server", "Server", "choice", choices=SERVERS, is_required=True),
                Field("device", "Device", help="Such as /dev/vdb; left empty, the next free one is taken."),
            ),
            flow="attach_volume",
            why_not=lambda item: "" if item["multiattach"] else _is_free(item),
            call=_attach,
            cli=lambda asked: [
                "openstack server add volume",
                *options(asked.values, device="device"),
                asked.values.get("server") or "SERVER",
                named(asked.item),
            ],
        ),
        Deed(
            id="detach",
            title="Detach",
            does="The disk goes from the server; its data stay. Unmount it in the guest first.",
            service="compute",
            rule="os_compute_api:os-volumes-attachments:delete",
            flow="detach_volume",
            why_not=_is_attached,
            call=_detach,
            cli=lambda asked: [
                "openstack server remove volume",
                _detach(asked).path.split("/")[4],
                named(asked.item),
            ],
        ),
        Deed(
            id="snapshot",
            title="Snapshot",
            does="Keep the data as they are now. New volumes can be made of a snapshot.",
            rule="volume:create_snapshot",
            fields=(NAME, DESCRIPTION),
            why_not=_has_data,
            call=lambda asked: Call(
                "POST",
                "/volume/v3/snapshots",
                {"snapshot": {"volume_id": asked.item["id"], **filled(asked.values, "name", "description")}},
            ),
            cli=lambda asked: [
                "openstack volume snapshot create",
                "--volume",
                named(asked.item),
                *options(asked.values, description="description"),
                asked.values.get("name") or "NAME",
            ],
        ),
        Deed(
            id="extend",
            title="Extend",
            does="Make it larger. It cannot be made smaller again.",
            rule="volume:extend",
            fields=(
                Field(
                    "new_size",
                    "New size in GB",
                    "number",
                    is_required=True,
                    least=1,
                    most=999_999,
                    start=lambda item: str(int(item["size"]) + 10) if item else "",
                    also=("size",),
                ),
            ),
            why_not=_has_data,
            call=lambda asked: _of(asked, _action("os-extend", {"new_size": whole(asked.values["new_size"])})),
            cli=lambda asked: ["openstack volume set", "--size", asked.values["new_size"], named(asked.item)],
        ),
        rename("volume", "volume:update", PATH, "volume"),
        Deed(
            id="unmanage",
            title="Give out of hand",
            does="The volume is forgotten; its file stays in the storage, and can be taken in again.",
            rule="volume_extension:volume_unmanage",
            fields=(REASON,),
            why_not=_is_free,
            call=lambda asked: _of(asked, _action("os-unmanage", {})),
            cli=lambda asked: ["openstack volume delete --remote", named(asked.item)],
        ),
        Deed(
            id="delete",
            title="Delete",
            does="The disk and its data are gone for good.",
            rule="volume:delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=_is_deletable,
            call=lambda asked: Call("DELETE", f"{PATH}/{asked.item['id']}"),
            cli=lambda asked: ["openstack volume delete", named(asked.item)],
        ),
    ),
)
