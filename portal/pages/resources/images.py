"""Images to boot from, and the sizes that servers can have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext

from portal.pages.amounts import megabytes
from portal.pages.api_calls import Call
from portal.pages.faces import Face
from portal.pages.resources import cells
from portal.pages.resources.fields import NAME, OWN_NAME, REASON, any_state, filled, named, options, whole
from portal.pages.resources.flavor_deeds import ACCESS, FLAVOR_DEEDS
from portal.pages.resources.model import Asked, Cell, Choice, Column, Deed, Field, Item, Names, Resource

PATH = "/image/v2/images"
PATCH = "application/openstack-images-v2.1-json-patch"
OCTETS = "application/octet-stream"
FACES = {
    "active": Face("good", "ready"),
    "queued": Face("waiting", "waiting for data"),
    "saving": Face("working", "being stored"),
    "uploading": Face("working", "being stored"),
    "importing": Face("working", "being imported"),
    "deactivated": Face("none", "switched off"),
    "killed": Face("bad", "error"),
    "error": Face("bad", "error"),
}
_VISIBILITIES = (
    Choice("private", "Private: this project alone"),
    Choice("shared", "Shared: with projects that are named"),
    Choice("community", "Community: everybody who knows it"),
)
_FORMATS = tuple(Choice(name, name) for name in ("qcow2", "raw", "iso", "vmdk", "vdi", "vhd"))


def _create(asked: Asked) -> Call:
    values = asked.values
    body: dict[str, Any] = {
        **filled(values, "name", "visibility", "disk_format"),
        "container_format": "bare",
        **{name: whole(values[name]) for name in ("min_disk", "min_ram") if values.get(name)},
    }
    return Call("POST", PATH, body)


def _data(asked: Asked, made: Any) -> Iterable[Call]:
    """The file follows its record, as a stream."""
    if asked.file is not None:
        yield _upload(asked, str(made["id"]))


def _upload(asked: Asked, ident: str) -> Call:
    return Call("PUT", f"{PATH}/{ident}/file", media_type=OCTETS, data=asked.file)


def _edit(asked: Asked) -> Call:
    values = asked.values
    patch: list[dict[str, Any]] = [
        {"op": "replace", "path": "/name", "value": values["name"]},
        {"op": "replace", "path": "/min_disk", "value": whole(values["min_disk"] or "0")},
        {"op": "replace", "path": "/min_ram", "value": whole(values["min_ram"] or "0")},
        {"op": "replace", "path": "/protected", "value": bool(values.get("protected"))},
    ]
    if values["visibility"] != asked.item.get("visibility"):
        patch.append({"op": "replace", "path": "/visibility", "value": values["visibility"]})
    return Call("PATCH", f"{PATH}/{asked.item.get('id', 'ID')}", patch, media_type=PATCH)


def _needs(item: Item, names: Names) -> Cell:
    parts = [gettext("%(amount)s disk") % {"amount": f"{item['min_disk']} GB"}] if item.get("min_disk") else []
    parts += [gettext("%(amount)s memory") % {"amount": megabytes(item["min_ram"])}] if item.get("min_ram") else []
    return Cell("text", ", ".join(parts)) if parts else cells.NOTHING


def _may_delete(item: Item) -> str:
    return "It is protected: edit it first." if item["protected"] else ""


_MIN_DISK = Field(
    "min_disk", "Least disk in GB", "number", least=0, start=lambda item: str(item.get("min_disk") or "0")
)
_MIN_RAM = Field("min_ram", "Least memory in MB", "number", least=0, start=lambda item: str(item.get("min_ram") or "0"))
_FILE = Field("file", "File", "file", help="Its bytes are stored as they are. It can also be uploaded later.")

IMAGES = Resource(
    id="images",
    noun="image",
    title="Images",
    icon="image",
    service="image",
    path=PATH,
    key="images",
    one="image",
    rule="get_images",
    is_whole=True,
    names=("projects",),
    sorting="sort",
    empty="An image is what servers boot from. Upload one, or make one of a server.",
    filters=(
        Field(
            "visibility",
            "Visibility",
            "choice",
            nothing="All that you may use",
            choices=tuple(Choice(word, word.capitalize()) for word in ("public", "private", "shared", "community")),
        ),
        any_state(FACES, "active", "queued", "deactivated"),
    ),
    columns=(
        Column("Name", cells.text("name"), sort="name"),
        Column("State", cells.state(FACES), sort="status"),
        Column("Size", cells.size("size"), is_number=True, sort="size"),
        Column("Format", cells.text("disk_format"), sort="disk_format"),
        Column("Visibility", cells.text("visibility")),
        Column("Needs", _needs),
        Column("Age", cells.age("created_at"), is_number=True, sort="created_at"),
        Column("Protected", cells.yes("protected"), is_in_list=False),
        Column("Architecture", cells.text("architecture"), is_in_list=False),
        Column("Digest", cells.mono("os_hash_value"), is_in_list=False),
        Column("Owner", cells.link("owner", "projects"), is_in_list=False),
    ),
    deeds=(
        Deed(
            id="create",
            title="Upload image",
            does="An image of your own, for the servers of this project.",
            rule="add_image",
            is_creation=True,
            icon="plus",
            fields=(
                NAME,
                Field("disk_format", "Format", "choice", choices=_FORMATS),
                _FILE,
                Field("visibility", "Visibility", "choice", choices=_VISIBILITIES),
                _MIN_DISK,
                _MIN_RAM,
            ),
            call=_create,
            also_calls=_data,
            cli=lambda asked: [
                "openstack image create",
                "--file",
                "FILE",
                "--container-format",
                "bare",
                *options(asked.values, disk_format="disk-format", min_disk="min-disk", min_ram="min-ram"),
                f"--{asked.values.get('visibility') or 'private'}",
                asked.values.get("name") or "NAME",
            ],
        ),
        Deed(
            id="upload",
            title="Upload data",
            does="Fill an image that waits for its data.",
            rule="upload_image",
            fields=(Field("file", "File", "file", is_required=True),),
            why_not=lambda item: "" if item["status"] == "queued" else "It has its data.",
            call=lambda asked: _upload(asked, str(asked.item.get("id", "ID"))),
            cli=lambda asked: ["openstack image stage", "--file", "FILE", named(asked.item)],
        ),
        Deed(
            id="edit",
            title="Edit",
            does="Change what is told of it.",
            rule="modify_image",
            fields=(
                OWN_NAME,
                Field(
                    "visibility",
                    "Visibility",
                    "choice",
                    choices=(*_VISIBILITIES, Choice("public", "Public: everybody (operators only)")),
                    start=lambda item: str(item.get("visibility", "")),
                ),
                _MIN_DISK,
                _MIN_RAM,
                Field(
                    "protected",
                    "Protected from being deleted",
                    "check",
                    start=lambda item: "yes" if item.get("protected") else "",
                ),
            ),
            call=_edit,
            cli=lambda asked: [
                "openstack image set",
                *options(asked.values, name="name", min_disk="min-disk", min_ram="min-ram"),
                "--protected" if asked.values.get("protected") else "--unprotected",
                str(asked.item.get("id", "ID")),
            ],
        ),
        Deed(
            id="deactivate",
            title="Switch off",
            does="Nobody can use it or read its data until it is switched on again. Servers made from it run on.",
            rule="deactivate",
            is_bulk=True,
            why_not=lambda item: "" if item["status"] in ("active", "deactivated") else "It has no data yet.",
            fields=(REASON,),
            call=lambda asked: Call("POST", f"{PATH}/{asked.item.get('id', 'ID')}/actions/deactivate"),
            cli=lambda asked: ["openstack image set --deactivate", named(asked.item)],
        ),
        Deed(
            id="reactivate",
            title="Switch on",
            does="It can be used again.",
            rule="reactivate",
            why_not=lambda item: "" if item["status"] == "deactivated" else "It is not switched off.",
            call=lambda asked: Call("POST", f"{PATH}/{asked.item.get('id', 'ID')}/actions/reactivate"),
            cli=lambda asked: ["openstack image set --activate", named(asked.item)],
        ),
        Deed(
            id="delete",
            title="Delete",
            does="Its data are gone for good. Servers that were made from it stay as they are.",
            rule="delete_image",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=_may_delete,
            call=lambda asked: Call("DELETE", f"{PATH}/{asked.item['id']}"),
            cli=lambda asked: ["openstack image delete", named(asked.item)],
        ),
    ),
)


def _memory(item: Item, names: Names) -> Cell:
    return Cell("number", megabytes(item["ram"]))


def _swap(item: Item, names: Names) -> Cell:
    return Cell("number", megabytes(item["swap"])) if item.get("swap") else cells.NOTHING


FLAVORS = Resource(
    id="flavors",
    noun="flavor",
    title="Flavors",
    icon="size",
    service="compute",
    path="/compute/v2.1/flavors/detail",
    path_of="/compute/v2.1/flavors",
    key="flavors",
    one="flavor",
    rule="os_compute_api:servers:index",
    sorting="sort_key",
    empty="A flavor is a size that servers can have. Operators make them.",
    query={"is_public": "none"},
    names=("projects",),
    more=(ACCESS,),
    deeds=FLAVOR_DEEDS,
    columns=(
        Column("Name", cells.text("name"), sort="name"),
        Column("vCPU", cells.number("vcpus"), is_number=True, sort="vcpus"),
        Column("Memory", _memory, is_number=True, sort="memory_mb"),
        Column("Disk", cells.number("disk", "GB"), is_number=True, sort="root_gb"),
        Column("Second disk", cells.number("OS-FLV-EXT-DATA:ephemeral", "GB"), is_number=True, is_in_list=False),
        Column("Swap", _swap, is_number=True, is_in_list=False),
        Column("For everybody", cells.yes("os-flavor-access:is_public")),
        Column("Description", cells.text("description"), is_in_list=False),
        Column("Scheduling keys", cells.pairs("extra_specs"), is_in_list=False),
        Column(
            "Given to",
            cells.lines("access", lambda one, names: cells.link_to(str(one["tenant_id"]), "projects", names)),
            is_in_list=False,
        ),
    ),
)
