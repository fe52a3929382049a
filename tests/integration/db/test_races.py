"""Concurrent changes of one row: exactly one wins, none waits for ever, no reader misses any. On every database."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from django.db import connections

from conductor import events
from conductor.api_db.models import InstanceGroup, InstanceMapping, KeyPair, Quota
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, QuotaExceeded, ResourceLocked
from conductor.core.states import LIVE_RUN_STATES, RunState
from conductor.db.transactions import one_at_a_time, retried, write_tx
from conductor.image import snapshots
from conductor.image.models import Image
from conductor.journal.models import LockWait, ResourceLock, WorkflowRun
from conductor.rpc import outbox
from conductor.services.servers import groups as server_groups
from conductor.services.servers import instances, keypairs
from conductor.services.servers.types import InstanceCreate
from conductor.services.workflows import event_log
from conductor.workflows.engine import leases
from tests import factories
from tests.compute_rows import make_cloud
from tests.fixtures.races import at_once
from tests.people import People
from tests.waiting import WAIT_SECONDS, take_time, wait_until

CELL = "cell1"


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """`work` runs beside the block, and ends when the event that it gets is set."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: (work(done), connections.close_all()))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


def new_run(context: RequestContext, *resources: str) -> outbox.NewRun:
    return outbox.NewRun(flow="build_in_cell", action="reboot", context=context, resources=resources)


@retried
def open_run(context: RequestContext, *resources: str, may_wait: bool = False) -> WorkflowRun:
    with write_tx(CELL):
        return outbox.open_run(CELL, new_run(context, *resources), may_wait=may_wait)


@retried
def end(run: WorkflowRun) -> None:
    """End a run like the engine: the run's row first, then its locks."""
    with write_tx(CELL):
        outbox.hold(CELL, pk=run.pk)
        WorkflowRun.objects.using(CELL).filter(pk=run.pk).update(state=RunState.DONE)
        outbox.close_run(CELL, run)


@pytest.mark.parametrize("round_number", range(5))
def test_of_two_equal_concurrent_requests_one_wins(people: People, round_number: int) -> None:
    context = people.ana.context()
    resource = f"instance:{uuid4()}"
    results = at_once(8, lambda number: open_run(context, resource, f"port:{number}"))
    won = [result for result in results if isinstance(result, WorkflowRun)]
    assert len(won) == 1, results
    lost = [result for result in results if not isinstance(result, WorkflowRun)]
    assert {type(error) for error in lost} == {ResourceLocked}, lost
    assert {error.details["holder"] for error in lost} == {str(won[0].uuid)}
    assert {error.details["resource"] for error in lost} == {resource}
    assert list(WorkflowRun.objects.using(CELL).values_list("pk", flat=True)) == [won[0].pk]
    held = set(ResourceLock.objects.using(CELL).values_list("resource", "run_id"))
    assert held == {(resource, won[0].pk), (f"port:{results.index(won[0])}", won[0].pk)}


def test_overlapping_lock_sets_are_acquired_completely_or_not_at_all(people: People) -> None:
    context = people.ana.context()
    names = [f"port:{number}" for number in range(6)]

    def take(number: int) -> WorkflowRun:
        chosen = random.Random(number).sample(names, 3)
        return open_run(context, *chosen)

    results = at_once(12, take)
    won = {result.pk: result for result in results if isinstance(result, WorkflowRun)}
    assert won
    assert {type(result) for result in results} <= {WorkflowRun, ResourceLocked}, results
    for pk, run in won.items():
        held = ResourceLock.objects.using(CELL).filter(run_id=pk).values_list("resource", flat=True)
        assert sorted(held) == sorted(run.resources or [])
    assert WorkflowRun.objects.using(CELL).count() == len(won)


def test_every_run_that_waits_for_locks_is_woken(people: People) -> None:
    """Runs register as waiters while holders end; each wants two of three resources, and ends once it has them."""
    context = people.ana.context()
    names = ["host:a", "host:b", "host:c"]

    def come_and_go(number: int) -> None:
        run = open_run(context, *random.Random(number).sample(names, 2), may_wait=True)
        held = ResourceLock.objects.using(CELL).filter(run=run)
        wait_until(f"both locks: {run.resources}", lambda: held.count() == 2, pause=0.002)
        row = WorkflowRun.objects.using(CELL).get(pk=run.pk)
        assert row.waits_for is None
        end(row)

    def sweep(done: threading.Event) -> None:
        while not done.wait(0.5):
            outbox.hand_over_locks(CELL)

    with meanwhile(sweep):
        results = at_once(16, come_and_go)
    assert results == [None] * 16
    assert ResourceLock.objects.using(CELL).count() == LockWait.objects.using(CELL).count() == 0
    assert not WorkflowRun.objects.using(CELL).filter(state__in=LIVE_RUN_STATES).exists()


def test_sixteen_launches_never_exceed_a_quota(people: People) -> None:
    cloud = make_cloud(people)
    ana = people.ana.context()
    Quota.objects.create(project_id=ana.project_id, resource="instances", limit=11)
    requested = InstanceCreate(name="web", flavor_ref="1", image_ref=str(cloud.image.uuid), min_count=2, max_count=2)
    results = at_once(16, lambda number: instances.create(ana, requested))
    refused = [result for result in results if isinstance(result, Exception)]
    assert {type(error) for error in refused} == {QuotaExceeded}, refused
    assert len(refused) == 11
    assert InstanceMapping.objects.count() == 10
    assert WorkflowRun.objects.using("default").count() == 5


def test_counted_things_never_exceed_their_limit(people: People) -> None:
    ana = people.ana.context()
    for resource in ("server_groups", "key_pairs"):
        Quota.objects.create(project_id=ana.project_id, resource=resource, limit=3)
    groups = at_once(8, lambda number: server_groups.create(ana, f"group-{number}", "affinity", {}))
    pairs = at_once(8, lambda number: keypairs.generate(ana, ana.user_id, f"key-{number}"))
    for results in (groups, pairs):
        refused = [result for result in results if isinstance(result, Exception)]
        assert ({type(error) for error in refused}, len(refused)) == ({QuotaExceeded}, 5), results
    assert (InstanceGroup.objects.count(), KeyPair.objects.count()) == (3, 3)


def test_a_name_is_given_once(people: People) -> None:
    ana = people.ana.context()
    results = at_once(8, lambda number: keypairs.generate(ana, ana.user_id, "laptop"))
    refused = [result for result in results if isinstance(result, Exception)]
    assert ({type(error) for error in refused}, len(refused)) == ({Conflict}, 7), results
    assert KeyPair.objects.count() == 1


@pytest.mark.parametrize("round_number", range(4))
def test_the_image_of_a_server_is_made_once_by_caller_and_workflow(people: People, round_number: int) -> None:
    image_id, project_id = uuid4(), people.ana.context().project_id
    assert at_once(4, lambda _: snapshots.reserve(image_id, project_id, {"name": "copy"})) == [None] * 4
    assert Image.objects.get(uuid=image_id).name == "copy"


def test_the_same_launch_from_many_is_one_launch(people: People) -> None:
    cloud = make_cloud(people)
    ana = people.ana.context()
    requested = InstanceCreate(name="web", flavor_ref="1", image_ref=str(cloud.image.uuid), run_uuid=str(uuid4()))
    results = at_once(8, lambda number: instances.create(ana, requested))
    assert len({result.run_uuid for result in results}) == 1, results
    assert InstanceMapping.objects.count() == 1


def test_one_instance_is_deleted_by_one_workflow(people: People) -> None:
    factories.cells()
    ana = people.ana.context()
    instance = factories.instance(ana, "web")
    results = at_once(8, lambda number: instances.delete(ana, str(instance.uuid)))
    assert results == [None] * 8
    assert WorkflowRun.objects.using(CELL).filter(flow="delete_instance").count() == 1


@pytest.mark.parametrize("round_number", range(3))
def test_a_run_of_a_dead_owner_is_claimed_at_the_first_notification_however_many_notice(
    people: People, round_number: int
) -> None:
    run = open_run(people.ana.context(), f"instance:{uuid4()}")
    assert leases.claim(CELL, run.uuid) is not None
    WorkflowRun.objects.using(CELL).update(owner="rack-1:7:dddddddd")

    def notice(number: int) -> bool:
        with write_tx(CELL):
            freed = leases.expire_leases_of(CELL, "dddddddd")
            if not freed:
                take_time(0.05)  # its transaction is still open when the notification arrives
        return bool(freed) and leases.claim(CELL, run.uuid) is not None

    assert sorted(at_once(6, notice)) == [False] * 5 + [True]


def test_readers_of_the_log_miss_no_event_and_get_the_events_of_a_resource_in_order(people: People) -> None:
    """Eight writers whose commits overtake each other; a reader that goes on from its cursor all the while."""
    writers, rounds = 8, 25
    topics = [f"server:{uuid4()}" for _ in range(3)]
    seen: list[tuple[str, str]] = []
    start = event_log.here()

    def read(done: threading.Event) -> None:
        cursor, is_last = start, False
        while True:
            found, cursor = event_log.after(cursor, 40)
            seen.extend((event.topic, event.kind) for event in found)
            if is_last and not found:
                return
            is_last = done.is_set()

    counts = dict.fromkeys(topics, 0)

    def write(number: int) -> None:
        dice = random.Random(number)
        for turn in range(rounds):
            topic = dice.choice(topics)
            with write_tx(CELL):
                events.append(CELL, events.EventSubject(f"host:{number}"), f"alone.{turn}")  # its transaction has begun
                take_time(dice.uniform(0, 0.003))
                one_at_a_time(CELL, topic)  # changes of a resource hold it
                counts[topic] += 1
                events.append(CELL, events.EventSubject(topic), f"{counts[topic]}")
                take_time(dice.uniform(0, 0.003))

    with meanwhile(read):
        assert at_once(writers, write) == [None] * writers
    assert len(seen) == len(set(seen)) == writers * rounds * 2
    for number in range(writers):
        assert [kind for topic, kind in seen if topic == f"host:{number}"] == [
            f"alone.{turn}" for turn in range(rounds)
        ]
    for topic in topics:
        numbers = [int(kind) for place, kind in seen if place == topic]
        assert numbers == list(range(1, counts[topic] + 1))
