"""Conductors in processes of their own that run a flow of one slow step, and a record of when each began it.

with Crew(folder, database="postgresql") as crew:
    crew.add("a"); crew.add("b")
    run = crew.open_run(seconds=30)
    first = crew.await_line("begin", run)       # the conductor that works on it, and since when
    os.kill(first.pid, signal.SIGKILL)
    second = crew.await_line("begin", run, after=first)

They are forked by a parent that has imported all, so that one more is there within the time of its connections. Times
are of the machine's monotonic clock, which all of its processes share. The first attempt of a step takes the
requested time, or until `let_end`; any later one takes no time.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from tests import migrated
from tests.acceptance.nursery import inherited_environment
from tests.services import postgresql, rabbitmq
from tests.waiting import Stopwatch, take_time, wait_until

PROJECT = Path(__file__).resolve().parents[2]
CELL = "cell1"
FLOW = "probe"
PARKED = "parked"
PER_COMMIT = 100
START_SECONDS = 240.0
WAIT_SECONDS = 240.0
END_WITH_PARENT = 1  # PR_SET_PDEATHSIG
LINES = "lines"


@dataclass(frozen=True)
class ConductorRecord:
    """One thing that a conductor did: "ready", "sees", "begin", "refused" or "end".

    `run` is the run's uuid; of "ready" it is the conductor's life, of "sees" the lives that it has seen in its group.
    """

    number: int
    what: str
    pid: int
    run: str
    at: float


class Crew:
    """See above. `variables` go to all; every conductor shares the data folder, unless it `is_apart`."""

    def __init__(self, folder: Path, *, database: str = "sqlite", **variables: str) -> None:
        self.folder = folder
        self._kind = database
        self._variables = variables
        self._stack = ExitStack()
        self.database: postgresql.Service | None = None
        self._server: subprocess.Popen[str] | None = None
        self.pids: dict[str, int] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.broker = rabbitmq.start(self.folder / "broker")
            stack.callback(self.broker.stop)
            if self._kind == "postgresql":
                self.database = migrated.start_server(self.folder / "postgresql")
                stack.callback(self.database.stop)
            else:
                migrated.copy_files(self.folder / "var")
            self._server = self._start()
            stack.callback(self._close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def add(self, name: str, *, is_apart: bool = False, lease_seconds: float | None = None) -> int:
        """Start one more conductor. Return its pid once it is ready."""
        pid = self.begin(name, is_apart=is_apart, lease_seconds=lease_seconds)
        self._await(f"{name} is ready", lambda: any(line.pid == pid for line in self.lines("ready")), START_SECONDS)
        return pid

    def await_seen(self, *names: str) -> None:
        """Wait until each of these conductors has seen all of them in a group: it notices their deaths from then on.

        It is about groups that are polled; a process that looks later notices a file's death, too.
        """
        lives = {line.pid: line.run for line in self.lines("ready")}
        expected = {lives[self.pids[name]] for name in names}

        def have_seen() -> bool:
            seen = {line.pid: set(line.run.split()) for line in self.lines("sees")}
            return all(expected <= seen.get(self.pids[name], set()) for name in names)

        self._await(f"{', '.join(names)} have seen each other", have_seen, WAIT_SECONDS)

    def begin(self, name: str, *, is_apart: bool = False, lease_seconds: float | None = None) -> int:
        requested = {"name": name, "is_apart": is_apart, "lease_seconds": lease_seconds}
        self.pids[name] = pid = int(self._ask(requested))
        return pid

    def open_run(self, seconds: float) -> str:
        """Open a run whose step takes so many seconds. Return its uuid."""
        return self._ask({"seconds": seconds})

    def let_end(self, run: str) -> None:
        """Have the step of the run end now."""
        (self.folder / f"let-end-{run}").touch()

    def open_parked(self, count: int) -> None:
        """Open so many runs that each have a host move a guest. The host never answers, so they keep waiting."""
        self._ask({"parked": count})

    def parked(self) -> int:
        """Return how many of these runs wait by now."""
        return int(self._ask({"waiting": PARKED}))

    def lines(self, what: str = "", run: str = "") -> list[ConductorRecord]:
        try:
            text = (self.folder / LINES).read_text()
        except FileNotFoundError:
            return []
        items = [ConductorRecord(number, **json.loads(line)) for number, line in enumerate(text.splitlines())]
        return [line for line in items if what in ("", line.what) and run in ("", line.run)]

    def await_line(
        self, what: str, run: str, after: ConductorRecord | None = None, seconds: float = WAIT_SECONDS
    ) -> ConductorRecord:
        """Wait for the first such line (after another one), and return it."""
        least = -1 if after is None else after.number

        def found() -> ConductorRecord | None:
            return next((line for line in self.lines(what, run) if line.number > least), None)

        return self._await(f"{what} of {run}", found, seconds)  # type: ignore[no-any-return]

    def row(self, run: str) -> dict[str, Any]:
        """Return the run as the database has it: state, owner, fencing_token."""
        return json.loads(self._ask({"row": run}))  # type: ignore[no-any-return]

    def lease(self, run: str) -> tuple[float, float]:
        """Return when the run's lease ends (0 without one) and the present time, both by the database's clock."""
        ends_at, now = json.loads(self._ask({"lease": run}))
        return ends_at, now

    def log(self) -> str:
        return (self.folder / "crew.log").read_text(errors="replace")

    def _await(self, what: str, ask: Callable[[], Any], seconds: float) -> Any:
        return wait_until(what, ask, seconds, pause=0.002, details=lambda: self.log()[-4000:])

    def _ask(self, requested: dict[str, Any]) -> str:
        assert self._server is not None
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(requested) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline().strip()
        assert answer, f"the parent of the conductors is gone\n{self.log()[-4000:]}"
        return answer

    def _start(self) -> subprocess.Popen[str]:
        own = {"NOVELLA_DATA": str(self.folder / "var"), "NOVELLA_BROKER_URL": self.broker.url, "NOVELLA_CELLS": CELL}
        if self.database is not None:
            own["NOVELLA_DATABASE_URL"] = self.database.url
        with (self.folder / "crew.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.acceptance.crew", str(self.folder)],
                env={**inherited_environment(), **own, "DJANGO_SETTINGS_MODULE": "portal.settings", **self._variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=PROJECT,
                start_new_session=True,
            )

    def _close(self) -> None:
        """End the remaining children with the parent."""
        assert self._server is not None
        self._server.communicate(timeout=START_SECONDS)


# -- inside the parent and its children ---------------------------------------------------------------------------


def main(folder: Path) -> None:
    import django

    django.setup()
    _register(folder)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps dead children
    clerk = _Clerk(folder)
    for text in sys.stdin:
        requested = json.loads(text)
        answer = _fork(requested, folder) if "name" in requested else clerk.ask(requested)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


class _Clerk:
    """A child that uses the databases for the parent, which must have no connection when it forks."""

    def __init__(self, folder: Path) -> None:
        requested, self._ask = os.pipe()
        answer, answered = os.pipe()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
            with os.fdopen(requested) as requests, os.fdopen(answered, "w", buffering=1) as answers:
                for text in requests:
                    answers.write(_carried_out(json.loads(text)) + "\n")
            os._exit(0)
        os.close(requested)
        os.close(answered)  # else the answers would not end with the child
        self._answers = os.fdopen(answer)

    def ask(self, requested: dict[str, Any]) -> str:
        os.write(self._ask, (json.dumps(requested) + "\n").encode())
        return self._answers.readline().strip()


def _carried_out(requested: dict[str, Any]) -> str:
    """Carry out what was requested, on new connections where the server was restarted meanwhile."""
    from django.db import InterfaceError, OperationalError, connections

    try:
        return _carry_out(requested)
    except (OperationalError, InterfaceError):
        connections.close_all()
        return _carry_out(requested)


def _carry_out(requested: dict[str, Any]) -> str:
    from conductor.core.context import system_context
    from conductor.db.transactions import database_now, write_tx
    from conductor.journal.models import WorkflowRun
    from conductor.rpc import outbox

    def wanted(flow: str) -> outbox.NewRun:
        resource = uuid4()
        return outbox.NewRun(
            flow=flow,
            action=flow,
            context=system_context(),
            resources=[f"instance:{resource}"],
            instance_uuid=resource,
            inputs=requested,
        )

    if "waiting" in requested:
        return str(WorkflowRun.objects.using(CELL).filter(flow=PARKED, state="waiting", owner=None).count())
    if "parked" in requested:
        for begin in range(0, requested["parked"], PER_COMMIT):
            with write_tx(CELL):
                for _ in range(begin, min(begin + PER_COMMIT, requested["parked"])):
                    outbox.open_run(CELL, wanted(PARKED))
        return "opened"
    if "row" in requested:
        fields = ("state", "owner", "fencing_token", "position")
        return json.dumps(WorkflowRun.objects.using(CELL).values(*fields).get(uuid=requested["row"]))
    if "lease" in requested:
        runs = WorkflowRun.objects.using(CELL).filter(uuid=requested["lease"]).annotate(now=database_now())
        ends_at, now = runs.values_list("lease_expires_at", "now").get()
        return json.dumps([ends_at.timestamp() if ends_at else 0.0, now.timestamp()])
    with write_tx(CELL):
        return str(outbox.open_run(CELL, wanted(FLOW)).uuid)


def _register(folder: Path) -> None:
    from conductor.core.errors import StaleToken
    from conductor.management import conductor_process  # noqa: F401 - what every child needs, once
    from conductor.rpc.messages import LiveMigrate
    from conductor.workflows import catalog
    from conductor.workflows.flow import Flow, RemoteStep, Result, Step, StepContext
    from conductor.workflows.steps.on_host import addressed

    def let_end(run: str) -> bool:
        return (folder / f"let-end-{run}").exists()

    class Probe(Step):
        title = "wait"

        def execute(self, work: StepContext) -> Result:
            run = str(work.run.uuid)
            began_before = (folder / f"run-{run}").exists()
            (folder / f"run-{run}").touch()
            _write(folder, "begin", run)
            watch = Stopwatch()
            while not began_before and watch.seconds < work.inputs["seconds"] and not let_end(run):
                take_time(min(0.05, work.inputs["seconds"]))
            try:
                with work.fenced(work.alias):
                    pass
            except StaleToken:
                _write(folder, "refused", run)
                raise
            _write(folder, "end", run)
            return {"by": os.getpid()}

    class Move(RemoteStep):
        title = "move"

        def command(self, work: StepContext) -> LiveMigrate:
            return LiveMigrate(**addressed(work, "nowhere"), guest={}, target={})

    catalog._by_version[PARKED, 1] = Flow(PARKED, 1, (Move(),))
    catalog._by_version[FLOW, 1] = Flow(FLOW, 1, (Probe(),))


def _fork(requested: dict[str, Any], folder: Path) -> int:
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            _conduct(requested, folder)
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def _conduct(requested: dict[str, Any], folder: Path) -> None:
    """Do the work of `manage.py conductor --cell` in a process of its own."""
    from django.conf import settings

    from conductor.management.conductor_process import ConductorProcess, charge
    from conductor.management.stopping import stop_requested
    from conductor.workflows.engine import leases, records

    life = uuid4().hex[:8]
    known: tuple[Any, ...] = (leases, records)
    for module in known:
        module.WORKER = f"crew:{os.getpid()}:{life}"
    if requested["is_apart"]:
        settings.NOVELLA_DATA = folder / f"apart-{os.getpid()}"
    if requested["lease_seconds"] is not None:
        settings.NOVELLA_LEASE_SECONDS = requested["lease_seconds"]
    _record_members(folder)
    stop = stop_requested()
    process = ConductorProcess(charge(cells=[CELL], is_api_level=False), requested["name"])
    process.start()
    _write(folder, "ready", life)
    process.serve(stop)
    process.stop()


def _record_members(folder: Path) -> None:
    """Have this process write which lives it sees in its polled groups, whenever they change."""
    from conductor.core.membership import Member, OnGone
    from conductor.membership.polled import Lives, PolledMembership

    watch = PolledMembership._watch

    def watch_and_write(self: PolledMembership, lives: Lives, me: Member, on_gone: OnGone) -> None:
        before: set[str] | None = None

        def look() -> set[str] | None:
            nonlocal before
            alive = lives()
            if alive is not None and alive != before:
                _write(folder, "sees", " ".join(sorted(alive)))
                before = alive
            return alive

        watch(self, look, me, on_gone)

    PolledMembership._watch = watch_and_write  # type: ignore[method-assign]


def _write(folder: Path, what: str, run: str) -> None:
    line = json.dumps({"what": what, "pid": os.getpid(), "run": run, "at": time.monotonic()}) + "\n"
    descriptor = os.open(folder / LINES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
