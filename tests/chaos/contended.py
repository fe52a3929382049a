"""Contended worlds: many runs with faults of their own in one world, which share the cost of that world.

A run is one schedule: its faults and their times are drawn for it alone, while the messages of all runs arrive in a
random order. Most flows are short, as most bugs show within three steps. In the worlds of schedule.py faults affect
all runs, and each world costs as much as ten runs here.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connections

from conductor.cell_db.models import Instance
from conductor.db import dialect
from conductor.db.transactions import database_now, write_tx
from conductor.journal.models import WorkflowRun
from conductor.rpc import outbox
from conductor.services.operations.reconciliation import undos
from conductor.workflows.engine import leases
from tests.chaos import ledger
from tests.chaos.parts import CELL, Killed, hear
from tests.chaos.rounds import Round
from tests.chaos.schedule import AN_HOUR, CONDUCTORS, LONGEST_SETTLING, Message, Schedule

SIZE = 25
DELETED = 0.25  # of the things: while they are built, or afterwards
TWICE = 0.04  # of the things are asked for twice in the same millisecond
SHARED, PORTS = 0.12, 4  # of the runs lock one of so many ports as well, and wait for it
UNRESPONSIVE = (0.1, 0.1, 0.1, 0.6)  # of the rounds pass without a word from the host, by world
LATE = 0.12  # of the runs fail late, so that there is something to undo
STUBBORN = 0.3  # of these have an undo that never succeeds
MOVED_AND_DELETED = 0.8  # of the things that are moved
CUT_OFF = 0.5  # of the moves fail once the host has put something aside
ROUNDS_WHILE_AWAY = 8
BACK_AT_HOST, TRIES = "host.bring_back", 5
RELUCTANT = 0.15  # of the runs fail once more at what follows a failure, or at what is tried until it is done
AFTERWARDS = {"Take.undo", "Mourn", "GiveBack"}
HASTY = 0.02  # of the messages arrive when time has just passed for all runs

# Faults of a run at its n-th place, message or effect; with their frequency, and the last number.
AT_PLACES, AT_MESSAGES, AT_EFFECTS = ("kill", "freeze", "cancel"), ("lose", "repeat", "delay"), ("fail",)
FAULTS = {
    "kill": (34, 9),
    "freeze": (24, 9),
    "cancel": (7, 9),
    "lose": (10, 3),
    "repeat": (8, 3),
    "delay": (5, 3),
    "fail": (12, 3),
}
WHILE_ASLEEP = 0.2  # of the frozen ones have their run cancelled meanwhile
BOTH = 0.35  # of those that take over from a frozen one are killed soon
SECOND = 0.4  # of the runs meet another one

# For one run: its lease runs out and its timer is due. One that waits for a lock goes on waiting.
ITS_TIME_PASSES = (
    "UPDATE journal_workflowrun SET lease_expires_at = {later} WHERE uuid = %s AND owner IS NOT NULL",
    "UPDATE journal_workflowrun SET wake_at = {later} WHERE uuid = %s AND wake_at < {later}",
)
_NOT_CLEAN = "SELECT uuid FROM journal_workflowrun WHERE state = 'failed (not clean)'"


@dataclass
class Fate:
    """The planned faults of one run."""

    thing: int
    faults: list[tuple[str, int]]
    is_stubborn: bool = False
    is_reluctant: bool = False
    delete_at: int = 0  # the place at which a deletion is requested; 0: never
    met: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def meet(self, kinds: tuple[str, ...]) -> str:
        """Return the fault at the next place, message or effect; "" for none."""
        self.met[kinds] += 1
        for fault in self.faults:
            if fault[0] in kinds and fault[1] <= self.met[kinds]:
                self.faults.remove(fault)
                return fault[0]
        return ""


class ContendedSchedule(Schedule):
    """The world of one seed, with `size` runs in it."""

    def __init__(self, seed: int, folder: Path, *, size: int = SIZE) -> None:
        super().__init__(seed, folder)
        self.random = random.Random(f"crowd {seed}")
        self.stubborn = ""
        self._size = size
        self._silence_rate = self.random.choice(UNRESPONSIVE)
        self._fates: dict[str, Fate] = {}  # by run
        self._run, self._fate = "", Fate(0, [])  # those of the message at work
        self._late: list[Message] = []

    # -- what the product meets -------------------------------------------------------------------------------

    def reach(self, place: str) -> None:
        self.trace.append(place)
        fate, may_wait = self._fate, self._may_be_overtaken()
        if may_wait and 0 < fate.delete_at <= fate.met[AT_PLACES]:
            self._delete(fate)
        struck = fate.meet(AT_PLACES)
        if struck in ("freeze", "cancel") and not may_wait:
            fate.faults.append((struck, 0))  # at the next place then
        elif struck:
            self._strike(struck, f"{struck} at {place}")
            if struck == "kill":
                raise Killed(place)
            if struck == "cancel":
                self._cancel_this()
            else:
                self._freeze(place)

    def meet(self, step: str) -> None:
        if self._fate.is_stubborn and self._never_ends(step):
            raise ledger.fail(step)
        is_once_more = self._fate.is_reluctant and step in AFTERWARDS
        self._fate.is_reluctant &= not is_once_more
        if is_once_more or self._fate.meet(AT_EFFECTS):
            self._strike("fail", f"failed: {step}")
            raise ledger.fail(step)

    def _never_ends(self, step: str) -> bool:
        """Return whether this compensation fails: a conductor's each time, and a host's while one is attempted."""
        self._fate.met[step,] += 1
        return step == "Take.undo" or (step == BACK_AT_HOST and self._fate.met[step,] <= TRIES)

    def _may_be_overtaken(self) -> bool:
        """Return whether a takeover is possible: not from a process that is frozen inside a transaction."""
        return self.depth < 2 and not any(connections[alias].in_atomic_block for alias in (CELL, ledger.OTHER))

    def _strike(self, kind: str, sentence: str) -> None:
        self.struck[kind] += 1
        self.trace.append(sentence)

    def _overtake(self) -> None:
        """Have the other conductor take over the run after the lease of its owner has run out."""
        run_uuid = self._run
        self.depth += 1
        if self.random.random() < WHILE_ASLEEP:
            self._strike("cancel", "cancel meanwhile")
            self._cancel_this()
        if self.random.random() < BOTH:
            self._fate.faults.append(("kill", self._fate.met[AT_PLACES] + self.random.randint(1, 5)))
        me, leases.WORKER = leases.WORKER, CONDUCTORS[CONDUCTORS[0] == leases.WORKER]
        try:
            if self.random.random() < 0.2:
                self._let_time_pass()
            else:
                for statement, seconds in zip(ITS_TIME_PASSES, ((-1.0,), (-10.0, AN_HOUR)), strict=True):
                    dialect.run(connections[CELL], statement, (seconds[0], _key(run_uuid), *seconds[1:]))
                self.wire.append(("notification", {"alias": CELL, "run_uuid": run_uuid}))
            for _ in range(self.random.randrange(1, 4)):
                its = [at for at, message in enumerate(self.wire) if _run_of(message) == run_uuid]
                if its:
                    self._arrive(self.wire.pop(self.random.choice(its)))
        finally:
            leases.WORKER = me
            self.depth -= 1

    # -- moving -----------------------------------------------------------------------------------------------

    def _play(self) -> None:
        self._do_periodic_work()
        self._delete_what_was_kept()
        self._change_while_away()
        self._delete_while_away()  # the host is away until the next round
        self._ask_for_all()
        for number in range(LONGEST_SETTLING):
            self.is_calm = number > LONGEST_SETTLING // 3
            while self.wire:
                if not self.depth:
                    leases.WORKER = self.random.choice(CONDUCTORS)
                if self.random.random() < HASTY and not self.is_calm:
                    self._let_time_pass()
                self._arrive(self.wire.pop(self.random.randrange(len(self.wire))))
            hear(self.is_calm or self.random.random() > self._silence_rate)
            self._delete_the_rest()
            self.wire, self._late = self._late, []
            if not self.wire and not self._unfinished():
                self._look_for_needless_uncompensated()
                return
            self._let_time_pass()
        self.wrong.append(f"never settles: {self._unfinished()}")

    def _do_periodic_work(self) -> None:
        """Do the periodic work that one conductor does for all."""
        work = Round(self.seed)
        self.trace.append(work.play())
        self.wrong += work.wrong

    def _delete_what_was_kept(self) -> None:
        """Delete an instance whose move failed, and whose host could not undo it."""
        self.things += 1
        run_uuid = self._open(ledger.MOVE, self.things, may_wait=False)
        self._fates[run_uuid] = Fate(self.things, [("fail", 4)], is_stubborn=True)
        for _ in range(2 * TRIES + 2):
            self._deliver_all()
            self._let_time_pass()
        self._open(ledger.DELETE, self.things, may_wait=True)

    def _delete_while_away(self) -> None:
        """Move an instance, and delete it while its host is away: deferred commands reach the host in any order."""
        self.things += 1
        self._open(ledger.MOVE, self.things, may_wait=False)
        self._deliver_all()
        hear(False)
        self._open(ledger.DELETE, self.things, may_wait=False)
        for _ in range(2):
            self._deliver_all(is_host_away=True)
            self._let_time_pass()

    def _change_while_away(self) -> None:
        """Change a lent instance while its host is away and still keeps what was lent: all commands arrive at once.

        The change has the lock when the host has let go, and is newer than the run that goes on.
        """
        self.things += 1
        Instance.objects.using(CELL).create(**_instance_of(self.things))
        hear(False)
        self._open(ledger.LEND, self.things, may_wait=False)
        for _ in range(ROUNDS_WHILE_AWAY):
            self._deliver_all(is_host_away=True)
            self._let_time_pass()
        self._open(ledger.BUILD, self.things, may_wait=False)
        self._deliver_all(is_host_away=True)
        hear(True)

    def _let_time_pass(self) -> None:
        super()._let_time_pass()
        undos.go_on_all(CELL)

    def _deliver_all(self, *, is_host_away: bool = False) -> None:
        while at := [at for at, (kind, _) in enumerate(self.wire) if kind != "compute" or not is_host_away]:
            self._arrive(self.wire.pop(at[0]))

    def _look_for_needless_uncompensated(self) -> None:
        """Report compensations that were given up although they would have succeeded."""
        stubborn = {_key(run_uuid) for run_uuid, fate in self._fates.items() if fate.is_stubborn}
        for (run_uuid,) in dialect.run(connections[CELL], _NOT_CLEAN):
            if run_uuid not in stubborn:
                self.wrong.append(f"run {run_uuid} left something behind, and nothing kept it from its undo")

    def _arrive(self, message: Message) -> None:
        """Deliver a message, if its planned fault lets it arrive."""
        before = self._run, self._fate
        self._run = _run_of(message)
        self._fate = self._fates.get(self._run) or Fate(0, [])
        struck = self._fate.meet(AT_MESSAGES)
        try:
            if struck:
                self._strike(struck, f"{struck}: {message[0]}")
            if struck == "repeat":
                self.wire.append(message)
            if struck == "delay":
                self._late.append(message)
            elif struck != "lose":
                self._deliver_here(message)
        finally:
            self._run, self._fate = before

    # -- asking -----------------------------------------------------------------------------------------------

    def _ask_for_all(self) -> None:
        count = 0
        while count < self._size:
            fate = self._draw(self.things + 1)
            self.things += 1
            count += 1
            flow = self.random.choice(ledger.BUILDS)
            if count < self._size and self.random.random() < (MOVED_AND_DELETED if flow is ledger.MOVE else DELETED):
                fate.delete_at = self.random.randrange(1, 15)
                count += 1
            if flow is ledger.MOVE and self.random.random() < CUT_OFF:
                fate.faults.append(("fail", 4))  # the effect after the one at the host
                fate.is_stubborn = self.random.random() < STUBBORN
            self._begin(flow, fate)
            if self.random.random() < TWICE and self._open(flow, fate.thing, may_wait=False):
                self.wrong.append(f"two actions on thing {fate.thing} were accepted in the same millisecond")

    def _delete(self, fate: Fate) -> None:
        fate.delete_at = 0
        self._begin(ledger.DELETE, self._draw(fate.thing))

    def _delete_the_rest(self) -> None:
        for fate in [fate for fate in self._fates.values() if fate.delete_at]:
            self._delete(fate)

    def _begin(self, flow: Any, fate: Fate) -> None:
        is_shared = self.random.random() < SHARED
        ports = [f"port:shared-{self.random.randrange(PORTS)}"] if is_shared else []
        run_uuid = self._open(flow, fate.thing, *ports, may_wait=is_shared or flow is ledger.DELETE)
        self._fates[run_uuid] = fate

    def _draw(self, thing: int) -> Fate:
        weights = [weight for weight, _ in FAULTS.values()]
        kinds = self.random.choices(list(FAULTS), weights, k=1 + (self.random.random() < SECOND))
        faults = [(kind, self.random.randint(1, FAULTS[kind][1])) for kind in kinds]
        chance = self.random.random()
        faults += [("fail", self.random.randint(2, 4))] if chance < LATE else []
        is_reluctant = self.random.random() < RELUCTANT
        return Fate(thing, faults, is_stubborn=chance < LATE * STUBBORN, is_reluctant=is_reluctant)

    def _cancel_this(self) -> None:
        with write_tx(CELL):
            run = WorkflowRun.objects.using(CELL).live().filter(uuid=self._run).first()
            if run is not None and not run.is_cancel_requested:
                outbox.request_cancel(CELL, run, "the crowd says so")


def _instance_of(number: int) -> dict[str, Any]:
    now = database_now()
    values: dict[str, Any] = {"uuid": UUID(int=number), "flavor": {}, "image": {}, "created_at": now, "updated_at": now}
    return values


def _run_of(message: Message) -> str:
    kind, body = message
    return str(body["run_uuid"] if kind == "notification" else body["body"]["run_uuid"])


def _key(run_uuid: str) -> str:
    """Return the key as the tables of the campaign hold it."""
    return run_uuid.replace("-", "")
