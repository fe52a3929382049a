"""The record of a move that a run works on, and what all steps of a move ask of it."""

from __future__ import annotations

from typing import Any

from conductor.cell_db.models import Migration
from conductor.core.request_spec import FlavorSpec
from conductor.core.selection import Selection
from conductor.core.states import PowerState
from conductor.transactions import database_now
from conductor.workflows.flow import Work
from conductor.workflows.steps import instance_rows


def read(work: Work) -> Migration:
    """The migration of a run, which its inputs name."""
    return Migration.objects.using(work.alias).get(uuid=work.inputs["migration_uuid"])


def update(work: Work, **values: Any) -> None:
    """Change the migration and tell the instance's followers; inside a fenced transaction."""
    rows = Migration.objects.using(work.alias).filter(uuid=work.inputs["migration_uuid"])
    rows.update(updated_at=database_now(), **values)
    instance_rows.tell(work, "instance.updated")


def old_flavor(migration: Migration) -> FlavorSpec:
    return FlavorSpec(**(migration.old_flavor or {}))


def new_flavor(migration: Migration) -> FlavorSpec:
    return FlavorSpec(**(migration.new_flavor or {}))


def power_after(migration: Migration) -> PowerState:
    """What the guest is to be at the end: as it was."""
    return PowerState.RUNNING if migration.was_running else PowerState.SHUTDOWN


def stays_on_host(migration: Migration) -> bool:
    """Whether the guest only changes its size: its host is source and destination in one."""
    return migration.source_host == migration.destination_host


def chosen(work: Work, name: str = "PickDestination") -> Selection:
    """The destination that this attempt picked."""
    return Selection.from_json(work.run.variables[name]["selection"])
