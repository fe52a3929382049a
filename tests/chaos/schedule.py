"""A schedule: two conductors, a host and a wire, moved step by step by one seeded random generator, then checked.

A conductor dies by an exception that no code catches: its transaction is rolled back, its memory is lost. A frozen one
stays on the stack while the other takes over, and continues afterwards with its old state: a zombie. Or all of this
happens for real: to a process of its own, by SIGKILL and SIGSTOP (see mortal.py). Time passes when the schedule
decides: leases run out by an UPDATE, not by waiting.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connections

from conductor.actors.conductor import RECEIVERS
from conductor.compute import host_journal
from conductor.compute.host_journal import HostJournal
from conductor.compute.hosts import HostConfig
from conductor.compute.manager import AgentResources, ComputeManager
from conductor.core.context import system_context
from conductor.core.errors import ResourceLocked
from conductor.core.states import LIVE_RUN_STATES
from conductor.db import dialect
from conductor.db.transactions import write_tx
from conductor.journal.models import WorkflowRun
from conductor.rpc import broker, outbox
from conductor.rpc.codec import decode, encode
from conductor.rpc.messages import StepAnswered
from conductor.workflows import catalog
from conductor.workflows.engine import executor, leases, recovery
from conductor.workflows.flow import Flow
from tests.chaos import ledger, mortal
from tests.chaos.parts import CELL, Driver, InLine, Kept, Killed, hear, is_work

CONDUCTORS = ("conductor-a", "conductor-b")
Message = tuple[str, dict[str, Any]]  # its kind and its body

LONGEST_SETTLING = 60
AN_HOUR = 3600.0
# By hand, as every schedule does it many times: its pace decides how many schedules a campaign can afford.
_RUNS = "UPDATE journal_workflowrun SET"
_LIVE = f"state IN ({', '.join(repr(str(state)) for state in sorted(LIVE_RUN_STATES))})"
_UNFINISHED = (
    f"SELECT id, flow, state, waits_for FROM journal_workflowrun WHERE {_LIVE}",
    "SELECT 'command', step_key FROM journal_outboxmessage",
)
TIME_PASSES = (
    (f"{_RUNS} lease_expires_at = {{later}} WHERE {_LIVE} AND owner IS NOT NULL", (-1.0,)),
    (f"{_RUNS} wake_at = {{later}} WHERE {_LIVE} AND wake_at < {{later}}", (-10.0, AN_HOUR)),
    ("UPDATE journal_outboxmessage SET send_again_at = {later}", (-1.0,)),
)


class Schedule:
    """The world of one seed. `run` moves it to its end and returns what is wrong with it."""

    def __init__(self, seed: int, folder: Path, *, is_real: bool = False) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.wire: list[Message] = []
        self.faults_left = self.random.randrange(0, 7) + 5 * is_real
        self.most_failures = self.random.randrange(0, 4)
        self.is_calm = False
        self.depth = 0
        self.asked: list[str] = []  # uuids of runs that were accepted
        self.trace: list[str] = []
        self.applied: list[tuple[str, int, str]] = []  # instance, token and key of each command the driver was given
        self.answered: list[str] = []  # keys of commands whose answer was given
        self.failures: list[str] = []
        self.struck: Counter[str] = Counter()  # how often by what; here by signals, to real processes
        self.fate: mortal.Fate | None = None  # this process's own, where it is one of these
        self.things = 0
        self.stubborn = "Take.undo" if self.random.random() < 0.05 else ""  # what never succeeds
        self._is_real = is_real
        self._is_host_frozen = False
        self._command_at_work: Any = None
        self._at_work: set[str] = set()  # the instance that the host works on
        self.wrong: list[str] = []
        self.driver = Driver(self)
        self._folder = folder
        self._journal: HostJournal | None = None
        self._kept = sqlite3.connect(":memory:", isolation_level=None, factory=Kept)
        self._kept.executescript(host_journal.SCHEMA)

    # -- what the product meets -------------------------------------------------------------------------------

    def reach(self, place: str) -> None:
        """Reach a named place of the product: the conductor may be killed here, or frozen while the other works."""
        self.trace.append(place)
        if self.fate is not None:
            self.fate.meet()
        if self._is_real or self.is_calm or self.faults_left <= 0 or self.random.random() > 0.12:
            return
        self.faults_left -= 1
        # A conductor that is frozen inside a transaction holds its row locks, so no other one can take over.
        is_inside = any(connections[alias].in_atomic_block for alias in (CELL, ledger.OTHER))
        if not is_inside and self.depth < 2 and self.random.random() < 0.5:
            self._freeze(place)
        else:
            self.trace.append(f"killed at {place}")
            raise Killed(place)

    def meet(self, step: str) -> None:
        """Let a step's effect fail, a few times in all."""
        if step == self.stubborn:
            raise ledger.fail(step)
        if len(self.failures) < self.most_failures and not self.is_calm and self.random.random() < 0.15:
            self.failures.append(step)
            self.trace.append(f"failed: {step}")
            raise ledger.fail(step)

    def _freeze(self, place: str) -> None:
        """Let this conductor sleep past its lease; the other conductor works meanwhile."""
        self.trace.append(f"frozen at {place}")
        try:
            self._overtake()
        finally:
            self.trace.append(f"goes on at {place}")

    def _overtake(self) -> None:
        """Let the other conductor work after the lease of this one has run out."""
        self.depth += 1
        me, leases.WORKER = leases.WORKER, CONDUCTORS[CONDUCTORS[0] == leases.WORKER]
        try:
            self._let_time_pass()
            for _ in range(self.random.randrange(1, 6)):
                self._move()
        finally:
            leases.WORKER = me
            self.depth -= 1

    # -- moving -----------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        with self._installed():
            self._start_agent()
            self._play()
            self._stop_agent()
        return self.wrong

    def _play(self) -> None:
        self._ask()
        for _ in range(self.random.randrange(4, 40)):
            self._move()
        self.is_calm = True
        hear(True)
        for _ in range(LONGEST_SETTLING):
            if not self.wire and not self._unfinished():
                return
            self._let_time_pass()
            while self.wire:
                self._deliver(self.wire.pop(0))
        self.wrong.append(f"never settles: {self._unfinished()}")

    def _move(self) -> None:
        """Make one event happen: a message arrives, twice or never; time passes; a request arrives."""
        leases.WORKER = self.random.choice(CONDUCTORS) if not self.depth else leases.WORKER
        chance = self.random.random()
        if chance < 0.70 and self.wire:
            index = self.random.randrange(len(self.wire))
            message = self.wire[index]
            if self.random.random() > 0.15:  # else it comes again
                del self.wire[index]
            if self.random.random() > 0.12:  # else it is lost
                self._deliver(message)
        elif chance < 0.80:
            self._let_time_pass()
        elif chance < 0.90:
            self._ask()
        elif chance < 0.94:
            self._cancel()
        elif chance < 0.97:
            self._change_hearing()

    def _deliver(self, message: Message) -> None:
        is_exposed = (
            self._is_real and self.fate is None and not self.depth and not self.is_calm and self.faults_left > 0
        )
        if is_exposed and self.random.random() < 0.6 and is_work(message):
            self._deliver_by_another(message)
        else:
            self._deliver_here(message)

    def _deliver_by_another(self, message: Message) -> None:
        """Deliver the message to a process that dies or is stopped if it reaches its place before the end."""
        name, is_of_host = leases.WORKER, message[0] == "compute"
        if is_of_host:
            self._stop_agent()  # the journal is the other's

        def deliver() -> None:
            leases.WORKER = f"{name}.{os.getpid()}"  # no life has the name of another
            if is_of_host:
                self._start_agent()
            self._deliver_here(message)

        def meanwhile() -> None:
            self._is_host_frozen = is_of_host
            self._overtake()
            self._is_host_frozen = False

        number = signal.SIGSTOP if self.random.random() < 0.15 else signal.SIGKILL
        met = mortal.take(self, deliver, mortal.Fate(number, self.random.randrange(1, 5)), meanwhile)
        if met is not None:
            self.faults_left -= 1
            self.struck[met.name] += 1
        if is_of_host:
            self._start_agent()

    def _deliver_here(self, message: Message) -> None:
        kind, body = message
        self.trace.append(f"{leases.WORKER}: {kind} {body.get('message', '')}")
        try:
            if kind == "notification":
                executor.run(body["alias"], body["run_uuid"])
            elif kind == "compute":
                self._command(body)
            else:
                received = decode(body)
                RECEIVERS[type(received)](body["cell"], received)
        except Killed:
            self._after_a_death(is_of_agent=kind == "compute")
        except Exception as error:  # it would be logged, and the sweep would notify again; but nothing may come to that
            self.wrong.append(f"{kind} broke: {type(error).__name__}: {error}")
            self._after_a_death(is_of_agent=kind == "compute")

    def _command(self, body: dict[str, Any]) -> None:
        command = decode(body)
        if self._at_work or self._is_host_frozen:  # the host is at work on another, or frozen there
            self.wire.append(("compute", body))
            return
        self._at_work.add(command.instance_uuid)
        self._command_at_work = command
        try:
            self.manager.receive(body)
        finally:
            self._at_work.discard(command.instance_uuid)

    def note(self) -> None:
        """Check the command that the driver has received, by rules that need no knowledge of its history."""
        command, self._command_at_work = self._command_at_work, None
        if command is None:  # the second call for it
            return
        was_answered = command.step_key in self.answered
        newest = max((token for thing, token, _ in self.applied if thing == command.instance_uuid), default=-1)
        if command.fencing_token < newest:
            self.wrong.append(f"the host obeyed token {command.fencing_token} after {newest}")
        if was_answered:
            self.wrong.append(f"the host did {command.step_key} again after it had answered")
        self.applied.append((command.instance_uuid, command.fencing_token, command.step_key))

    def _send(self, cell: str, message: Any) -> None:
        if isinstance(message, StepAnswered):
            self.answered.append(message.step_key)
        self.wire.append(("conductor", {"cell": cell, **encode(message)}))

    def _after_a_death(self, *, is_of_agent: bool) -> None:
        for alias in (CELL, ledger.OTHER):
            assert not connections[alias].connection.in_transaction, f"a transaction of the dead is open on {alias}"
        if is_of_agent:
            self._stop_agent()
            self._start_agent()

    def _let_time_pass(self) -> None:
        """Let time pass: leases that are not renewed run out, timers are due, unanswered commands are sent again."""
        with write_tx(CELL):
            for statement, seconds in TIME_PASSES:
                dialect.run(connections[CELL], statement, seconds)
        recovery.sweep(CELL, grace_seconds=0.0)

    # -- asking -----------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Request a new instance, or the deletion of one; sometimes twice at once."""
        is_delete = self.things > 0 and self.random.random() < 0.35
        flow = ledger.DELETE if is_delete else ledger.BUILD
        self.things += not is_delete
        number = self.random.randint(1, self.things) if is_delete else self.things
        accepted = [self._want(flow, number, may_wait=is_delete or self.random.random() < 0.3)]
        if not is_delete and self.random.random() < 0.3:
            accepted.append(self._want(flow, number, may_wait=False))
        if len([run for run in accepted if run]) > 1:
            self.wrong.append(f"two actions on thing {number} were accepted in the same millisecond")

    def _want(self, flow: Flow, number: int, *, may_wait: bool) -> str:
        return self._open(flow, number, *(["port:shared"] if self.random.random() < 0.2 else []), may_wait=may_wait)

    def _open(self, flow: Flow, number: int, *ports: str, may_wait: bool) -> str:
        """Return the uuid of the run, "" when it is refused."""
        thing = str(UUID(int=number))
        wanted = outbox.NewRun(
            flow=flow.name,
            action=flow.name,
            context=system_context(),
            resources=[f"instance:{thing}", *ports],
            instance_uuid=thing,
        )
        try:
            with write_tx(CELL):
                run = outbox.open_run(CELL, wanted, may_wait=may_wait)
        except ResourceLocked:
            self.trace.append(f"refused: {flow.name} of {number}")
            return ""
        self.asked.append(str(run.uuid))
        self.trace.append(f"asked: {flow.name} {run.pk} of {number}")
        return str(run.uuid)

    def _cancel(self) -> None:
        live = dialect.run(connections[CELL], f"SELECT id FROM journal_workflowrun WHERE {_LIVE} ORDER BY id")
        if not live:
            return
        with write_tx(CELL):
            run = WorkflowRun.objects.using(CELL).get(pk=self.random.choice(live)[0])
            if not run.is_cancel_requested:
                outbox.request_cancel(CELL, run, "the schedule says so")
                self.trace.append(f"cancel: {run.pk}")

    def _change_hearing(self) -> None:
        """Make the host unresponsive, or responsive again."""
        hear(self.random.random() < 0.5)

    def _unfinished(self) -> list[str]:
        rows = [row for query in _UNFINISHED for row in dialect.run(connections[CELL], query)]
        return [" ".join(map(str, row)) for row in rows]

    # -- the parts --------------------------------------------------------------------------------------------

    def _start_agent(self) -> None:
        config = HostConfig(host=ledger.HOST, cell=CELL, driver="tiny", journal_path=self._folder / "host.sqlite3")
        self._journal = HostJournal(config.journal_path)
        self.manager = ComputeManager(
            config,
            self.driver,
            journal=self._journal,
            resources=AgentResources(commands=InLine(), urgent=InLine(), send=self._send),  # type: ignore[arg-type]
        )

    def _stop_agent(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    @contextmanager
    def _installed(self) -> Iterator[None]:
        """Install this world into the product: its wire, its failpoints and its failures."""
        flows = {(flow.name, flow.version): flow for flow in ledger.FLOWS}
        mine: Mapping[tuple[Any, str], Any] = {
            (broker, "notify_conductor"): lambda queue, body: self.wire.append(("notification", dict(body))),
            (broker, "send_to_compute"): lambda queue, body: self.wire.append(("compute", dict(body))),
            (executor, "reach"): self.reach,
            (catalog, "_by_version"): flows,
            (ledger.faults, "meet"): self.meet,
            (leases, "WORKER"): CONDUCTORS[0],
        }
        if not self._is_real:
            mine = {**mine, (host_journal, "_open"): lambda path: self._kept}
        before = {(owner, name): getattr(owner, name) for owner, name in mine}
        for (owner, name), value in mine.items():
            setattr(owner, name, value)
        try:
            yield
        finally:
            for (owner, name), value in before.items():
                setattr(owner, name, value)
