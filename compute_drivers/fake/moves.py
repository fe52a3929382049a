"""How simulated guests move from host to host: by the state files of both, which lie on one machine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from compute_drivers.fake.actions import FakeActions
from compute_drivers.fake.host import late, present, wait
from compute_drivers.fake.notes import MB, Arrival, Note, Notes
from compute_drivers.fake.store import Store, held
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError, GuestMissing, MigrationAborted
from conductor.core.live_steering import DOWNTIME, POST_COPY, THROTTLE
from conductor.core.states import PowerState

FIGURE_OF = {DOWNTIME: "downtime_limit_ms", THROTTLE: "throttle_percent"}


class _Move:
    """A live migration under way: it can be aborted until the switch, be steered, and be told not to wait for it.

    A guest that is throttled changes less, so that its memory arrives the sooner; one that may stand still for long
    switches when so much time of copying is left.
    """

    def __init__(self, seconds: float) -> None:
        self._gate = threading.Lock()
        self._is_aborted = False
        self._has_switched = False
        self._seconds = seconds
        self._amounts: dict[str, int] = {}
        self.share = 0.0
        self.is_forced = False

    @property
    def is_post_copy(self) -> bool:
        return POST_COPY in self._amounts

    @property
    def is_due(self) -> bool:
        """Whether the guest switches now."""
        left_ms = (1.0 - self.share) * self._seconds * 1000
        return self.share >= 1.0 or self.is_forced or self.is_post_copy or 0 < left_ms <= self._amounts.get(DOWNTIME, 0)

    def figures(self, total: int) -> dict[str, int]:
        copied = int(total * self.share)
        found = {"memory_total": total, "memory_processed": copied, "memory_remaining": total - copied}
        found |= {name: self._amounts[kind] for kind, name in FIGURE_OF.items() if kind in self._amounts}
        return found | ({"is_post_copy": 1} if self.is_post_copy else {})

    def go_on(self) -> None:
        """For a little while."""
        began = time.monotonic()
        time.sleep(min(0.05, self._seconds))
        pace = 100 / (100 - self._amounts.get(THROTTLE, 0))
        gone = (time.monotonic() - began) * pace
        self.share = min(1.0, self.share + gone / self._seconds) if self._seconds else 1.0

    def abort(self) -> None:
        with self._gate:
            if self.is_post_copy:
                raise DriverError("The guest has switched to post-copy: its move cannot be aborted any more.")
            self._is_aborted = not self._has_switched

    def steer(self, kind: str, amount: int) -> None:
        with self._gate:
            if self._is_aborted or (self._has_switched and not (kind == POST_COPY and self.is_post_copy)):
                raise DriverError("The move is at its end already.")
            self._amounts[kind] = amount

    def check(self) -> None:
        if self._is_aborted:
            raise MigrationAborted()

    def switch(self) -> None:
        """From here on an abort comes too late. Raises MigrationAborted for one that did not."""
        with self._gate:
            self.check()
            self._has_switched = True


class FakeMoves(FakeActions):
    """Cold moves take the disk's id along, live ones also the life."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._moves: dict[str, _Move] = {}

    # -- with the guest off

    def migrate_out(self, guest: GuestSpec, destination: str, progress: Progress) -> Mapping[str, Any]:
        uuid = guest.instance_uuid
        progress("powering the guest off", None)
        with self._call("migrate_out", guest.name, late(progress)), held(self._store):
            notes = self._store.load()
            if uuid not in notes.guests and uuid in notes.kept:
                return self._made_ready(notes.kept[uuid])
            note = present(notes, uuid).in_state(PowerState.SHUTDOWN)
            self._store.save(replace(notes.without(uuid, "guests"), kept={**notes.kept, uuid: note}))
        return self._made_ready(note)

    def migrate_in(self, guest: GuestSpec, disks: Mapping[str, Any], progress: Progress, *, is_running: bool) -> None:
        uuid, source = guest.instance_uuid, _store_at(disks)
        progress("copying the disk", 0.0)
        with self._call("migrate_in", guest.name, late(progress)):
            wait(self._options.latency_seconds, lambda share: progress("copying the disk", share))
            with held(self._store, source):
                notes = self._store.load()
                if uuid in notes.guests:
                    return
                kept = source.load().kept.get(uuid)
                if kept is None or kept.disk != disks.get("disk"):
                    raise DriverError("The disks of the guest are not at its source any more.")
                self._store.save(notes.with_guest(uuid, _woken(kept.defined_by(guest), is_running)))

    def kept_guests(self) -> list[str]:
        return sorted(self._look().kept)

    def confirm_migration(self, instance_uuid: str) -> None:
        with self._call("confirm_migration", _name(self._look(), instance_uuid)), held(self._store):
            notes = self._store.load()
            if instance_uuid in notes.kept:
                self._store.save(notes.without(instance_uuid, "kept"))

    def revert_migration(self, guest: GuestSpec, *, is_running: bool) -> None:
        uuid = guest.instance_uuid
        with self._call("revert_migration", guest.name), held(self._store):
            notes = self._store.load()
            if uuid not in notes.kept:
                present(notes, uuid)
                return
            self._store.save(notes.without(uuid, "kept").with_guest(uuid, _woken(notes.kept[uuid], is_running)))

    # -- while it runs

    def prepare_live_migration(self, guest: GuestSpec, *, is_block_migration: bool | None) -> Mapping[str, Any]:
        uuid = guest.instance_uuid
        with self._call("prepare_live_migration", guest.name), held(self._store):
            notes = self._store.load()
            if uuid in notes.guests:
                raise DriverError("The guest is on this host already.")
            arrival = notes.arrivals.get(uuid) or self._expected(guest)
            self._store.save(replace(notes, arrivals={**notes.arrivals, uuid: arrival}))
        # Hosts of this kind share no disks.
        is_block = is_block_migration is not False
        return {**self._address(), "ticket": arrival.ticket, "is_block_migration": is_block}

    def live_migrate(
        self, guest: GuestSpec, target: Mapping[str, Any], progress: Progress, *, is_block_migration: bool | None
    ) -> None:
        uuid, destination = guest.instance_uuid, _store_at(target)
        if self._has_left(uuid, destination):
            return
        move = self._moves[uuid] = _Move(self._options.live_migration_seconds)
        try:
            with self._call("live_migrate", guest.name, lambda seconds: _hold_up(seconds, progress, move)):
                total = self._look().guests[uuid].memory_mb * MB
                _copy(total, progress, move)
                self._switch(uuid, destination, str(target.get("ticket")), move)
                _fetch(total, progress, move)
        finally:
            del self._moves[uuid]

    def finish_live_migration(self, guest: GuestSpec) -> None:
        with self._call("finish_live_migration", guest.name):
            notes = self._look()
            present(notes, guest.instance_uuid)
            self._make_permanent(guest.instance_uuid, notes)

    def cancel_live_migration(self, instance_uuid: str) -> None:
        with self._call("cancel_live_migration", _name(self._look(), instance_uuid)), held(self._store):
            notes = self._store.load()
            arrival = notes.arrivals.get(instance_uuid)
            if arrival is not None and not arrival.is_here:
                self._store.save(notes.without(instance_uuid, "arrivals"))

    def abort_live_migration(self, instance_uuid: str) -> None:
        with self._call("abort_live_migration", _name(self._look(), instance_uuid)):
            move = self._moves.get(instance_uuid)
            if move is not None:
                move.abort()

    def force_live_migration(self, instance_uuid: str) -> None:
        with self._call("force_live_migration", _name(self._look(), instance_uuid)):
            move = self._moves.get(instance_uuid)
            if move is not None:
                move.is_forced = True

    def steer_live_migration(self, instance_uuid: str, kind: str, amount: int) -> None:
        with self._call("steer_live_migration", _name(self._look(), instance_uuid)):
            move = self._moves.get(instance_uuid)
            if move is None:
                raise DriverError("No live migration of the guest is under way on this host.")
            move.steer(kind, amount)

    def destroy(self, instance_uuid: str) -> None:
        # One that has just come is made permanent first: else the place that it left would count as its own again.
        self._make_permanent(instance_uuid, self._look())
        super().destroy(instance_uuid)

    def _address(self) -> dict[str, Any]:
        return {"host": self.host, "state_file": str(self._store.path)}

    def _made_ready(self, kept: Note) -> dict[str, Any]:
        return {**self._address(), "disk": kept.disk}

    def _expected(self, guest: GuestSpec) -> Arrival:
        ticket = str(uuid4())
        return Arrival(ticket, mark=f"{self._store.path}.{ticket}.here", name=guest.name)

    def _has_left(self, uuid: str, destination: Store) -> bool:
        """Where the guest is: False here, True there. Raises GuestMissing, DriverError for one that is off."""
        with held(self._store, destination, is_shared=True):
            here, there = self._store.load().guests.get(uuid), destination.load().guests.get(uuid)
        if here is None and there is None:
            raise GuestMissing()
        if here is not None and not here.is_on:
            raise DriverError("The guest is not running.")
        return here is None

    def _switch(self, uuid: str, destination: Store, ticket: str, move: _Move) -> None:
        with held(self._store, destination):
            here, there = self._store.load(), destination.load()
            note, arrival = present(here, uuid), there.arrivals.get(uuid)
            if arrival is None or arrival.ticket != ticket:
                raise DriverError("The destination is not prepared for the guest.")
            move.switch()
            coming = replace(arrival, note=replace(note, mark=""), source=str(self._store.path))
            destination.save(replace(there, arrivals={**there.arrivals, uuid: coming}))
            self._store.save(here.with_guest(uuid, replace(note, mark=arrival.mark)))
            _make_mark(arrival.mark)  # until here it runs on this host, and from here on at the destination
            with suppress(DriverError):  # both files say the truth already, together with the mark
                self._store.save(self._store.load())
                destination.save(destination.load())

    def _make_permanent(self, uuid: str, notes: Notes) -> None:
        """Write into both files what the mark says of them, then drop it; nothing for one that did not just come."""
        arrival = notes.arrivals.get(uuid)
        if arrival is None or not arrival.is_here:
            return
        stores = [Store(Path(path)) for path in {arrival.source, str(self._store.path)} if Path(path).exists()]
        with held(*stores):
            # The source first: without the mark it would believe that the guest is still there.
            for store in sorted(stores, key=lambda store: store.path == self._store.path):
                settled = store.load()
                store.save(settled.without(uuid, "arrivals") if store.path == self._store.path else settled)
            Path(arrival.mark).unlink(missing_ok=True)


def _copy(total: int, progress: Progress, move: _Move) -> None:
    while not move.is_due:
        progress("copying memory", move.share, move.figures(total))
        move.check()
        move.go_on()
    if not move.is_post_copy:
        done = {"memory_total": total, "memory_processed": total, "memory_remaining": 0}
        progress("switching", 1.0, {**move.figures(total), **done})


def _fetch(total: int, progress: Progress, move: _Move) -> None:
    """What a guest lacks that switched by post-copy."""
    while move.is_post_copy and move.share < 1.0:
        progress("fetching memory at the destination", move.share, move.figures(total))
        move.go_on()


def _make_mark(path: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        raise DriverError(f"The guest could not be switched: {error.strerror}.") from error


def _hold_up(seconds: float, progress: Progress, move: _Move) -> None:
    def tell(share: float) -> None:
        move.check()
        progress("being late", None)

    wait(seconds, tell)


def _woken(note: Note, is_running: bool) -> Note:
    return note.started() if is_running else note.in_state(PowerState.SHUTDOWN)


def _store_at(address: Mapping[str, Any]) -> Store:
    """The state of another host of this machine, as it told. Raises DriverError."""
    path = Path(str(address.get("state_file", "")))
    if not path.is_absolute() or not path.parent.is_dir():
        raise DriverError("The state of the other simulated host is not on this machine.")
    return Store(path)


def _name(notes: Notes, uuid: str) -> str:
    found = notes.guests.get(uuid) or notes.kept.get(uuid) or notes.arrivals.get(uuid)
    return found.name if found else ""
