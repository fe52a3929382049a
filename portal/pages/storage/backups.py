"""Backups of volumes: copies of their data that outlive the volume."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.page import Page
from conductor.services.volumes import backups
from conductor.services.volumes.backups import BackupQuery
from portal.api.volume.representations.backups import backup_fields, requested_backup
from portal.api.volume.schemas import backups as schemas
from portal.pages.resources import columns
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME_OR_NOT,
    any_state,
    filled,
    named,
    options,
)
from portal.pages.resources.model import (
    Call,
    Cell,
    Column,
    Field,
    FieldOption,
    Item,
    ItemReader,
    Names,
    Query,
    Resource,
    ResourceAction,
    SubmittedForm,
)
from portal.pages.resources.queries import filters_of, page_items, page_of
from portal.pages.resources.shared_actions import rename
from portal.pages.status_badges import StatusBadge
from portal.pages.storage import volumes

PATH = "/volume/v3/backups"
BADGES = {
    "creating": StatusBadge("working", "creating"),
    "available": StatusBadge("good", "available"),
    "restoring": StatusBadge("working", "restoring"),
    "deleting": StatusBadge("working", "deleting"),
    "error": StatusBadge("bad", "error"),
    "error_deleting": StatusBadge("bad", "error while deleting"),
}
FULL, INCREMENTAL = "full", "incremental"
KINDS = (FieldOption(FULL, "Full: all data"), FieldOption(INCREMENTAL, "Incremental: changes since the newest backup"))
TARGETS = replace(volumes.VOLUMES, wanted=lambda item: item["status"] in ("available", "error_restoring"))
CREATE_FIELDS = (
    NAME_OR_NOT,
    Field("kind", "Kind", "choice", choices=KINDS, is_required=True, start=FULL, also=("incremental",)),
    Field(
        "force",
        "Also when attached",
        "check",
        help="Data that the server writes during the backup may be missing from it.",
    ),
    DESCRIPTION,
)


def create(form: SubmittedForm) -> Call:
    """Return the call that backs up the selected volume, or the volume of the page."""
    values = form.values
    body = {
        **filled(values, "name", "description"),
        "volume_id": values.get("volume_id") or form.item.get("id", ""),
        "incremental": values["kind"] == INCREMENTAL,
        "force": bool(values.get("force")),
    }
    return Call("POST", PATH, {"backup": body})


def create_command(form: SubmittedForm) -> list[str]:
    """Return the shell command for the same backup."""
    values = form.values
    return [
        "openstack volume backup create",
        *options(values, name="name", description="description"),
        *(["--incremental"] if values["kind"] == INCREMENTAL else []),
        *(["--force"] if values.get("force") else []),
        values.get("volume_id") or named(form.item),
    ]


def _list(caller: RequestContext, query: Query) -> Page[Item]:
    filters = filters_of(query, "name", "status", "volume_id")
    rows, parents = backups.list_page(caller, BackupQuery(filters=filters, **page_of(query)))
    return page_items(rows, query, lambda row: _item(row, row.pk in parents))


def _get(caller: RequestContext, ident: str) -> Item:
    return _item(*backups.get(caller, ident))


def _item(row: Any, has_dependents: bool) -> Item:
    return {**backup_fields(row, has_dependents=has_dependents), "metadata": row.metadata}


def _make(caller: RequestContext, form: SubmittedForm) -> Item:
    """Create the backup of a checked body."""
    return _item(backups.create(caller, requested_backup(form.body["backup"])), False)


def _restore_to(caller: RequestContext, form: SubmittedForm) -> None:
    values = form.body["restore"]
    backups.restore(caller, form.item["id"], volume_id=values.get("volume_id"), name=values.get("name"))


def _rename(caller: RequestContext, form: SubmittedForm) -> Item:
    return _item(backups.update(caller, form.item["id"], form.body["backup"]), False)


def _delete(caller: RequestContext, form: SubmittedForm) -> None:
    backups.delete(caller, form.item["id"])


def _restore(form: SubmittedForm) -> Call:
    body = filled(form.values, "volume_id") or filled(form.values, "name")
    return Call("POST", f"{PATH}/{form.item['id']}/restore", {"restore": body})


def _restore_command(form: SubmittedForm) -> list[str]:
    target = form.values.get("volume_id") or form.values.get("name")
    return ["openstack volume backup restore", named(form.item), *([target] if target else [])]


def _volume(item: Item, names: Names) -> Cell:
    """Show the volume; a deleted one has no link."""
    ident = str(item["volume_id"])
    return columns.link_to(ident, "volumes", names) if ident in names.get("volumes", {}) else Cell("mono", ident[:8])


def _is_whole(item: Item) -> str:
    return "" if item["status"] == "available" else columns.state_refusal(item, BADGES)


def _is_deletable(item: Item) -> str:
    if item.get("has_dependent_backups"):
        return "Later backups depend on it. Delete them first."
    return "" if item["status"] in ("available", "error", "error_deleting") else columns.state_refusal(item, BADGES)


BACKUPS = Resource(
    id="backups",
    noun="backup",
    title="Volume backups",
    icon="history",
    service="volume",
    one="backup",
    rule="backup:get_all",
    reader=ItemReader(_list, _get, "backup:get"),
    search="name~",
    sorting="sort",
    empty=(
        "A backup is a separate copy of a volume's data. It outlives the volume. Incremental backups store "
        "only the changes."
    ),
    names=("volumes",),
    lock="backup",
    filters=(any_state(BADGES, "available", "creating", "error"),),
    columns=(
        Column("Name", columns.text("name"), sort="name"),
        Column("State", columns.state(BADGES), sort="status"),
        Column("Volume", _volume),
        Column("Kind", columns.text("is_incremental", words={False: "full", True: "incremental"})),
        Column("Size", volumes.size_of, is_number=True, sort="size"),
        Column("Age", columns.age("created_at"), is_number=True, sort="created_at"),
        Column("Data from", columns.age("data_timestamp"), is_in_list=False),
        Column("Failure reason", columns.text("fail_reason"), is_in_list=False),
        Column("Changed blocks", columns.number("object_count"), is_in_list=False),
        Column("Later backups depend on it", columns.yes("has_dependent_backups"), is_in_list=False),
        Column("Source snapshot", columns.link("snapshot_id", "snapshots"), is_in_list=False),
        Column("Description", columns.text("description"), is_in_list=False),
        Column("Metadata", columns.pairs("metadata"), is_in_list=False),
    ),
    actions=(
        ResourceAction(
            id="create",
            title="Create backup",
            does="Copies a volume's data to the backup storage. The copy outlives the volume.",
            rule="backup:create",
            is_creation=True,
            icon="plus",
            fields=(Field("volume_id", "Volume", "choice", choices=volumes.VOLUMES, is_required=True), *CREATE_FIELDS),
            call=create,
            schema=schemas.CREATE_351,
            execute=_make,
            cli=create_command,
        ),
        ResourceAction(
            id="restore",
            title="Restore",
            does=(
                "Restores the data to a new volume or to an available one. Existing data on that volume is overwritten."
            ),
            rule="backup:restore",
            icon="again",
            fields=(
                Field("volume_id", "Target volume", "choice", choices=TARGETS, nothing="New volume"),
                Field("name", "Name of the new volume", help="Only for a new volume."),
            ),
            why_not=_is_whole,
            call=_restore,
            schema=schemas.RESTORE,
            execute=_restore_to,
            cli=_restore_command,
        ),
        rename("backup", "backup:update", PATH, "volume backup", execute=_rename, schema=schemas.UPDATE_343),
        ResourceAction(
            id="delete",
            title="Delete",
            does="Deletes the backup permanently. Its volume stays.",
            rule="backup:delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=_is_deletable,
            call=lambda form: Call("DELETE", f"{PATH}/{form.item['id']}"),
            execute=_delete,
            cli=lambda form: ["openstack volume backup delete", named(form.item)],
        ),
    ),
)
