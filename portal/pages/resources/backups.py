"""Backups of volumes: data kept apart from their volume, which they outlive."""

from __future__ import annotations

from portal.pages.api_calls import Call
from portal.pages.faces import Face
from portal.pages.resources import cells, volumes
from portal.pages.resources.fields import (
    DESCRIPTION,
    NAME_OR_NOT,
    VOLUMES,
    any_state,
    filled,
    named,
    options,
    with_id,
)
from portal.pages.resources.model import Asked, Cell, Choice, Column, Deed, Field, Item, Names, Resource, Source
from portal.pages.resources.shared_deeds import rename

PATH = "/volume/v3/backups"
FACES = {
    "creating": Face("working", "being made"),
    "available": Face("good", "available"),
    "restoring": Face("working", "being restored"),
    "deleting": Face("working", "deleting"),
    "error": Face("bad", "error"),
    "error_deleting": Face("bad", "error while deleting"),
}
FULL, INCREMENTAL = "full", "incremental"
KINDS = (Choice(FULL, "Full: all of the data"), Choice(INCREMENTAL, "Incremental: what the newest backup has not"))
TARGETS = Source(
    "/volume/v3/volumes/detail",
    "volumes",
    lambda item: f"{with_id(item)} ({item['size']} GB)",
    wanted=lambda item: item["status"] in ("available", "error_restoring"),
)
CREATE_FIELDS = (
    NAME_OR_NOT,
    Field("kind", "Kind", "choice", choices=KINDS, is_required=True, start=FULL, also=("incremental",)),
    Field(
        "force",
        "Even while a server has it",
        "check",
        help="What the server writes meanwhile may be in the backup or not.",
    ),
    DESCRIPTION,
)


def create(asked: Asked) -> Call:
    """The call that backs a volume up: the one that was picked, or the one whose page it is."""
    values = asked.values
    body = {
        **filled(values, "name", "description"),
        "volume_id": values.get("volume_id") or asked.item.get("id", ""),
        "incremental": values["kind"] == INCREMENTAL,
        "force": bool(values.get("force")),
    }
    return Call("POST", PATH, {"backup": body})


def create_command(asked: Asked) -> list[str]:
    """The same for a shell."""
    values = asked.values
    return [
        "openstack volume backup create",
        *options(values, name="name", description="description"),
        *(["--incremental"] if values["kind"] == INCREMENTAL else []),
        *(["--force"] if values.get("force") else []),
        values.get("volume_id") or named(asked.item),
    ]


def _restore(asked: Asked) -> Call:
    body = filled(asked.values, "volume_id") or filled(asked.values, "name")
    return Call("POST", f"{PATH}/{asked.item['id']}/restore", {"restore": body})


def _restore_command(asked: Asked) -> list[str]:
    target = asked.values.get("volume_id") or asked.values.get("name")
    return ["openstack volume backup restore", named(asked.item), *([target] if target else [])]


def _volume(item: Item, names: Names) -> Cell:
    """A backup outlives its volume: what is gone leads nowhere."""
    ident = str(item["volume_id"])
    return cells.link_to(ident, "volumes", names) if ident in names.get("volumes", {}) else Cell("mono", ident[:8])


def _word(item: Item) -> str:
    return cells.state_word(item, FACES)


def _is_whole(item: Item) -> str:
    return "" if item["status"] == "available" else f"It is {_word(item)}."


def _is_deletable(item: Item) -> str:
    if item.get("has_dependent_backups"):
        return "Other backups build upon it: delete those first."
    return "" if item["status"] in ("available", "error", "error_deleting") else f"It is {_word(item)}."


BACKUPS = Resource(
    id="backups",
    noun="backup",
    title="Volume backups",
    icon="history",
    service="volume",
    path=f"{PATH}/detail",
    path_of=PATH,
    key="backups",
    one="backup",
    rule="backup:get_all",
    search="name~",
    sorting="sort",
    empty="A backup keeps a volume's data apart from it, and outlives it. Incremental ones keep what changed since.",
    names=("volumes",),
    lock="backup",
    filters=(any_state(FACES, "available", "creating", "error"),),
    columns=(
        Column("Name", cells.text("name"), sort="name"),
        Column("State", cells.state(FACES), sort="status"),
        Column("Volume", _volume),
        Column("Kind", cells.text("is_incremental", words={False: "full", True: "incremental"})),
        Column("Size", volumes.size_of, is_number=True, sort="size"),
        Column("Age", cells.age("created_at"), is_number=True, sort="created_at"),
        Column("Data as of", cells.age("data_timestamp"), is_in_list=False),
        Column("Why it failed", cells.text("fail_reason"), is_in_list=False),
        Column("Blocks that it added", cells.number("object_count"), is_in_list=False),
        Column("Others build upon it", cells.yes("has_dependent_backups"), is_in_list=False),
        Column("Made from snapshot", cells.link("snapshot_id", "snapshots"), is_in_list=False),
        Column("Description", cells.text("description"), is_in_list=False),
        Column("Metadata", cells.pairs("metadata"), is_in_list=False),
    ),
    deeds=(
        Deed(
            id="create",
            title="Create backup",
            does="Keep a volume's data where they outlive it. A workflow copies them.",
            rule="backup:create",
            is_creation=True,
            icon="plus",
            fields=(Field("volume_id", "Volume", "choice", choices=VOLUMES, is_required=True), *CREATE_FIELDS),
            call=create,
            cli=create_command,
        ),
        Deed(
            id="restore",
            title="Restore",
            does="A volume gets the data of this backup: a new one, or a free one, whose own data are then gone.",
            rule="backup:restore",
            icon="again",
            fields=(
                Field("volume_id", "Into volume", "choice", choices=TARGETS, nothing="A new volume"),
                Field("name", "Name of the new volume", help="Only for a new one."),
            ),
            why_not=_is_whole,
            call=_restore,
            cli=_restore_command,
        ),
        rename("backup", "backup:update", PATH, "volume backup"),
        Deed(
            id="delete",
            title="Delete",
            does="The backup and its data are gone for good; its volume stays.",
            rule="backup:delete",
            is_danger=True,
            is_bulk=True,
            icon="trash",
            why_not=_is_deletable,
            call=lambda asked: Call("DELETE", f"{PATH}/{asked.item['id']}"),
            cli=lambda asked: ["openstack volume backup delete", named(asked.item)],
        ),
    ),
)
