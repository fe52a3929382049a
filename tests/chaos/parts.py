"""Parts of a schedule: its host's driver and journal, and its table data."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from django.db import connections

from conductor.core.compute_driver import GuestSpec, Progress
from conductor.db import dialect
from conductor.db.transactions import write_tx
from conductor.workflows.engine import leases
from tests.chaos import ledger
from tests.tiny_driver import TinyDriver

CELL = ledger.HERE


class World(Protocol):
    """The world that a driver works on."""

    def reach(self, place: str) -> None: ...
    def meet(self, step: str) -> None: ...
    def note(self) -> None: ...


class Killed(BaseException):
    """The process is no more. Not an Exception: no code may survive it by catching one."""


class Kept(sqlite3.Connection):
    """A host's journal in memory: it is there for the next process, without what this one did not commit."""

    def close(self) -> None:
        self.rollback()


class InLine:
    """Lanes without threads: what is submitted is done at once."""

    def submit(self, group: object, key: object, work: Callable[[], None], *, max_parallel: int = 1) -> None:
        work()


class Driver(TinyDriver):
    """Keeps every token that had an effect, in order."""

    def __init__(self, world: World) -> None:
        super().__init__(ledger.HOST)
        self.world = world
        self.capabilities = frozenset({"migrate"})
        self.kept: set[str] = set()  # what moves have put aside

    def spawn(self, guest: GuestSpec, progress: Progress) -> None:
        self.world.reach("host.spawn.before")
        self.world.note()
        self.world.meet("host.spawn")
        super().spawn(guest, progress)
        self.world.reach("host.spawn.effect")

    def destroy(self, instance_uuid: str) -> None:
        self.world.reach("host.destroy.before")
        self.world.note()
        self.world.meet("host.destroy")
        super().destroy(instance_uuid)
        self.world.reach("host.destroy.effect")

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        self._change("put_aside", lambda: self.kept.add(guest.instance_uuid))
        return {}

    def revert_migration(self, guest: GuestSpec, *, is_running: bool) -> None:
        self._change("bring_back", lambda: self.kept.discard(guest.instance_uuid))

    def confirm_migration(self, instance_uuid: str) -> None:
        self._change("forget", lambda: self.kept.discard(instance_uuid))

    def _change(self, what: str, change: Callable[[], None]) -> None:
        self.world.reach(f"host.{what}.before")
        self.world.note()
        self.world.meet(f"host.{what}")
        change()
        self.world.reach(f"host.{what}.effect")


def is_work(message: tuple[str, dict[str, Any]]) -> bool:
    """Return whether the message has work; most duplicated notifications have none."""
    kind, body = message
    return kind != "notification" or leases.next_step_if_due(CELL, body["run_uuid"]) is not None


def hear(is_heard: bool) -> None:
    """Make the host responsive or unresponsive."""
    with write_tx(CELL):
        seen = (100_000.0 if is_heard else -100_000.0, ledger.HOST)
        dialect.run(connections[CELL], "UPDATE cell_db_service SET last_seen_at = {later} WHERE host = %s", seen)


def clear(folder: Path) -> None:
    """Empty everything for the next schedule."""
    for alias in (CELL, ledger.OTHER):
        with connections[alias].cursor() as sql:
            for table in (*TABLES, *OF_CELL) if alias == CELL else TABLES:
                sql.execute(f"DELETE FROM {table}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


OF_CELL = ("cell_db_migration", "cell_db_instance")
TABLES = (
    "ledger",
    "journal_resourcelock",
    "journal_lockwait",
    "journal_steprecord",
    "journal_leasegrant",
    "journal_outboxmessage",
    "journal_event",
    "journal_foreignfence",
    "journal_workflowrun",
    "journal_periodiclease",
)
