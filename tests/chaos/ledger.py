"""A flow whose every effect is a row in a ledger, so that a checker can count what was done, undone and doubled.

Its steps are of each kind that the product's have: local, across databases, and by command to a host.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

from conductor.cell_db.models import Migration
from conductor.core.compute_driver import GuestSpec
from conductor.core.errors import DriverError, KeptByHost
from conductor.core.request_spec import FlavorSpec, ImageSpec
from conductor.core.states import MigrationStatus, MigrationType
from conductor.db import dialect
from conductor.db.transactions import database_now
from conductor.rpc.messages import DestroyInstance, MigrateOut, RevertMigration, SpawnInstance
from conductor.workflows.flow import UNTIL_DONE, Flow, RemoteStep, Result, Step, StepContext
from conductor.workflows.flows.delete import ForgetAtSource
from conductor.workflows.steps import devices, moves
from conductor.workflows.steps.on_host import addressed

HERE, OTHER = "cell1", "default"
HOST = "host-1"
MOURNED = "mourned"  # of what could not be built
TABLE = "CREATE TABLE ledger (run TEXT NOT NULL, thing TEXT NOT NULL, what TEXT NOT NULL, token INTEGER NOT NULL)"


class Faulty:
    """Effects that fail when the schedule says so."""

    def meet(self, step: str) -> None:
        """Raises DriverError when the step is to fail."""


faults = Faulty()
unlocked: list[str] = []  # effects on things that were not locked for the run


def put(alias: str, work: StepContext, what: str, *, is_repeatable: bool = True) -> None:
    """Note an effect, once where the step may run again under its key; inside a fenced transaction.

    The thing must be locked for the run that touches it.
    """
    query = "SELECT run_id FROM journal_resourcelock WHERE resource = %s"
    holders = [run_id for (run_id,) in dialect.run(connections[HERE], query, [f"instance:{work.instance_uuid}"])]
    if holders != [work.run.pk]:
        unlocked.append(f"run {work.run.pk} did {what} while the thing was locked for {holders}")
    connection, run = connections[alias], str(work.run.uuid)
    is_there = dialect.run(connection, "SELECT 1 FROM ledger WHERE run = %s AND what = %s", [run, what])
    if not is_there or not is_repeatable:
        row = [run, work.instance_uuid, what, work.token]
        dialect.run(connection, "INSERT INTO ledger VALUES (%s, %s, %s, %s)", row)


def take_away(alias: str, work: StepContext, what: str, *, of_all: bool = False) -> None:
    """Take an effect of this run back, or that of whichever run had it on the same thing."""
    column, value = ("thing", work.instance_uuid) if of_all else ("run", str(work.run.uuid))
    dialect.run(connections[alias], f"DELETE FROM ledger WHERE {column} = %s AND what = %s", [value, what])


class Begin(Step):
    """Local, with nothing to undo."""

    title = "Begin"


class Take(Step):
    """In another database, as ports and allocations are."""

    title = "Take"

    def execute(self, work: StepContext) -> Result:
        faults.meet("Take")
        with work.fenced(OTHER):
            put(OTHER, work, "taken")
        faults.meet("Take.late")
        return {"taken": work.step_key}

    def revert(self, work: StepContext, result: Result) -> None:
        faults.meet("Take.undo")
        with work.fenced(OTHER):
            take_away(OTHER, work, "taken")


class Reserve(Step):
    """Also in the other database, right before another such step: both in one commit, as is typical."""

    title = "Reserve"

    def execute(self, work: StepContext) -> Result:
        faults.meet("Reserve")
        with work.fenced(OTHER):
            put(OTHER, work, "reserved")
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        with work.fenced(OTHER):
            take_away(OTHER, work, "reserved")


class Note(Step):
    """In the journal's own database, with the record."""

    title = "Note"

    def commit(self, work: StepContext, result: Result) -> None:
        put(HERE, work, "noted", is_repeatable=False)  # it commits with its record: once is the promise
        faults.meet("Note")

    def commit_revert(self, work: StepContext) -> None:
        take_away(HERE, work, "noted")


class Spawn(RemoteStep):
    """On a host."""

    title = "Spawn"

    def command(self, work: StepContext) -> Any:
        return SpawnInstance(**addressed(work, HOST), guest=_guest(work))

    def commit(self, work: StepContext, result: Result) -> None:
        put(HERE, work, "spawned", is_repeatable=False)

    def revert_command(self, work: StepContext) -> Any:
        return DestroyInstance(**addressed(work, HOST))

    def commit_revert(self, work: StepContext) -> None:
        take_away(HERE, work, "spawned")


def _guest(work: StepContext) -> dict[str, Any]:
    flavor = FlavorSpec("1", "one", vcpus=1, memory_mb=1)
    return GuestSpec(work.instance_uuid, "guest", "guest", work.run.project_id, flavor, ImageSpec()).to_json()


class PutAside(RemoteStep):
    """On a host: what a move keeps there for going back, until it is confirmed, or its thing is deleted."""

    title = "Put aside"

    def on_start(self, work: StepContext) -> None:
        values = {
            "instance_uuid": work.instance_uuid,
            "migration_type": MigrationType.MIGRATION,
            "status": MigrationStatus.MIGRATING,
            "source_host": HOST,
            "project_id": work.run.project_id,
            "user_id": work.run.user_id,
            "created_at": database_now(),
            "updated_at": database_now(),
        }
        Migration.objects.using(HERE).get_or_create(uuid=work.run.uuid, defaults=values)

    def command(self, work: StepContext) -> Any:
        return MigrateOut(**addressed(work, HOST), guest=_guest(work), destination="host-2")

    def commit(self, work: StepContext, result: Result) -> None:
        put(HERE, work, "kept", is_repeatable=False)

    def revert_command(self, work: StepContext) -> Any:
        return RevertMigration(**addressed(work, HOST), guest=_guest(work))

    def commit_revert(self, work: StepContext) -> None:
        take_away(HERE, work, "kept")


class Settle(Step):
    """A write in another database, after the host: a failure here undoes everything."""

    title = "Settle"

    def execute(self, work: StepContext) -> Result:
        faults.meet("Settle")
        with work.fenced(OTHER):
            put(OTHER, work, "settled")
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        with work.fenced(OTHER):
            take_away(OTHER, work, "settled")


class Finish(Step):
    """Local."""

    title = "Finish"


class Mourn(Step):
    """Last step of a failed or cancelled flow, in the other database, until it succeeds."""

    title = "Mourn"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        faults.meet("Mourn")
        with work.fenced(OTHER):
            put(OTHER, work, MOURNED)
        return {}


class Lend(Step):
    """In the other database, as an attached volume is: a host that may still have it keeps it."""

    title = "Lend"

    def execute(self, work: StepContext) -> Result:
        with work.fenced(OTHER):
            put(OTHER, work, "lent")
        return {}

    def revert(self, work: StepContext, result: Result) -> None:
        if devices.kept_by(work):
            raise KeptByHost("It stays lent until the host lets it go.")
        with work.fenced(OTHER):
            take_away(OTHER, work, "lent")


class EndMove(Mourn):
    """Last step of a move, also of a cancelled one."""

    title = "End the move"

    def commit(self, work: StepContext, result: Result) -> None:
        status = moves.ended_as(work.run, MigrationStatus.CANCELLED)
        Migration.objects.using(HERE).filter(uuid=work.run.uuid).update(status=status)


class Remove(RemoteStep):
    """Step of a delete, on a host, until it succeeds."""

    title = "Remove"
    retry = UNTIL_DONE

    def command(self, work: StepContext) -> Any:
        return DestroyInstance(**addressed(work, HOST))

    def commit(self, work: StepContext, result: Result) -> None:
        take_away(HERE, work, "spawned", of_all=True)


class GiveBack(Step):
    """Step of a delete, in the other database, until it succeeds."""

    title = "Give back"
    retry = UNTIL_DONE

    def execute(self, work: StepContext) -> Result:
        faults.meet("GiveBack")
        with work.fenced(OTHER):
            for what in EFFECTS[OTHER]:
                take_away(OTHER, work, what, of_all=True)
        return {}


class Forget(Step):
    """A delete's: local."""

    title = "Remove service"

    def commit(self, work: StepContext, result: Result) -> None:
        for what in ("noted", "kept"):
            take_away(HERE, work, what, of_all=True)


BUILD = Flow(
    "ledger_build", version=1, steps=(Begin(), Reserve(), Take(), Note(), Spawn(), Settle(), Finish()), max_attempts=2
)
SHORT = (
    Flow(
        "ledger_cross_database", version=1, steps=(Reserve(), Take(), Settle()), on_failure=Mourn(), on_cancel=Mourn()
    ),
    Flow("ledger_here", version=1, steps=(Take(), Note(), Finish())),
    Flow("ledger_host", version=1, steps=(Take(), Spawn(), Settle()), max_attempts=2, on_failure=Mourn()),
    Flow("ledger_noted_host", version=1, steps=(Begin(), Note(), Spawn())),
)
MOVE = Flow("ledger_move", version=1, steps=(Take(), PutAside(), Settle()), on_failure=EndMove(), on_cancel=EndMove())
DELETE = Flow(
    "ledger_delete", version=1, steps=(ForgetAtSource(), Remove(), GiveBack(), Forget()), cancellable_until=None
)
LEND = Flow("ledger_lend", version=1, steps=(Lend(), Spawn()))
BUILDS = (*SHORT, *SHORT, BUILD, MOVE)  # as often as they are wanted in a crowd
FLOWS = (BUILD, *SHORT, MOVE, LEND, DELETE)
EFFECTS = {OTHER: {"reserved", "taken", "settled", "lent", MOURNED}, HERE: {"noted", "spawned", "kept"}}
EFFECT_OF = {
    Reserve: "reserved",
    Take: "taken",
    Note: "noted",
    Spawn: "spawned",
    Lend: "lent",
    PutAside: "kept",
    Settle: "settled",
}


def fail(step: str) -> DriverError:
    return DriverError(f"The schedule lets {step} fail.")
