"""Notifications from the event log to real sinks: a web server in a thread, and a RabbitMQ of the test's own."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from django.db import connections

from conductor.actors import periodic
from conductor.core.server_actions import ACTIONS
from conductor.db.transactions import database_now
from conductor.journal.models import Event, NotificationDelivery, NotificationPlace
from conductor.services.notifications import dispatcher, event_types, sinks
from conductor.services.notifications.sinks import ExchangeSink, Webhook
from tests.counting import Captured
from tests.integration.interventions import ALIAS, DIARY, Noted, go, order, start
from tests.integration.receivers import PASSWORD, Receiver
from tests.services import rabbitmq
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
SECRET = "a-secret-of-more-than-32-characters"


@pytest.fixture
def hook(receiver: Receiver, flow: Any, monkeypatch: pytest.MonkeyPatch) -> Webhook:
    """A webhook that was there before anything happens."""
    monkeypatch.setitem(event_types.BY_ACTION, "make", "instance.make")  # type: ignore[arg-type]
    made = Webhook(receiver.url, SECRET)
    dispatcher.dispatch(ALIAS, made, "teller-1")
    flow(Noted("one"))
    return made


def retry_now() -> None:
    NotificationPlace.objects.using(ALIAS).update(retry_at=database_now())


def test_start_and_end_are_delivered_in_order_and_signed(hook: Webhook, receiver: Receiver) -> None:
    began_at = int(time.time())
    run = start(secrets={"password": PASSWORD}, inputs={"user_data": PASSWORD})
    go(run)
    dispatcher.dispatch_all([ALIAS], hook, "teller-1")
    ended_at = int(time.time())
    assert receiver.types == ["instance.make.start", "instance.make.end"]
    headers, body = receiver.got[-1]
    sent_at, signature = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["Novella-Signature"]).groups()  # type: ignore[union-attr]
    expected = hmac.new(SECRET.encode(), sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(signature, expected)
    assert began_at <= int(sent_at) <= ended_at
    message = json.loads(body)
    assert message["message_id"] == headers["Novella-Message"]
    assert (message["priority"], message["payload"]["version"]) == ("INFO", "1.0")
    assert message["payload"]["data"]["workflow"]["uuid"] == str(run.uuid)
    assert message["payload"]["data"]["request_id"] == "req-1"
    assert PASSWORD.encode() not in b"".join(got for _, got in receiver.got)


def test_nothing_is_reported_twice_and_idle_drivers_write_nothing(hook: Webhook, receiver: Receiver) -> None:
    go(start())
    for _ in range(3):
        dispatcher.dispatch_all([ALIAS], hook, "teller-1")
    assert len(receiver.got) == 2
    with Captured(connections[ALIAS]) as requested:
        dispatcher.dispatch(ALIAS, hook, "teller-1")
    assert 0 < len(requested.captured_queries) < 6
    assert [query["sql"] for query in requested.captured_queries if not query["sql"].startswith("SELECT")] == []


def test_a_failure_is_notified_as_an_error_and_an_intervention_too(hook: Webhook, receiver: Receiver) -> None:
    DIARY.failures["do one"] = 1
    run = start()
    go(run)
    order(run, "retry", step="one", reason="mended")
    go(run)
    dispatcher.dispatch_all([ALIAS], hook, "teller-1")
    assert receiver.types == [
        "instance.make.start",
        "instance.make.error",
        "workflow.intervention",
        "instance.make.end",
    ]
    failed, ordered = (json.loads(body)["payload"]["data"] for _, body in receiver.got[1:3])
    assert failed["fault"] == {"class": "RuntimeError", "message": "RuntimeError"}
    assert ordered["intervention"] == {"intervention": "retry", "by": "ana", "reason": "mended", "step": "one"}


def test_a_sink_that_fails_goes_on_where_it_stopped(hook: Webhook, receiver: Receiver) -> None:
    receiver.answers = [200, 500, 302]
    go(start())
    go(start())
    dispatcher.dispatch_all([ALIAS], hook, "teller-1")
    place = NotificationPlace.objects.using(ALIAS).get()
    assert (place.failures, place.last_error, place.owner) == (1, "answered 500", None)
    dispatcher.dispatch_all([ALIAS], hook, "teller-1")  # it is left alone for a while
    assert len(receiver.got) == 2
    retry_now()
    dispatcher.dispatch_all([ALIAS], hook, "teller-1")  # 302: not followed
    retry_now()
    dispatcher.dispatch_all([ALIAS], hook, "teller-1")
    taken = [headers["Novella-Message"] for headers, _ in receiver.got]
    assert taken[1] == taken[2] == taken[3], "the same message under the same id"
    assert [name.rpartition(".")[2] for name in receiver.types] == ["start", "end", "end", "end", "start", "end"]
    outcomes = NotificationDelivery.objects.using(ALIAS).order_by("pk").values_list("outcome", flat=True)
    assert list(outcomes) == ["delivered", "failed", "failed", "delivered", "delivered", "delivered"]
    assert NotificationPlace.objects.using(ALIAS).get().failures == 0


def test_the_pause_grows_and_has_an_end(hook: Webhook, receiver: Receiver) -> None:
    receiver.answers = [500] * 12
    go(start())
    pauses = []
    for _ in range(11):
        retry_now()
        dispatcher.dispatch(ALIAS, hook, "teller-1")
        place = NotificationPlace.objects.using(ALIAS).annotate(at=database_now()).get()
        pauses.append(round((place.retry_at - place.at).total_seconds()))
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_a_dead_sink_blocks_no_other(hook: Webhook, receiver: Receiver) -> None:
    gone = Receiver()
    dead = Webhook(gone.url, SECRET)
    dispatcher.dispatch(ALIAS, dead, "teller-1")
    gone.stop()
    go(start())
    for sink in (dead, hook):
        dispatcher.dispatch_all([ALIAS], sink, "teller-1")
    assert receiver.types == ["instance.make.start", "instance.make.end"]
    failed = NotificationPlace.objects.using(ALIAS).get(sink=dead.name)
    assert (failed.failures, failed.last_error) == (1, "ConnectionRefusedError")


def test_one_conductor_delivers_notifications_and_a_dead_one_is_replaced(hook: Webhook, receiver: Receiver) -> None:
    go(start())
    places = NotificationPlace.objects.using(ALIAS)
    places.update(owner="teller-1", lease_expires_at=database_now(30))
    assert dispatcher.dispatch(ALIAS, hook, "teller-2") == 0
    assert receiver.got == []
    places.update(lease_expires_at=database_now(-1))
    assert dispatcher.dispatch(ALIAS, hook, "teller-2") == 2
    assert len(receiver.got) == 2


def test_a_conductor_that_lost_its_lease_stops_delivering(hook: Webhook, receiver: Receiver, monkeypatch: Any) -> None:
    go(start())
    whole = dispatcher._deliver

    def slow(alias: str, place: Any, send: Any, message: Any) -> None:
        NotificationPlace.objects.using(ALIAS).update(owner="teller-2", lease_expires_at=database_now(30))
        whole(alias, place, send, message)

    monkeypatch.setattr(dispatcher, "_deliver", slow)
    dispatcher.dispatch(ALIAS, hook, "teller-1")
    place = NotificationPlace.objects.using(ALIAS).get()
    assert (len(receiver.got), place.owner) == (1, "teller-2")
    assert Event.objects.using(ALIAS).filter(pk__gt=place.reached, kind="run.started").exists(), "it comes again"


def test_a_new_sink_gets_only_later_events(receiver: Receiver, flow: Any, monkeypatch: Any) -> None:
    monkeypatch.setitem(event_types.BY_ACTION, "make", "instance.make")
    flow(Noted("one"))
    go(start())
    late = Webhook(receiver.url, SECRET)
    dispatcher.dispatch_all([ALIAS], late, "teller-1")
    assert receiver.got == []
    go(start())
    dispatcher.dispatch_all([ALIAS], late, "teller-1")
    assert len(receiver.got) == 2


def test_no_name_or_log_holds_the_address(hook: Webhook, receiver: Receiver, caplog: Any) -> None:
    receiver.answers = [500]
    go(start())
    dispatcher.dispatch(ALIAS, hook, "teller-1")
    rows = [*NotificationPlace.objects.using(ALIAS).values(), *NotificationDelivery.objects.using(ALIAS).values()]
    for shown in (hook.name, repr(hook), caplog.text, repr(rows)):
        assert PASSWORD not in shown
        assert SECRET not in shown


def test_conductors_report_what_the_settings_name(
    receiver: Receiver, flow: Any, settings: Any, monkeypatch: Any
) -> None:
    monkeypatch.setitem(event_types.BY_ACTION, "make", "instance.make")
    monkeypatch.setattr(periodic, "NOTIFY_EVERY_SECONDS", 0.05)
    settings.NOVELLA_NOTIFICATION_WEBHOOKS = (receiver.url,)
    settings.NOVELLA_NOTIFICATION_SECRET = SECRET
    tickers = periodic.notification_tickers((ALIAS,), "conductor-1")
    for ticker in tickers:
        ticker.start()
    try:
        wait_until("the place is kept", lambda: NotificationPlace.objects.using(ALIAS).exists())
        flow(Noted("one"))
        go(start())
        wait_until("both are sent", lambda: len(receiver.got) == 2)
    finally:
        for ticker in tickers:
            ticker.stop()


def test_every_action_has_its_name_and_every_name_is_on_the_page() -> None:
    assert set(ACTIONS) <= set(event_types.BY_ACTION)
    folder = Path(__file__).parents[3] / "docs" / "reference"
    text = (folder / "notifications.md").read_text().partition("## Event types")[2] + (
        folder / "event-types.md"
    ).read_text()
    documented = set(re.findall(r"`([a-z_]+\.[a-z_]+(?:\.(?:start|end|error))?)`", text))
    assert documented == set(event_types.every_event_type())


def test_a_handover_is_logged_only_when_it_fails() -> None:
    reported = event_types.event_type_of
    assert reported("build_instances", "create", "run.started", "") is None
    assert reported("build_instances", "create", "run.ended", "done") is None
    assert reported("build_instances", "create", "run.ended", "failed (undone)") == "compute_task.build_instances.error"
    assert reported("build_in_cell", "create", "run.ended", "cancelled") == "instance.create.error"
    assert reported("reap", "reap", "run.ended", "done") is None


# -- RabbitMQ -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rabbitmq.Service]:
    service = rabbitmq.start(tmp_path_factory.mktemp("rabbitmq"))
    yield service
    service.stop()


def test_rabbitmq_gets_them_by_topic_and_again_after_it_was_away(
    broker: rabbitmq.Service, flow: Any, monkeypatch: Any
) -> None:
    monkeypatch.setitem(event_types.BY_ACTION, "make", "instance.make")
    flow(Noted("one"))
    sink = ExchangeSink(broker.url)
    dispatcher.dispatch(ALIAS, sink, "teller-1")
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.exchange_declare(sinks.EXCHANGE, exchange_type="topic", durable=True)
    channel.queue_declare("ends", durable=True)
    channel.queue_bind("ends", sinks.EXCHANGE, "instance.*.end")
    connection.close()
    first = go(start())
    dispatcher.dispatch_all([ALIAS], sink, "teller-1")
    broker.kill()
    second = go(start())
    dispatcher.dispatch_all([ALIAS], sink, "teller-1")
    assert NotificationPlace.objects.using(ALIAS).get().failures == 1
    broker.restart()
    retry_now()
    dispatcher.dispatch_all([ALIAS], sink, "teller-1")
    assert reported_uuids(broker) == [str(first.uuid), str(second.uuid)]


def reported_uuids(broker: rabbitmq.Service) -> list[str]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel, found = connection.channel(), []
    while True:
        method, properties, body = channel.basic_get("ends", auto_ack=True)
        if method is None:
            connection.close()
            return found
        message = json.loads(body)
        assert (method.routing_key, properties.message_id) == (message["event_type"], message["message_id"])
        found.append(message["payload"]["data"]["workflow"]["uuid"])
