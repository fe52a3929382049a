"""Volumes: disks that outlive servers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.servers import external_events, server_volumes
from conductor.services.servers.server_volumes import AttachmentCreate
from conductor.services.volumes import creation, management, snapshots, volumes
from conductor.services.volumes.creation import VolumeAsk
from conductor.services.volumes.management import ManageAsk
from conductor.services.volumes.snapshots import SnapshotCreate, SnapshotQuery
from conductor.services.volumes.volumes import VolumeQuery
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.schemas.storage_actions import attach_volume
from portal.api.volume.schemas import volumes as schemas
from portal.pages import policies
from portal.pages.images.images import list_images
from portal.pages.resources import columns
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME,
    REASON,
    any_state,
    filled,
    named,
    options,
    whole,
    with_id,
)
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    Item,
    ItemOptions,
    ItemReader,
    Names,
    Query,
    RelatedTable,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.resources.queries import filters_of, page_items, page_of
from portal.pages.resources.service_calls import recorded_refusals
from portal.pages.resources.shared_actions import rename
from portal.pages.server_items import SERVERS
from portal.pages.status_badges import StatusBadge

PATH = "/volume/v3/volumes"
BADGES = {
    "available": StatusBadge("good", "available"),
    "in-use": StatusBadge("good", "in use"),
    "creating": StatusBadge("working", "creating"),
    "downloading": StatusBadge("working", "creating from source"),
    "uploading": StatusBadge("working", "uploading"),
    "extending": StatusBadge("working", "extending"),
    "attaching": StatusBadge("working", "attaching"),
    "detaching": StatusBadge("working", "detaching"),
    "deleting": StatusBadge("working", "deleting"),
    "backing-up": StatusBadge("working", "backing up"),
    "restoring-backup": StatusBadge("working", "restoring"),
    "reverting": StatusBadge("working", "reverting to snapshot"),
    "unmanaging": StatusBadge("working", "releasing"),
    "reserved": StatusBadge("waiting", "reserved"),
    "maintenance": StatusBadge("waiting", "in maintenance"),
    "awaiting-transfer": StatusBadge("waiting", "awaiting transfer"),
    "error": StatusBadge("bad", "error"),
    "error_deleting": StatusBadge("bad", "error while deleting"),
    "error_extending": StatusBadge("bad", "error while extending"),
    "error_restoring": StatusBadge("bad", "error while being restored"),
}
IMAGES = ItemOptions(
    "image",
    "get_images",
    list_images,
    lambda item: str(item.get("name") or item["id"]),
    wanted=lambda item: bool(item["size"]),
)
DELETABLE = ("available", "error", "error_deleting", "error_extending", "error_restoring")
STORAGE = "novella@files#files"


def _create(form: SubmittedForm) -> Call:
    values = form.values
    body = filled(values, "name", "description", "imageRef", "snapshot_id", "source_volid", "volume_type")
    size = {"size": whole(values["size"])} if values.get("size") else {}
    return Call("POST", PATH, {"volume": {**body, **size}})


def _manage(form: SubmittedForm) -> Call:
    values = form.values
    wanted = {
        "host": STORAGE,
        "ref": {"source-name": values["ref"]},
        "bootable": bool(values.get("bootable")),
        **filled(values, "name", "description"),
    }
    return Call("POST", "/volume/v3/manageable_volumes", {"volume": wanted})


def _action(name: str, body: dict[str, object]) -> Call:
    return Call("POST", f"{PATH}/{{}}/action", {name: body})


def _of(form: SubmittedForm, call: Call) -> Call:
    return Call(call.method, call.path.format(form.item["id"]), call.body)


def _item(row: Any) -> Item:
    return {
        "id": str(row.uuid),
        "name": row.name,
        "description": row.description,
        "size": row.size_gb,
        "status": row.status,
        "attachments": [{"server_id": str(one.instance_uuid or "")} for one in volumes.attachments_of(row)],
        "availability_zone": row.availability_zone,
        "bootable": row.is_bootable,
        "volume_type": volumes.type_name_of(row),
        "multiattach": row.is_multiattach,
        "snapshot_id": str(row.source_uuid) if row.source_kind == "snapshot" else None,
        "source_volid": str(row.source_uuid) if row.source_kind == "volume" else None,
        "metadata": volumes.metadata_of(row),
        "created_at": row.created_at,
    }


def list_volumes(caller: RequestContext, query: Query) -> Page[Item]:
    found = volumes.list_visible(caller, VolumeQuery(filters=filters_of(query, "name", "status"), **page_of(query)))
    return page_items(found, query, _item)


def create_volume(caller: RequestContext, form: SubmittedForm) -> Item:
    """Create the volume of a checked body."""
    return _item(creation.create(caller, VolumeAsk.parse(form.body["volume"])))


def _manage_file(caller: RequestContext, form: SubmittedForm) -> Item:
    values = form.body["volume"]
    ask = ManageAsk(
        host=values["host"],
        source_name=values["ref"]["source-name"],
        name=values.get("name") or "",
        description=values.get("description"),
        is_bootable=values["bootable"],
    )
    return _item(management.manage(caller, ask))


def _attach_to(caller: RequestContext, form: SubmittedForm) -> None:
    values = form.body["volumeAttachment"]
    requested = AttachmentCreate(values["volumeId"], values.get("device") or "")
    with recorded_refusals(caller, "attach_volume", form.values["server"]):
        server_volumes.attach(caller, form.values["server"], requested)


def _detach_from(caller: RequestContext, form: SubmittedForm) -> None:
    server = form.values.get("server") or form.item["attachments"][0]["server_id"]
    with recorded_refusals(caller, "detach_volume", server):
        server_volumes.detach(caller, server, form.item["id"])


def _extend(caller: RequestContext, form: SubmittedForm) -> None:
    may_be_in_use = policies.may(caller, "volume", "volume:extend_attached_volume")
    size = int(form.body["os-extend"]["new_size"])
    external_events.extend(caller, form.item["id"], size, may_be_in_use=may_be_in_use)


def _rename(caller: RequestContext, form: SubmittedForm) -> Item:
    return _item(volumes.update(caller, form.item["id"], volumes.changes(form.body["volume"])))


def _unmanage(caller: RequestContext, form: SubmittedForm) -> None:
    management.unmanage(caller, form.item["id"])


def _delete(caller: RequestContext, form: SubmittedForm) -> None:
    volumes.delete(caller, form.item["id"])


def take_snapshot(caller: RequestContext, form: SubmittedForm) -> Item:
    """Take the snapshot of a checked body; the volume may be in use."""
    values = form.body["snapshot"]
    requested = SnapshotCreate(name=values.get("name") or "", description=values.get("description"))
    row = snapshots.create(caller, str(values["volume_id"]), requested, may_be_in_use=True)
    return snapshot_item(row)


def _take_snapshot(caller: RequestContext, form: SubmittedForm) -> None:
    take_snapshot(caller, form)


def snapshot_item(row: Any) -> Item:
    """Return a snapshot as an item of its page."""
    same = {name: getattr(row, name) for name in ("name", "description", "status", "metadata", "created_at")}
    return {**same, "id": str(row.uuid), "volume_id": str(row.volume.uuid), "size": row.size_gb}


def list_snapshots(caller: RequestContext, query: Query) -> Page[Item]:
    """Return a page of the snapshots that the caller may see."""
    filters = filters_of(query, "name", "status")
    wanted = SnapshotQuery(filters=filters, volume_id=query.get("volume_id"), **page_of(query))
    return page_items(snapshots.list_visible(caller, wanted), query, snapshot_item)


def _stray_files(caller: RequestContext, query: Query) -> Page[Item]:
    files = management.unmanaged()[: query["limit"]]
    return Page([{"name": file.name, "size": file.size_gb} for file in files])


def _types(caller: RequestContext, query: Query) -> Page[Item]:
    return Page([{"name": name} for name in volumes.type_names(caller, query["limit"])])


def _name(item: Item) -> str:
    return str(item["name"])


def name_and_size(item: Item) -> str:
    return f"{with_id(item)} ({item['size']} GB)"


VOLUMES = ItemOptions("volume", "volume:get_all", list_volumes, name_and_size)
FREE_VOLUMES = replace(VOLUMES, wanted=lambda item: item["status"] == "available" or item["multiattach"])
SNAPSHOTS = ItemOptions("volume", "volume:get_all_snapshots", list_snapshots, name_and_size)
STRAY_FILES = ItemOptions("volume", "volume_extension:list_manageable", _stray_files, name_and_size, _name)
TYPES = ItemOptions("volume", "volume_extension:type_get_all", _types, _name, _name)


def _servers(item: Item, names: Names) -> Cell:
    held = item.get("attachments") or ()
    found = [columns.link_to(str(one["server_id"]), "servers", names) for one in held if one.get("server_id")]
    return Cell("lines", lines=tuple(found)) if found else columns.NOTHING


def size_of(item: Item, names: Names) -> Cell:
    return Cell("number", f"{item['size']} GB")


def _is_free(item: Item) -> str:
    return "" if item["status"] == "available" else columns.state_refusal(item, BADGES)


def _is_deletable(item: Item) -> str:
    if item["attachments"]:
        return "The volume is attached to a server. Detach it first."
    return "" if item["status"] in DELETABLE else columns.state_refusal(item, BADGES)


def _is_attached(item: Item) -> str:
    if not item["attachments"]:
        return "The volume isn't attached to a server."
    is_turning = item["status"] in ("attaching", "detaching") and not item["multiattach"]
    return columns.state_refusal(item, BADGES) if is_turning else ""


def _has_data(item: Item) -> str:
    return "" if item["status"] in ("available", "in-use") else columns.state_refusal(item, BADGES)


def _attach(form: SubmittedForm) -> Call:
    server = form.values.get("server") or "SERVER"
    body = {"volumeId": form.item.get("id", ""), **filled(form.values, "device")}
    return Call("POST", f"/compute/v2.1/servers/{server}/os-volume_attachments", {"volumeAttachment": body})


def _detach(form: SubmittedForm) -> Call:
    held = form.item.get("attachments") or [{"server_id": "SERVER"}]
    server = form.values.get("server") or held[0]["server_id"]
    return Call("DELETE", f"/compute/v2.1/servers/{server}/os-volume_attachments/{form.item.get('id', '')}")


VOLUMES_KIND = Resource(
    id="volumes",
    noun="volume",
    title="Volumes",
    icon="disk",
    service="volume",
    one="volume",
    rule="volume:get_all",
    reader=ItemReader(list_volumes, lambda caller, ident: _item(volumes.get_visible(caller, ident)), "volume:get"),
    search="name~",
    sorting="sort",
    empty="A volume is a disk that outlives servers. Attach it, create snapshots of it, or extend it.",
    names=("servers",),
    lock="volume",
    filters=(any_state(BADGES, "available", "in-use", "error"),),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", columns.state(BADGES), sort="status"),
        Column("Size", size_of, is_number=True, sort="size"),
        Column("Servers", _servers),
        Column("Type", columns.text("volume_type")),
        Column("Bootable", columns.yes("bootable")),
        Column("Age", columns.age("created_at"), is_number=True, sort="created_at"),
        Column("Description", columns.text("description"), is_in_list=False),
        Column("Zone", columns.text("availability_zone"), is_in_list=False),
        Column("Multi-attach", columns.yes("multiattach"), is_in_list=False),
        Column("Source snapshot", columns.link("snapshot_id", "snapshots"), is_in_list=False),
        Column("Source volume", columns.link("source_volid", "volumes"), is_in_list=False),
        Column("Metadata", columns.pairs("metadata"), is_in_list=False),
    ),
    parts=(
        RelatedTable("Snapshots", "snapshots", lambda item: {"volume_id": str(item["id"])}, "create", "volume_id"),
        RelatedTable(
            "Scheduled snapshots", "snapshot-schedules", lambda item: {"volume": str(item["id"])}, "of-volume", "volume"
        ),
        RelatedTable("Backups", "backups", lambda item: {"volume_id": str(item["id"])}, "create", "volume_id"),
        RelatedTable("Messages", "volume-messages", lambda item: {"resource_uuid": str(item["id"])}),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create volume",
            does="Creates a disk: empty, or with the data of an image, a snapshot or another volume.",
            rule="volume:create",
            is_creation=True,
            icon="plus",
            fields=(
                NAME,
                Field(
                    "size",
                    "Size (GB)",
                    "number",
                    start="10",
                    least=1,
                    most=999_999,
                    help="At least the size of the source.",
                ),
                Field("imageRef", "Source image", "choice", choices=IMAGES, nothing="No image", also=("image_id",)),
                Field("snapshot_id", "Source snapshot", "choice", choices=SNAPSHOTS, nothing="No snapshot"),
                Field("source_volid", "Source volume", "choice", choices=VOLUMES, nothing="No volume"),
                Field("volume_type", "Type", "choice", choices=TYPES, nothing="Default type"),
                DESCRIPTION,
            ),
            call=_create,
            schema=schemas.CREATE,
            execute=create_volume,
            cli=lambda form: [
                "openstack volume create",
                *options(
                    form.values,
                    size="size",
                    imageRef="image",
                    snapshot_id="snapshot",
                    source_volid="source",
                    volume_type="type",
                    description="description",
                ),
                form.values["name"] or "NAME",
            ],
        ),
        ResourceAction(
            id="manage",
            title="Manage existing file",
            does="Imports an existing file from the storage as a volume of this project, with its data.",
            rule="volume_extension:volume_manage",
            is_creation=True,
            fields=(
                Field("ref", "File", "choice", choices=STRAY_FILES, is_required=True, also=("source-name",)),
                NAME,
                Field("bootable", "Servers can boot from it", "check"),
                DESCRIPTION,
            ),
            call=_manage,
            schema=schemas.MANAGE,
            execute=_manage_file,
            cli=lambda form: [
                "openstack volume create",
                "--remote-source",
                f"source-name={form.values['ref'] or 'FILE'}",
                *options(form.values, description="description"),
                *(["--bootable"] if form.values.get("bootable") else []),
                "--host",
                STORAGE,
                form.values["name"] or "NAME",
            ],
        ),
        ResourceAction(
            id="attach",
            title="Attach",
            does="Attaches the disk to a server. The server must be in the same zone.",
            service="compute",
            rule="os_compute_api:os-volumes-attachments:create",
            fields=(
                Field("server", "Server", "choice", choices=SERVERS, is_required=True),
                Field("device", "Device", help="For example /dev/vdb. Leave empty to use the next free device."),
            ),
            flow="attach_volume",
            why_not=lambda item: "" if item["multiattach"] else _is_free(item),
            call=_attach,
            schema=attach_volume(VERSIONS.maximum),
            execute=_attach_to,
            cli=lambda form: [
                "openstack server add volume",
                *options(form.values, device="device"),
                form.values.get("server") or "SERVER",
                named(form.item),
            ],
        ),
        ResourceAction(
            id="detach",
            title="Detach",
            does=(
                "Removes the disk from the server. The data stays on the volume. Unmount the disk in the server first."
            ),
            service="compute",
            rule="os_compute_api:os-volumes-attachments:delete",
            flow="detach_volume",
            why_not=_is_attached,
            call=_detach,
            execute=_detach_from,
            cli=lambda form: [
                "openstack server remove volume",
                _detach(form).path.split("/")[4],
                named(form.item),
            ],
        ),
        ResourceAction(
            id="snapshot",
            title="Snapshot",
            does="Copies the current data. You can create volumes from snapshots.",
            rule="volume:create_snapshot",
            fields=(NAME, DESCRIPTION),
            why_not=_has_data,
            call=lambda form: Call(
                "POST",
                "/volume/v3/snapshots",
                {"snapshot": {"volume_id": form.item["id"], **filled(form.values, "name", "description")}},
            ),
            schema=schemas.CREATE_SNAPSHOT,
            execute=_take_snapshot,
            cli=lambda form: [
                "openstack volume snapshot create",
                "--volume",
                named(form.item),
                *options(form.values, description="description"),
                form.values.get("name") or "NAME",
            ],
        ),
        ResourceAction(
            id="extend",
            title="Extend volume",
            does="Extends the volume. You can't shrink it later.",
            rule="volume:extend",
            fields=(
                Field(
                    "new_size",
                    "New size (GB)",
                    "number",
                    is_required=True,
                    least=1,
                    most=999_999,
                    start=lambda item: str(int(item["size"]) + 10) if item else "",
                    also=("size",),
                ),
            ),
            why_not=_has_data,
            call=lambda form: _of(form, _action("os-extend", {"new_size": whole(form.values["new_size"])})),
            schema=schemas.ACTIONS["os-extend"],
            execute=_extend,
            cli=lambda form: ["openstack volume set", "--size", form.values["new_size"], named(form.item)],
        ),
        rename("volume", "volume:update", PATH, "volume", execute=_rename, schema=schemas.UPDATE),
        ResourceAction(
            id="unmanage",
            title="Unmanage",
            does="Removes the volume from management. Its file stays in the storage and can be managed again.",
            rule="volume_extension:volume_unmanage",
            fields=(REASON,),
            why_not=_is_free,
            call=lambda form: _of(form, _action("os-unmanage", {})),
            execute=_unmanage,
            cli=lambda form: ["openstack volume delete --remote", named(form.item)],
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="Deletes the disk and its data permanently.",
            rule="volume:delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=_is_deletable,
            call=lambda form: Call("DELETE", f"{PATH}/{form.item['id']}"),
            execute=_delete,
            cli=lambda form: ["openstack volume delete", named(form.item)],
        ),
    ),
)
