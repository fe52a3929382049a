"""Messages as notifications, on every broker: duplicates, losses and delays change nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import dramatiq
import pytest
from pika.exceptions import ChannelClosedByBroker

from conductor.actors import conductor as actors
from conductor.core.context import RequestContext
from conductor.core.states import RunState
from conductor.db.transactions import write_tx
from conductor.journal.models import WorkflowRun
from conductor.rpc import broker, outbox, trust
from conductor.workflows import catalog
from conductor.workflows.engine import recovery
from conductor.workflows.flow import Flow, Result, Step, StepContext
from tests import keys
from tests.waiting import WAIT_SECONDS, assert_stays, wait_until

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

ALIAS, QUEUE = "cell1", "conductor.cell1"
ANA = RequestContext(user_id="a" * 32, project_id="b" * 32, request_id="req-1", roles=frozenset({"member"}))
KINDS = ("memory", "redis", "rabbitmq")
APART = ("redis", "rabbitmq")
STOP_MILLISECONDS = int(WAIT_SECONDS * 1000)


class Counted(Step):
    """Counts how often it was done."""

    title = "counted"
    times = 0

    def execute(self, work: StepContext) -> Result:
        Counted.times += 1
        return {}


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Any:
    """The server of the broker that the test's parameter names; None for the one in memory."""
    kind = request.param
    return None if kind == "memory" else request.getfixturevalue(f"{kind}_service")


@pytest.fixture
def carrier(service: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[dramatiq.Broker]:
    """The product's actors on a broker of this kind, with empty queues."""
    monkeypatch.setattr(broker, "outage", broker.Outage())
    made, sender = broker.make("" if service is None else service.url)
    monkeypatch.setattr(broker, "transport", lambda: broker.Transport(made, sender))
    for actor in (actors.conductor_notified, actors.conductor_message):
        dramatiq.actor(actor.fn, actor_name=actor.actor_name, queue_name=QUEUE, broker=made)
    made.flush_all()
    yield made
    sender.close()
    made.close()


@pytest.fixture
def worker(carrier: dramatiq.Broker) -> Iterator[dramatiq.Worker]:
    started = broker.make_worker([QUEUE], threads=4, prefetch=4)
    started.start()
    yield started
    started.stop(timeout=STOP_MILLISECONDS)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[], WorkflowRun]:
    """Open a run of one counted step; its own notification is lost."""
    made = Flow("made", 1, (Counted(),))
    monkeypatch.setitem(catalog._by_version, ("made", 1), made)
    Counted.times = 0

    def open_one() -> WorkflowRun:
        with pytest.MonkeyPatch.context() as deaf:
            deaf.setattr(broker, "notify_conductor", lambda queue, body: None)
            with write_tx(ALIAS):
                wanted = outbox.NewRun(flow="made", action="made", context=ANA, resources=[f"instance:{uuid4()}"])
                return outbox.open_run(ALIAS, wanted)

    return open_one


def notify(run: WorkflowRun) -> None:
    broker.notify_conductor(QUEUE, {"alias": ALIAS, "run_uuid": str(run.uuid)})


def is_done(run: WorkflowRun) -> bool:
    return WorkflowRun.objects.using(ALIAS).get(pk=run.pk).state == RunState.DONE


@pytest.mark.parametrize("service", KINDS, indirect=True)
def test_repeated_notifications_do_the_work_once(run: Any, worker: dramatiq.Worker) -> None:
    opened = run()
    for _ in range(10):
        notify(opened)
    wait_until("done", lambda: is_done(opened))
    notify(opened)  # and one that comes when all is over
    other = run()
    notify(other)
    wait_until("the other is done, so the late one was heard before", lambda: is_done(other))
    assert Counted.times == 2


@pytest.mark.parametrize("service", KINDS, indirect=True)
def test_a_lost_notification_is_sent_again_by_recovery(run: Any, worker: dramatiq.Worker) -> None:
    opened = run()
    assert_stays("it is not done", lambda: not is_done(opened), seconds=0.3)
    assert recovery.sweep(ALIAS, grace_seconds=0.0) == 1
    wait_until("done", lambda: is_done(opened))
    assert Counted.times == 1


@pytest.mark.parametrize("service", KINDS, indirect=True)
def test_notifications_before_the_first_listener_are_received(run: Any, carrier: dramatiq.Broker) -> None:
    opened = run()
    notify(opened)
    assert broker.drain(WAIT_SECONDS)
    late = broker.make_worker([QUEUE], threads=1, prefetch=1)
    late.start()
    try:
        wait_until("done", lambda: is_done(opened))
    finally:
        late.stop(timeout=STOP_MILLISECONDS)


@pytest.mark.parametrize("service", KINDS, indirect=True)
def test_a_message_of_a_newer_release_is_delivered_again(
    worker: dramatiq.Worker, carrier: dramatiq.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = threading.Semaphore(0)
    put_back = broker.put_back
    monkeypatch.setattr(broker, "PUT_BACK_MILLISECONDS", 50)
    monkeypatch.setattr(broker, "put_back", lambda: (put_back(), seen.release()))
    body = {"cell": ALIAS, "message": "from_a_newer_release", "version": "1.0", "body": {"host": "host-1"}}
    sealed = keys.serve("host-1", ALIAS).signer.seal("from_a_newer_release", QUEUE, body)
    broker._send(trust.TO_CONDUCTOR, QUEUE, sealed)
    assert all(seen.acquire(timeout=WAIT_SECONDS) for _ in range(3))
    monkeypatch.setattr(broker, "put_back", seen.release)  # let it go


@pytest.mark.parametrize("service", APART, indirect=True)
def test_a_dead_broker_delays_no_request_and_is_logged_once(
    run: Any, worker: dramatiq.Worker, service: Any, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = run(), run()
    notify(before)
    wait_until("done", lambda: is_done(before))
    service.kill()
    for _ in range(200):
        notify(after)  # raises nothing; if each of them waited, the test would not end in time
    wait_until("it is logged", lambda: "does not answer" in caplog.text)
    assert_stays("it is logged once", lambda: len(complaints(caplog)) == 1, seconds=2.0)
    service.restart()
    wait_until("it is back", lambda: "the broker answers again" in _rung(after, caplog), pause=0.1)
    wait_until("done by itself: consumers knock again", lambda: _rung(after, caplog) and is_done(after), pause=0.1)
    loud = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert complaints(caplog) == loud[:1]
    assert Counted.times == 2


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    return [line for line in lines if "does not answer" in line]


def _rung(run: WorkflowRun, caplog: pytest.LogCaptureFixture) -> str:
    notify(run)
    return caplog.text


def command(host: str) -> dict[str, Any]:
    return {"message": "power_off", "version": "1.0", "body": {"host": host}}


def heard_of(heard: list[str]) -> Callable[[dict[str, Any]], None]:
    """Return a handler that keeps to which hosts commands were sent."""
    return lambda wire: heard.append(wire["recipient"].removeprefix("host:"))


@pytest.mark.parametrize("service", APART, indirect=True)
def test_a_host_has_its_own_queue(service: Any, carrier: dramatiq.Broker, settings: Any) -> None:
    settings.NOVELLA_COMPUTE_QUEUES = "per-host"
    heard: list[str] = []
    note = heard_of(heard)
    dramatiq.actor(note, actor_name="compute_message", queue_name="x", broker=carrier)
    mine = broker.make_worker([broker.compute_queue("h1")], threads=1, prefetch=2)
    mine.start()
    try:
        for host in ("h2", "h1"):
            broker.send_to_compute(broker.compute_queue(host), command(host))
        wait_until("heard", lambda: heard)
        assert_stays("no other host's command is heard", lambda: heard == ["h1"], seconds=0.3)
    finally:
        mine.stop(timeout=STOP_MILLISECONDS)
        carrier.flush("compute.h2")


@pytest.mark.parametrize("service", APART, indirect=True)
def test_the_queue_of_a_removed_host_is_deleted_and_created_when_it_returns(
    service: Any, carrier: dramatiq.Broker, settings: Any
) -> None:
    settings.NOVELLA_COMPUTE_QUEUES = "per-host"
    heard: list[str] = []
    note = heard_of(heard)
    dramatiq.actor(note, actor_name="compute_message", queue_name="x", broker=carrier)
    queue = broker.compute_queue("h3")
    broker.send_to_compute(queue, command("too late"))
    broker.forget_host("h3")
    broker.forget_host("never-heard-of")
    assert broker.drain(WAIT_SECONDS)
    assert not is_kept(carrier, queue)
    mine = broker.make_worker([queue], threads=1, prefetch=2)
    mine.start()
    try:
        broker.forget_host("h3")  # it is up after all: its queue is taken from under it
        assert broker.drain(WAIT_SECONDS)

        def is_heard() -> bool:
            broker.send_to_compute(queue, command("in time"))
            return bool(heard)

        wait_until("heard", is_heard, pause=0.2)
        assert set(heard) == {"in time"}
    finally:
        mine.stop(timeout=STOP_MILLISECONDS)
        broker.forget_host("h3")
        broker.drain(WAIT_SECONDS)


def is_kept(carrier: Any, queue: str) -> bool:
    """Return whether the server still has anything by this name."""
    if hasattr(carrier, "client"):
        return bool(carrier.client.keys(f"{carrier.namespace}:{queue}*"))
    try:
        carrier.connection.channel().queue_declare(queue=queue, passive=True)
    except ChannelClosedByBroker:
        return False
    return True


def test_without_a_broker_all_hosts_share_a_queue(settings: Any) -> None:
    settings.NOVELLA_COMPUTE_QUEUES = "shared"
    assert broker.compute_queue("h1") == broker.compute_queue("h2") == "compute"


def test_options_in_the_broker_url_are_kept() -> None:
    shown = broker._with_defaults("amqp://u:p%40@h:1/v?heartbeat=7&x=y", {"heartbeat": "30", "socket_timeout": "3"})
    assert shown == "amqp://u:p%40@h:1/v?heartbeat=7&socket_timeout=3&x=y"
