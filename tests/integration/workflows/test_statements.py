"""Each hand-written statement is served by an index: the database explains them all, and reads no growing table whole.

The statements are recorded while the functions of each `statements.py` are called, and every place there that executes
one must be reached. PostgreSQL is kept from sequential scans, so one in a plan means that no index serves.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Field, IntegerField, UUIDField
from django.utils import timezone

from conductor.cell_db import statements as cell_db
from conductor.core.context import RequestContext
from conductor.core.states import StepState
from conductor.db import dialect
from conductor.db.dialect import SecondsFromNow
from conductor.db.rows import Rows
from conductor.identity import statements as identity
from conductor.journal import statements as journal
from conductor.journal.models import WorkflowRun
from conductor.network import statements as network
from conductor.network.models import Network, Subnet
from conductor.placement import statements as placement
from conductor.placement.models import (
    Allocation,
    Consumer,
    HardwareClaim,
    ProviderAggregate,
    ProviderInventory,
    ResourceProvider,
)
from tests.architecture.tree import PACKAGES, PROJECT_DIR, own_files, parsed, read

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

ANA = RequestContext(user_id="a" * 32, project_id="b" * 32, request_id="req-1", roles=frozenset({"member"}))
MANY = 4000  # rows, where the planner goes by statistics
# Tables whose rows are as many as are needed at the moment, however long the cloud has existed.
SMALL = {
    "journal_lockwait": "runs that wait for a lock now",
    "placement_changecounter": "one row",
}
# Tables that `scan` reads whole, on purpose: a starting scheduler has to know all hosts, and the conductor that
# writes networks into OVN counts their rows.
WHOLE = {
    "cell_db_computenode",
    "network_port",
    "network_addressallocation",
    *(f"placement_{name}" for name in ("resourceprovider", "inventory", "provideraggregate", "allocation")),
}
EXECUTING = frozenset({"run", "run_many", "run_each", "scan"})
# Functions with statements that only one database executes.
ONLY_ON = {
    "sqlite": {"drop_locks", "write_transitions", "provider_ids", "create_consumers", "touch_listed_providers"},
    "postgresql": {"drop_locks", "write_transition", "settled_number", "claim"},
}


# -- recording ------------------------------------------------------------------------------------------------


@dataclass
class Recording:
    """The statements that were executed, and the lines of `statements.py` that did it, by module."""

    statements: dict[str, Sequence[Any]] = field(default_factory=dict)  # with the parameters of the first execution
    whole: set[str] = field(default_factory=set)
    lines: set[tuple[str, int]] = field(default_factory=set)

    def note(self, text: str, params: Sequence[Any]) -> None:
        self.statements.setdefault(text, params)
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename.endswith("statements.py") and "conductor" in frame.f_code.co_filename:
                self.lines.add((frame.f_globals["__name__"], frame.f_lineno))
                return
            frame = frame.f_back  # type: ignore[assignment]


class RecordingCursor:
    """A native cursor that reports what it executes."""

    def __init__(self, cursor: Any, recording: Recording) -> None:
        self._cursor = cursor
        self._recording = recording

    def execute(self, text: str, params: Sequence[Any] = ()) -> Any:
        self._recording.note(text, params)
        return self._cursor.execute(text, params)

    def executemany(self, text: str, rows: Sequence[Sequence[Any]]) -> Any:
        self._recording.note(text, rows[0])
        return self._cursor.executemany(text, rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@contextmanager
def recorded(module: ModuleType | None = None) -> Iterator[Recording]:
    recording = Recording()
    native = dialect._straight_cursor

    def scan(connection: BaseDatabaseWrapper, template: str) -> Iterator[Any]:
        recording.note(dialect.render(template, connection.vendor), ())
        recording.whole.add(dialect.render(template, connection.vendor))
        return dialect.scan(connection, template)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dialect, "_straight_cursor", lambda connection: RecordingCursor(native(connection), recording))
        if hasattr(module, "scan"):
            patch.setattr(module, "scan", scan)
        yield recording


def places(module: ModuleType) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call in the module that executes a statement, with the function around it."""
    tree = parsed(PROJECT_DIR.joinpath(*module.__name__.split(".")).with_suffix(".py").relative_to(PROJECT_DIR))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    if name in EXECUTING:
                        yield function.name, node


# -- plans ----------------------------------------------------------------------------------------------------


def full_scans(connection: BaseDatabaseWrapper, text: str, params: Sequence[Any]) -> set[str]:
    """Return the tables that the statement reads whole."""
    found = _scans_of_postgresql if connection.vendor == "postgresql" else _scans_of_sqlite
    return set(found(connection, text, params)) & set(connection.introspection.table_names())


def _scans_of_sqlite(connection: BaseDatabaseWrapper, text: str, params: Sequence[Any]) -> Iterator[str]:
    alias = dict(re.findall(r"\b(?:FROM|JOIN|UPDATE)\s+(\w+)\s+(?:AS\s+)?(?!WHERE|SET|ORDER|JOIN)(\w+)", text))
    aliases = {short: table for table, short in alias.items()}
    for *_, line in connection.connection.cursor().execute(f"EXPLAIN QUERY PLAN {text}", params):
        kind, name, *_ = line.split()
        if kind == "SCAN" or "AUTOMATIC" in line:
            yield aliases.get(name, name)


def _scans_of_postgresql(connection: Any, text: str, params: Sequence[Any]) -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    cursor = connection.straight_cursor()
    cursor.execute(f"EXPLAIN (FORMAT JSON) {text}", params)
    ((found,),) = cursor.fetchall()
    nodes = [one["Plan"] for one in (json.loads(found) if isinstance(found, str) else found)]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", ())
        if node["Node Type"] == "Bitmap Heap Scan":
            (below,) = node["Plans"]
            below["Relation Name"] = node["Relation Name"]  # whose index is read
        elif node["Node Type"] == "Seq Scan":
            yield node["Relation Name"]
        elif "Index" in node["Node Type"] and "Index Cond" not in node:
            yield node.get("Relation Name", node["Index Name"])


def forget_statistics(connection: Any) -> None:
    """Make PostgreSQL plan as for tables that it has not analyzed yet; until the end of the transaction.

    If it has analyzed a table while it was empty, all plans cost the same, and it may choose one that reads a whole
    index. When it does so depends on the machine's load, and on the tests before.

    Autovacuum locks a table before it writes the table's statistics. The other order here would be a deadlock.
    """
    own = "SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')"
    with connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(connection.introspection.table_names())} IN SHARE UPDATE EXCLUSIVE MODE")
        cursor.execute(f"DELETE FROM pg_statistic WHERE starelid IN ({own})")
        cursor.execute(f"UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0 WHERE oid IN ({own})")


# -- the calls of each module ----------------------------------------------------------------------------------


def new_run() -> WorkflowRun:
    made = WorkflowRun(flow="made", action="make", queue="conductor.cell1", project_id="b" * 32, user_id="a" * 32)
    made.instance_uuid = uuid.uuid4()
    made.request_id = "req-1"
    return made


def call_journal(connection: BaseDatabaseWrapper) -> None:
    made = new_run()
    journal.create_runs(connection, [made])
    pk, resources = made.pk, ["thing:1", "thing:2"]
    here = journal.next_step_if_due(connection, made.uuid)
    assert here is not None
    journal.others_due_at(connection, here, made.uuid, 5)
    claimed = journal.claim(connection, made.uuid, "worker", 60.0)
    assert claimed is not None
    journal.fence(connection, pk, claimed.fencing_token)
    journal.fence_in_other_database(connection, made.uuid, claimed.fencing_token)
    journal.save_run(connection, pk, {"variables": {}, "wake_at": SecondsFromNow(60.0)})
    record = SimpleNamespace(
        run_id=pk,
        index=0,
        direction="do",
        attempt=1,
        try_number=1,
        name="Plug",
        worker="worker",
        step_key="key-1",
        fencing_token=1,
        state=StepState.RUNNING.value,
        host="sim-1",
        result={},
    )
    journal.open_steps(connection, [journal.step_row(record)])
    ended = SimpleNamespace(**{**vars(record), "step_key": "key-2", "index": 1})
    journal.open_ended_steps(connection, [ended])
    journal.last_failure(connection, pk, 1)
    row = ("wf:1", "step.done", made.uuid.hex, None, "b" * 32, "{}")
    journal.append_events(connection, [row])
    journal.append_events(connection, [row] * (journal.MOST_EVENTS + 1))
    journal.events_after(connection, 0, 10, 5)
    _call_locks(connection, pk, resources)
    _call_commands(connection, made, record.step_key)
    _call_transitions(connection, claimed, SimpleNamespace(**{**vars(record), "step_key": "key-3", "index": 2}), row)
    journal.close_step(connection, record.step_key, StepState.DONE, {"result": {}})
    journal.runs_due(connection, 5.0, 10)
    journal.has_commands_due(connection)
    journal.has_foreign_locks(connection, "cell1")
    journal.GRANTS.run(connection, [(pk, "worker", "claim")])


def _call_locks(connection: BaseDatabaseWrapper, pk: int, resources: list[str]) -> None:
    journal.take_locks(connection, [(resource, pk) for resource in resources])
    journal.is_any_held(connection, resources)
    journal.is_any_waiting(connection)
    journal.waiting_for(connection, resources)
    journal.queued_for(connection, pk)
    journal.is_taken_for(connection, pk, resources)
    journal.is_held_by_other(connection, resources[0], pk)
    journal.runs_in_queues(connection)
    journal.drop_locks(connection, pk)
    journal.leave_queues(connection, pk)


def _call_commands(connection: BaseDatabaseWrapper, run: WorkflowRun, step_key: str) -> None:
    command = SimpleNamespace(step_key=step_key, host="sim-1")
    body = {"body": {"instance_uuid": str(run.instance_uuid)}}
    journal.add_command(connection, run.uuid, command, queue="compute", body=body, is_deferred=True)
    journal.hosts_of_step(connection, step_key)
    journal.has_deferred(connection, "sim-1", str(run.instance_uuid))
    journal.has_command(connection, "sim-1", str(run.instance_uuid))
    journal.drop_command(connection, step_key)
    record = journal.RECORDS_BY_KEY.get(connection, step_key)
    journal.RECORDS.update(connection, record.pk, state=StepState.WAITING)
    assert journal.keep_answer(connection, run.uuid, step_key, {"ok": True})


def _call_transitions(connection: BaseDatabaseWrapper, run: WorkflowRun, record: Any, event: tuple[Any, ...]) -> None:
    made = journal.Transition(
        run=journal.change_of_run(run.pk, run.fencing_token, {"position": 1}),
        closed=journal.end_of_step("key-2", StepState.DONE, {"result": {}}),
        opened=journal.step_row(record),
        events=[event],
    )
    if connection.vendor == "postgresql":
        assert journal.write_transition(connection, made)
        journal.settled_number(connection)
        return
    last = journal.Transition(run=made.run, closed=made.closed, opened=None, events=[event], frees_locks_of=run.pk)
    journal.write_transitions(connection, [made, last])
    assert made.is_written
    assert last.is_written


def call_cell_db(connection: BaseDatabaseWrapper) -> None:
    cell_db.has_reported_since(connection, "sim-1", 60.0)
    cell_db.is_forced_down(connection, "sim-1")
    cell_db.lock_service(connection, "sim-1")
    cell_db.repeat_report(connection, "sim-1", 1, 60.0, "d" * 60)
    cell_db.repeat_reports(connection, [("sim-1", 1, "d" * 60)], 60.0)
    cell_db.store_compared(connection, [("sim-1", 1, "d" * 60)])
    cell_db.lock_same_state(connection, "sim-1", 1, 60.0, "d" * cell_db.STATE_DIGEST_LENGTH)
    cell_db.set_running_guests(connection, "sim-1", "node-1", 1)
    cell_db.has_evacuated(connection, "sim-1")
    list(cell_db.node_reports(connection))
    list(cell_db.node_reports(connection, 1))
    instance = uuid.uuid4()
    cell_db.project_of_guest(connection, instance, "sim-1")
    cell_db.lock_console_log(connection, instance)
    cell_db.save_console_log(connection, instance, "sim-1", 0, "booted")


def call_network(connection: BaseDatabaseWrapper) -> None:
    now = timezone.now()
    inner = Network.objects.create(name="inner", project_id=ANA.project_id, created_at=now, updated_at=now)
    pk = Subnet.objects.create(network=inner, cidr="10.0.0.0/28", created_at=now, updated_at=now).pk
    instance = str(uuid.uuid4())
    network.table_states(connection, ["network_port"], ["network_addressallocation"])
    network.has_plugged_ports(connection, instance)
    network.ports_made_for(connection, instance)
    network.near_addresses(connection, pk, "0", "0", None)
    network.near_addresses(connection, pk, "0", "0", ANA.project_id)
    network.held_addresses(connection, pk, "0")
    network.freed_addresses(connection, pk, "0")
    network.raise_lowest_gap(connection, pk, 0, "1")
    network.forget_freed(connection, pk, 0, [("1", "2"), ("4", "5")])
    network.has_floating_ips(connection, [1, 2])
    network.delete_ports(connection, [1, 2])


def _fill_placement(connection: BaseDatabaseWrapper) -> None:
    """Create providers and allocations, of which few have changed of late: the planner goes by statistics."""
    providers = ResourceProvider.objects.bulk_create(
        ResourceProvider(name=f"provider-{number}", change_number=number) for number in range(MANY)
    )
    ResourceProvider.objects.update(root=F("id"))
    ProviderInventory.objects.bulk_create(
        ProviderInventory(provider=one, resource_class="MEMORY_MB", total=1, used=1) for one in providers
    )
    ProviderAggregate.objects.bulk_create(
        ProviderAggregate(provider=one, aggregate_uuid=uuid.uuid4()) for one in providers
    )
    consumers = Consumer.objects.bulk_create(
        Consumer(uuid=uuid.uuid4(), project_id=ANA.project_id, user_id=ANA.user_id) for _ in providers
    )
    Allocation.objects.bulk_create(
        Allocation(consumer=consumer, provider=one, resource_class="MEMORY_MB", amount=1)
        for consumer, one in zip(consumers, providers, strict=True)
    )
    HardwareClaim.objects.bulk_create(
        HardwareClaim(consumer=consumer, provider=one, grant={})
        for consumer, one in zip(consumers, providers, strict=True)
    )
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def call_placement(connection: BaseDatabaseWrapper) -> None:
    _fill_placement(connection)
    provider, consumer = uuid.uuid4().hex, uuid.uuid4().hex
    owners = [(consumer, ANA.project_id, ANA.user_id, "INSTANCE")]
    placement.next_change_number(connection)
    placement.touch_providers(connection, [1, 2], 1, 1)
    placement.use_inventories(connection, [(1, 1, "VCPU", 1, 1, 1, 1)])
    if connection.vendor == "postgresql":
        uses = [(provider, "VCPU", 1, 1, 1, 1)]
        placement.claim(connection, [provider], uses, owners, [(consumer, provider, "VCPU", 1)])
    else:
        placement.provider_ids(connection, [provider])
        placement.create_consumers(connection, owners)
        placement.touch_listed_providers(connection, [1, 2], 1)
    placement.insert_each_allocation(connection, [(1, 1, "VCPU", 1)])
    placement.insert_allocations(connection, [(2, 1, "VCPU", 1), (3, 1, "VCPU", 1)])
    placement.lock_consumers(connection, [consumer])
    placement.lock_providers_of(connection, [1])
    placement.give_back(connection, [1])
    placement.delete_consumers(connection, [1, 2, 3])
    placement.hardware_of(connection, consumer)
    readings = placement.ProviderReading
    for reading in (readings.all(connection), readings.one(connection, 1), readings.changed(connection, MANY - 10)):
        for rows in (reading.providers, reading.nested, reading.inventories, reading.aggregates, reading.num_consumers):
            list(rows())


def call_identity(connection: BaseDatabaseWrapper) -> None:
    identity.rights_version(connection, 1)
    identity.unexpired_sessions(connection, ["k" * 32, "l" * 32], timezone.now())


CALLS: Mapping[ModuleType, tuple[str, Callable[[BaseDatabaseWrapper], None]]] = {
    journal: ("cell1", call_journal),
    cell_db: ("cell1", call_cell_db),
    network: ("default", call_network),
    placement: ("default", call_placement),
    identity: ("default", call_identity),
}


@pytest.mark.parametrize("module", CALLS, ids=lambda module: module.__name__.split(".")[1])
def test_no_statement_reads_a_growing_table_whole(module: ModuleType) -> None:
    alias, call = CALLS[module]
    connection = connections[alias]
    with transaction.atomic(using=alias):
        if connection.vendor == "postgresql":
            forget_statistics(connection)
        with recorded(module) as recording:
            call(connection)
        scans = {
            text: found
            for text, params in recording.statements.items()
            if (found := full_scans(connection, text, params))
        }
        transaction.set_rollback(True, using=alias)
    allowed = {text: SMALL.keys() | (WHOLE if text in recording.whole else set()) for text in scans}
    assert {text: found - allowed[text] for text, found in scans.items() if found - allowed[text]} == {}
    others = ONLY_ON["sqlite" if connection.vendor == "postgresql" else "postgresql"]
    missed = [
        f"{function}:{node.lineno}"
        for function, node in places(module)
        if not any((module.__name__, line) in recording.lines for line in range(node.lineno, node.end_lineno + 1))
        and function not in others
    ]
    assert missed == [], "call these here, too"


def test_the_plans_are_the_same_after_an_analysis_of_empty_tables() -> None:
    for module, (alias, _) in CALLS.items():
        if connections[alias].vendor == "postgresql":
            with connections[alias].cursor() as cursor:
                cursor.execute("VACUUM ANALYZE")
        test_no_statement_reads_a_growing_table_whole(module)


def test_every_module_of_statements_is_called() -> None:
    there = {path.parts[1] for path in own_files(".py") if path.name == "statements.py" and path.parts[0] in PACKAGES}
    assert there == {module.__name__.split(".")[1] for module in CALLS}


# -- single rows ----------------------------------------------------------------------------------------------


def all_rows() -> Iterator[tuple[str, Rows[Any]]]:
    """Yield each `Rows` of the product, with the module and name of it."""
    for path in own_files(".py"):
        if path.parts[0] in PACKAGES and "Rows(" in read(path):
            for node in parsed(path).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Rows("):
                    module = ".".join(path.with_suffix("").parts)
                    name = ast.unparse(node.targets[0])
                    yield f"{module}.{name}", getattr(importlib.import_module(module), name)


def _value(column: Field[Any, Any]) -> Any:
    column = getattr(column, "target_field", column)
    return uuid.uuid4() if isinstance(column, UUIDField) else 1 if isinstance(column, IntegerField) else "some"


def test_single_rows_are_found_by_an_index() -> None:
    found = dict(all_rows())
    assert len(found) > 15
    bad: dict[str, set[str]] = {}
    for name, rows in found.items():
        alias = "cell1" if rows._model._meta.app_label in ("cell_db", "journal") else "default"
        values = [_value(rows._field(key)) for key in rows._keys]
        with transaction.atomic(using=alias), recorded() as recording:
            rows.all(connections[alias], *values)
            ((text, params),) = recording.statements.items()
            if scans := full_scans(connections[alias], text, params):
                bad[name] = scans
    assert bad == {}
