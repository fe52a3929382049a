"""Images to boot from, and flavors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.utils.translation import gettext

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.page import Page
from conductor.services.images import images
from conductor.services.images.images import ImageQuery
from portal.api.image.representations import images as representations
from portal.pages.amounts import megabytes
from portal.pages.images.flavors import ACCESS, FLAVOR_ACTIONS, READER
from portal.pages.resources import columns
from portal.pages.resources.fields import NAME, OWN_NAME, REASON, any_state, filled, named, options, whole
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FieldOption,
    FollowUp,
    Item,
    ItemReader,
    Names,
    Query,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.resources.queries import page_items, page_of
from portal.pages.status_badges import StatusBadge
from portal.transfers import shares

PATH = "/image/v2/images"
BADGES = {
    "active": StatusBadge("good", "ready"),
    "queued": StatusBadge("waiting", "waiting for data"),
    "saving": StatusBadge("working", "saving"),
    "uploading": StatusBadge("working", "saving"),
    "importing": StatusBadge("working", "importing"),
    "deactivated": StatusBadge("none", "deactivated"),
    "killed": StatusBadge("bad", "error"),
    "error": StatusBadge("bad", "error"),
}
_VISIBILITIES = (
    FieldOption("private", "Private: only this project"),
    FieldOption("shared", "Shared: with selected projects"),
    FieldOption("community", "Community: all projects, not listed by default"),
)
_FORMATS = tuple(FieldOption(name, name.upper()) for name in ("qcow2", "raw", "iso", "vmdk", "vdi", "vhd"))


def _create(form: SubmittedForm) -> Call:
    values = form.values
    body: dict[str, Any] = {
        **filled(values, "name", "visibility", "disk_format"),
        "container_format": "bare",
        **{name: whole(values[name]) for name in ("min_disk", "min_ram") if values.get(name)},
    }
    return Call("POST", PATH, body)


def list_images(caller: RequestContext, query: Query) -> Page[Item]:
    """Return a page of the images that the caller may see."""
    status = query.get("status")
    wanted = ImageQuery(
        filters={"status": [status]} if status else {}, visibility=query.get("visibility"), **page_of(query)
    )
    return page_items(images.list_visible(caller, wanted), query, representations.image)


def _get(caller: RequestContext, ident: str) -> Item:
    return representations.image(images.get_visible(caller, ident))


def _make(caller: RequestContext, form: SubmittedForm) -> Item:
    return representations.image(images.create(caller, representations.wanted_image(form.body)))


def _change(caller: RequestContext, form: SubmittedForm) -> Item:
    return representations.image(images.update(caller, form.item["id"], representations.changes(form.body)))


def _fill(caller: RequestContext, form: SubmittedForm) -> None:
    if form.file is None:
        raise Invalid(gettext("%(field)s is required.") % {"field": gettext("File")}, field="file")
    _store(caller, form.item["id"], form.file)


def _store(caller: RequestContext, ident: str, file: Any) -> None:
    with shares.share(caller.project_id):
        images.upload(caller, ident, file.chunks())


def _activate(is_active: bool) -> Callable[[RequestContext, SubmittedForm], None]:
    return lambda caller, form: images.set_active(caller, form.item["id"], is_active=is_active)


def _delete(caller: RequestContext, form: SubmittedForm) -> None:
    images.delete(caller, form.item["id"])


def _data(form: SubmittedForm, made: Any) -> Iterable[FollowUp]:
    """Upload the file after the record was created, as a stream."""
    if form.file is not None:
        ident = str(made["id"])
        yield FollowUp(_upload(ident), "upload_image", lambda caller: _store(caller, ident, form.file))


def _upload(ident: str) -> Call:
    return Call("PUT", f"{PATH}/{ident}/file")


def _edit(form: SubmittedForm) -> Call:
    values = form.values
    patch: list[dict[str, Any]] = [
        {"op": "replace", "path": "/name", "value": values["name"]},
        {"op": "replace", "path": "/min_disk", "value": whole(values["min_disk"] or "0")},
        {"op": "replace", "path": "/min_ram", "value": whole(values["min_ram"] or "0")},
        {"op": "replace", "path": "/protected", "value": bool(values.get("protected"))},
    ]
    if values["visibility"] != form.item.get("visibility"):
        patch.append({"op": "replace", "path": "/visibility", "value": values["visibility"]})
    return Call("PATCH", f"{PATH}/{form.item.get('id', 'ID')}", patch)


def _needs(item: Item, names: Names) -> Cell:
    parts = [gettext("%(amount)s disk") % {"amount": f"{item['min_disk']} GB"}] if item.get("min_disk") else []
    parts += [gettext("%(amount)s memory") % {"amount": megabytes(item["min_ram"])}] if item.get("min_ram") else []
    return Cell("text", ", ".join(parts)) if parts else columns.NOTHING


def _may_delete(item: Item) -> str:
    return "The image is protected. Edit it first." if item["protected"] else ""


_MIN_DISK = Field(
    "min_disk", "Minimum disk (GB)", "number", least=0, start=lambda item: str(item.get("min_disk") or "0")
)
_MIN_RAM = Field(
    "min_ram", ("Minimum memory (MB)"), "number", least=0, start=lambda item: str(item.get("min_ram") or "0")
)
_FILE = Field("file", "File", "file", help="The file is stored unchanged. You can also upload it later.")

IMAGES = Resource(
    id="images",
    noun="image",
    title="Images",
    icon="image",
    service="image",
    one="image",
    rule="get_images",
    reader=ItemReader(list_images, _get, "get_image"),
    names=("projects",),
    sorting="sort",
    empty="Servers boot from images. Upload an image, or create one from a server.",
    filters=(
        Field(
            "visibility",
            "Visibility",
            "choice",
            nothing="All available to you",
            choices=(
                FieldOption("public", "Public"),
                FieldOption("private", "Private"),
                FieldOption("shared", "Shared"),
                FieldOption("community", "Community"),
            ),
        ),
        any_state(BADGES, "active", "queued", "deactivated"),
    ),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", columns.state(BADGES), sort="status"),
        Column("Size", columns.size("size"), is_number=True, sort="size"),
        Column("Format", columns.text("disk_format"), sort="disk_format"),
        Column("Visibility", columns.text("visibility")),
        Column("Requirements", _needs),
        Column("Age", columns.age("created_at"), is_number=True, sort="created_at"),
        Column("Protected", columns.yes("protected"), is_in_list=False),
        Column("Architecture", columns.text("architecture"), is_in_list=False),
        Column("Checksum", columns.mono("os_hash_value"), is_in_list=False),
        Column("Owner", columns.link("owner", "projects"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Upload image",
            does="Uploads an image for the servers of this project.",
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
            execute=_make,
            follow_ups=_data,
            cli=lambda form: [
                "openstack image create",
                "--file",
                "FILE",
                "--container-format",
                "bare",
                *options(form.values, disk_format="disk-format", min_disk="min-disk", min_ram="min-ram"),
                f"--{form.values.get('visibility') or 'private'}",
                form.values.get("name") or "NAME",
            ],
        ),
        ResourceAction(
            id="upload",
            title="Upload data",
            does="Uploads the data of an image that has none.",
            rule="upload_image",
            fields=(Field("file", "File", "file", is_required=True),),
            why_not=lambda item: "" if item["status"] == "queued" else "The image already has data.",
            call=lambda form: _upload(str(form.item.get("id", "ID"))),
            execute=_fill,
            cli=lambda form: ["openstack image stage", "--file", "FILE", named(form.item)],
        ),
        ResourceAction(
            id="edit",
            title="Edit",
            does="Changes the image's properties.",
            rule="modify_image",
            fields=(
                OWN_NAME,
                Field(
                    "visibility",
                    "Visibility",
                    "choice",
                    choices=(*_VISIBILITIES, FieldOption("public", "Public: all projects (operators only)")),
                    start=lambda item: str(item.get("visibility", "")),
                ),
                _MIN_DISK,
                _MIN_RAM,
                Field(
                    "protected",
                    "Protect from deletion",
                    "check",
                    start=lambda item: "yes" if item.get("protected") else "",
                ),
            ),
            call=_edit,
            execute=_change,
            cli=lambda form: [
                "openstack image set",
                *options(form.values, name="name", min_disk="min-disk", min_ram="min-ram"),
                "--protected" if form.values.get("protected") else "--unprotected",
                str(form.item.get("id", "ID")),
            ],
        ),
        ResourceAction(
            id="deactivate",
            title="Deactivate",
            does=(
                "The image can't be used or downloaded until you activate it again. Servers created from it "
                "keep running."
            ),
            rule="deactivate",
            is_bulk=True,
            why_not=lambda item: "" if item["status"] in ("active", "deactivated") else "The image has no data yet.",
            fields=(REASON,),
            call=lambda form: Call("POST", f"{PATH}/{form.item.get('id', 'ID')}/actions/deactivate"),
            execute=_activate(False),
            cli=lambda form: ["openstack image set --deactivate", named(form.item)],
        ),
        ResourceAction(
            id="reactivate",
            title="Reactivate",
            does="Makes the image available again.",
            rule="reactivate",
            why_not=lambda item: "" if item["status"] == "deactivated" else "The image is active.",
            call=lambda form: Call("POST", f"{PATH}/{form.item.get('id', 'ID')}/actions/reactivate"),
            execute=_activate(True),
            cli=lambda form: ["openstack image set --activate", named(form.item)],
        ),
        ResourceAction(
            id="delete",
            title="Delete",
            does="Deletes the image permanently. Servers created from it stay.",
            rule="delete_image",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=_may_delete,
            call=lambda form: Call("DELETE", f"{PATH}/{form.item['id']}"),
            execute=_delete,
            cli=lambda form: ["openstack image delete", named(form.item)],
        ),
    ),
)


def _memory(item: Item, names: Names) -> Cell:
    return Cell("number", megabytes(item["ram"]))


def _swap(item: Item, names: Names) -> Cell:
    return Cell("number", megabytes(item["swap"])) if item.get("swap") else columns.NOTHING


FLAVORS = Resource(
    id="flavors",
    noun="flavor",
    title="Flavors",
    icon="size",
    service="compute",
    one="flavor",
    rule="os_compute_api:servers:index",
    sorting="sort_key",
    empty="A flavor defines the size of a server. Operators create flavors.",
    reader=READER,
    names=("projects",),
    more=(ACCESS,),
    actions=FLAVOR_ACTIONS,
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("vCPU", columns.number("vcpus"), is_number=True, sort="vcpus"),
        Column("Memory", _memory, is_number=True, sort="memory_mb"),
        Column("Disk", columns.number("disk", "GB"), is_number=True, sort="root_gb"),
        Column("Ephemeral disk", columns.number("OS-FLV-EXT-DATA:ephemeral", "GB"), is_number=True, is_in_list=False),
        Column("Swap", _swap, is_number=True, is_in_list=False),
        Column("Public", columns.yes("os-flavor-access:is_public")),
        Column("Description", columns.text("description"), is_in_list=False),
        Column("Extra specs for scheduling", columns.pairs("extra_specs"), is_in_list=False),
        Column(
            "Shared with",
            columns.lines("access", lambda one, names: columns.link_to(str(one["tenant_id"]), "projects", names)),
            is_in_list=False,
        ),
    ),
)
