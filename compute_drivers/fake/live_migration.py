"""Live migration of simulated guests, by the state files of both hosts, which are on one machine."""

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

from compute_drivers.fake.node import FakeNode, find_guest, sleep_in_ticks
from compute_drivers.fake.state import MB, Arrival, StateFile, locked, state_file_at
from conductor.core.compute_driver import GuestSpec, Progress
from conductor.core.errors import DriverError, GuestMissing, MigrationAborted
from conductor.core.live_steering import DOWNTIME, POST_COPY, THROTTLE
from conductor.core.messages import message

STEP_SECONDS = 0.05
FIGURE_NAMES = {DOWNTIME: "downtime_limit_ms", THROTTLE: "throttle_percent"}


class MigrationJob:
    """A simulated migration: until the switch it can be aborted, steered and forced.

    Throttling speeds the copy up. With a larger downtime the switch comes earlier, with more of the copy left.
    """

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
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
        """Return progress figures for `total` bytes of memory."""
        copied = int(total * self.share)
        found = {"memory_total": total, "memory_processed": copied, "memory_remaining": total - copied}
        found |= {name: self._amounts[kind] for kind, name in FIGURE_NAMES.items() if kind in self._amounts}
        return found | ({"is_post_copy": 1} if self.is_post_copy else {})

    def advance(self) -> None:
        """Sleep for one step and add its share."""
        began = time.monotonic()
        time.sleep(min(STEP_SECONDS, self._seconds))
        speed = 100 / (100 - self._amounts.get(THROTTLE, 0))
        elapsed = (time.monotonic() - began) * speed
        self.share = min(1.0, self.share + elapsed / self._seconds) if self._seconds else 1.0

    def abort(self) -> None:
        """Raises DriverError after a switch to post-copy."""
        with self._lock:
            if self.is_post_copy:
                raise DriverError(message("migration.no_abort"))
            self._is_aborted = not self._has_switched

    def steer(self, kind: str, amount: int) -> None:
        """Raises DriverError when it is too late for this."""
        with self._lock:
            if self._is_aborted or (self._has_switched and not (kind == POST_COPY and self.is_post_copy)):
                raise DriverError(message("migration.at_its_end"))
            self._amounts[kind] = amount

    def check(self) -> None:
        """Raises MigrationAborted after an abort."""
        if self._is_aborted:
            raise MigrationAborted()

    def switch(self) -> None:
        """Make later aborts come too late. Raises MigrationAborted after an earlier one."""
        with self._lock:
            self.check()
            self._has_switched = True


class LiveMigration:
    """Moves the record of a running guest, with its `life`, from one state file to another."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self.jobs: dict[str, MigrationJob] = {}

    # -- at the destination

    def prepare(self, guest: GuestSpec, *, is_block_migration: bool | None) -> Mapping[str, Any]:
        """Expect the guest; return the target, which the source needs to send it."""
        node, uuid = self._node, guest.instance_uuid
        with node.call("prepare_live_migration", guest.name), locked(node.state_file):
            state = node.state_file.load()
            if uuid in state.guests:
                raise DriverError("The guest is on this host already.")
            arrival = state.arrivals.get(uuid) or self._new_arrival(guest)
            node.state_file.save(replace(state, arrivals={**state.arrivals, uuid: arrival}))
        # Simulated hosts share no disks.
        is_block = is_block_migration is not False
        return {**node.address, "ticket": arrival.ticket, "is_block_migration": is_block}

    def finish(self, guest: GuestSpec) -> None:
        """Make the arrived guest permanent. Raises GuestMissing for one that has not arrived."""
        with self._node.call("finish_live_migration", guest.name):
            find_guest(self._node.read_state(), guest.instance_uuid)
            self.settle(guest.instance_uuid)

    def cancel(self, instance_uuid: str) -> None:
        """Remove the expectation. A guest that has arrived stays."""
        node = self._node
        with self._call("cancel_live_migration", instance_uuid), locked(node.state_file):
            state = node.state_file.load()
            arrival = state.arrivals.get(instance_uuid)
            if arrival is not None and not arrival.is_here:
                node.state_file.save(state.without(instance_uuid, "arrivals"))

    def settle(self, uuid: str) -> None:
        """Write an arrival into both state files, then remove its mark; nothing for a guest that did not arrive."""
        node = self._node
        arrival = node.read_state().arrivals.get(uuid)
        if arrival is None or not arrival.is_here:
            return
        paths = {arrival.source, str(node.state_file.path)}
        files = [StateFile(Path(path)) for path in paths if Path(path).exists()]
        with locked(*files):
            # The source first: without the mark its file would say that the guest is still there.
            for file in sorted(files, key=lambda file: file.path == node.state_file.path):
                state = file.load()
                file.save(state.without(uuid, "arrivals") if file.path == node.state_file.path else state)
            Path(arrival.mark).unlink(missing_ok=True)

    def _new_arrival(self, guest: GuestSpec) -> Arrival:
        ticket = str(uuid4())
        return Arrival(ticket, mark=f"{self._node.state_file.path}.{ticket}.here", name=guest.name)

    # -- at the source

    def migrate(self, guest: GuestSpec, target: Mapping[str, Any], progress: Progress) -> None:
        """Copy the memory and switch the guest to the destination."""
        node, uuid = self._node, guest.instance_uuid
        destination = state_file_at(target)
        if self._has_left(uuid, destination):
            return
        job = self.jobs[uuid] = MigrationJob(node.options.live_migration_seconds)
        try:
            with node.call("live_migrate", guest.name, lambda seconds: _sleep_in_job(seconds, progress, job)):
                total = node.read_state().guests[uuid].memory_mb * MB
                _copy_memory(total, progress, job)
                self._switch(uuid, destination, str(target.get("ticket")), job)
                _fetch_rest(total, progress, job)
        finally:
            del self.jobs[uuid]

    def abort(self, instance_uuid: str) -> None:
        with self._call("abort_live_migration", instance_uuid):
            job = self.jobs.get(instance_uuid)
            if job is not None:
                job.abort()

    def force(self, instance_uuid: str) -> None:
        with self._call("force_live_migration", instance_uuid):
            job = self.jobs.get(instance_uuid)
            if job is not None:
                job.is_forced = True

    def steer(self, instance_uuid: str, kind: str, amount: int) -> None:
        """Raises DriverError when no migration is under way."""
        with self._call("steer_live_migration", instance_uuid):
            job = self.jobs.get(instance_uuid)
            if job is None:
                raise DriverError(message("migration.none_on_host"))
            job.steer(kind, amount)

    def _call(self, method: str, uuid: str) -> Any:
        return self._node.call(method, self._node.read_state().name_of(uuid))

    def _has_left(self, uuid: str, destination: StateFile) -> bool:
        """Return whether the guest is at the destination. Raises GuestMissing, DriverError for one that is off."""
        own = self._node.state_file
        with locked(own, destination, is_shared=True):
            here, there = own.load().guests.get(uuid), destination.load().guests.get(uuid)
        if here is None and there is None:
            raise GuestMissing()
        if here is not None and not here.is_on:
            raise DriverError("The guest is not running.")
        return here is None

    def _switch(self, uuid: str, destination: StateFile, ticket: str, job: MigrationJob) -> None:
        own = self._node.state_file
        with locked(own, destination):
            here, there = own.load(), destination.load()
            record, arrival = find_guest(here, uuid), there.arrivals.get(uuid)
            if arrival is None or arrival.ticket != ticket:
                raise DriverError("The destination is not prepared for the guest.")
            job.switch()
            arriving = replace(arrival, record=replace(record, mark=""), source=str(own.path))
            destination.save(replace(there, arrivals={**there.arrivals, uuid: arriving}))
            own.save(here.with_guest(uuid, replace(record, mark=arrival.mark)))
            create_mark(arrival.mark)  # the switch itself: from here on the guest runs at the destination
            with suppress(DriverError):  # without this, both files are still correct together with the mark
                own.save(own.load())
                destination.save(destination.load())


def create_mark(path: str) -> None:
    """Create the file that switches a guest. Raises DriverError."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError as error:
        raise DriverError(f"The guest could not be switched: {error.strerror}.") from error


def _copy_memory(total: int, progress: Progress, job: MigrationJob) -> None:
    while not job.is_due:
        progress("copying memory", job.share, job.figures(total))
        job.check()
        job.advance()
    if not job.is_post_copy:
        done = {"memory_total": total, "memory_processed": total, "memory_remaining": 0}
        progress("switching", 1.0, {**job.figures(total), **done})


def _fetch_rest(total: int, progress: Progress, job: MigrationJob) -> None:
    """Copy what is left after a switch by post-copy."""
    while job.is_post_copy and job.share < 1.0:
        progress("fetching memory at the destination", job.share, job.figures(total))
        job.advance()


def _sleep_in_job(seconds: float, progress: Progress, job: MigrationJob) -> None:
    """Sleep for a fault's delay; an abort or a stale command ends it."""

    def report(share: float) -> None:
        job.check()
        progress("being late", None)

    sleep_in_ticks(seconds, report)
