"""Subscribers get messages from the dispatcher of all sinks: visible ones, in order, with retries, and an end."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
import threading
import uuid
from typing import Any

import pytest

from conductor.api_db.models import Notice, Subscription
from conductor.core.errors import Conflict, NotFound
from conductor.core.notification_sink import Notification, SinkFailed
from conductor.identity.models import RoleAssignment
from conductor.journal.models import Event, NotificationPlace
from conductor.services.notifications import (
    deliveries,
    event_types,
    notices,
    sinks,
    subscribers,
    subscriptions,
)
from conductor.services.notifications.sinks import Webhook
from conductor.services.notifications.subscriptions import SubscriptionRequest
from tests.compute_rows import make_cloud, make_instance
from tests.fixtures.subscribers import log_of, loop, retry_now, work_of
from tests.integration.interventions import ALIAS, DIARY
from tests.integration.receivers import Receiver
from tests.waiting import WAIT_SECONDS

__all__ = ["loop"]

pytestmark = pytest.mark.usefixtures("databases")


def subscribe(person: Any, receiver: Receiver, **requested: Any) -> tuple[str, str]:
    """Create a subscription; return its uuid and its key."""
    made = subscriptions.subscribe(
        person.context(), SubscriptionRequest(**{"name": "hook", "url": receiver.url, **requested})
    )
    return made.view.uuid, made.secret


def test_a_project_gets_signed_messages_about_its_own_resources_without_hosts(
    loop: Any, receiver: Receiver, people: Any
) -> None:
    _, secret = subscribe(people.ana, receiver)
    make_cloud(people)
    server = make_instance(people.bo.context(), ALIAS, "web-1", host="sim-1", node="sim-1")
    work_of(people.bo, server.uuid)
    work_of(people.chi)
    loop.go_round()
    loop.go_round()
    assert receiver.types == ["instance.make.start", "instance.make.end"]
    headers, body = receiver.got[-1]
    sent_at, signature = re.fullmatch(r"t=(\d+),v1=(\w+)", headers["Novella-Signature"]).groups()  # type: ignore[union-attr]
    assert signature == hmac.new(secret.encode(), sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()
    data = json.loads(body)["payload"]["data"]
    assert data["action_initiator_project"] == people.bo.project.id
    assert (data["instance"]["display_name"], data["instance"]["host"], data["instance"]["node"]) == ("web-1", "", "")
    assert b"sim-1" not in b"".join(sent for _, sent in receiver.got)


def test_a_chat_gets_a_line_that_mentions_no_user_and_gets_it_again(loop: Any, receiver: Receiver, people: Any) -> None:
    uid, secret = subscribe(people.ana, receiver, channel="chat", events=["*.end"])
    make_cloud(people)
    server = make_instance(people.ana.context(), ALIAS, "<!here> @all [x](http://x.example)")
    work_of(people.ana, server.uuid)
    loop.go_round()
    deliveries.test(people.ana.context(), uid)
    [sent] = deliveries.list_of(people.ana.context(), uid, limit=2).items[1:]
    deliveries.send_again(people.ana.context(), uid, sent.id)
    receiver.answers = [200, 404]
    loop.go_round()
    loop.go_round()
    made = "Make of &lt;!here&gt; @\u200ball [x]\u200b(http://x.example) ended (instance.make.end)"
    test = "A test: what you subscribed to arrives here (subscription.test)"
    assert sorted(json.loads(body)["text"] for _, body in receiver.got) == [test, made, made]
    assert (secret, {"Novella-Signature"} & {name for headers, _ in receiver.got for name in headers}) == ("", set())
    outcomes = [one.outcome for one in deliveries.list_of(people.ana.context(), uid).items]
    assert sorted(outcomes) == ["delivered", "delivered", "failed"]
    with pytest.raises(Conflict, match="Only webhooks have a key"):
        subscriptions.renew_secret(people.ana.context(), uid, None)


def test_unwanted_events_are_not_delivered_and_delay_no_pruning(loop: Any, receiver: Receiver, people: Any) -> None:
    make_cloud(people)
    server = make_instance(people.ana.context(), ALIAS, "web-1")
    failed, _ = subscribe(people.ana, receiver, events=["*.error"])
    one, _ = subscribe(people.ana, receiver, name="one", servers=[str(server.uuid)])
    wide, _ = subscribe(people.admin, receiver, is_cloud_wide=True, events=["instance.make.end"])
    DIARY.failures["do one"] = 1
    work_of(people.ana)
    work_of(people.chi)
    work_of(people.ana, server.uuid)
    loop.go_round()
    assert log_of(failed) == [("instance.make.error", "delivered")]
    assert log_of(one) == [("instance.make.start", "delivered"), ("instance.make.end", "delivered")]
    assert log_of(wide) == [("instance.make.end", "delivered")] * 2
    newest = Event.objects.using(ALIAS).filter(kind__in=event_types.KINDS).latest("pk").pk
    places = NotificationPlace.objects.using(ALIAS).filter(sink__startswith="subscription ")
    assert min(places.values_list("reached", flat=True)) >= newest


def test_a_subscription_whose_target_always_fails_is_turned_off_with_a_notice(
    loop: Any, receiver: Receiver, people: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(subscribers, "OFF_AFTER_FAILURES", 3)
    uid, _ = subscribe(people.ana, receiver)
    receiver.answers = [500] * 3
    work_of(people.ana)
    for _ in range(5):
        loop.go_round()
        retry_now()
    assert log_of(uid) == [("instance.make.start", "failed")] * 3
    view = subscriptions.get(people.ana.context(), uid)
    assert (view.is_enabled, view.revision) == (False, 2)
    assert view.off_reason == "3 deliveries in a row failed, the last with: answered 500"
    [notice], count = notices.of(people.ana.context())
    assert (notice.is_bad, count, "was turned off" in notice.title) == (True, 1, True)
    assert notices.of(people.bo.context())[1] == 0
    assert not NotificationPlace.objects.using(ALIAS).filter(sink__startswith="subscription ").exists()
    subscriptions.change(people.ana.context(), uid, SubscriptionRequest(is_enabled=True), view.revision)
    work_of(people.ana)
    loop.go_round()
    assert log_of(uid)[3:] == [("instance.make.start", "delivered"), ("instance.make.end", "delivered")]
    assert subscriptions.get(people.ana.context(), uid).off_reason == ""


def test_subscribers_without_the_right_get_nothing(loop: Any, receiver: Receiver, people: Any) -> None:
    uid, _ = subscribe(people.ana, receiver)
    wide, _ = subscribe(people.chi, receiver)
    Subscription.objects.filter(uuid=wide).update(is_cloud_wide=True)  # as if chi had been an operator once
    RoleAssignment.objects.filter(user=people.ana.user).delete()
    work_of(people.bo)
    loop.go_round()
    assert receiver.got == []
    assert set(Subscription.objects.values_list("is_enabled", "off_reason")) == {(False, subscribers.RIGHTS_GONE)}
    assert log_of(uid) == log_of(wide) == []


def test_the_bell_is_rung_once_for_each_message(loop: Any, people: Any) -> None:
    context = people.ana.context()
    uid = subscriptions.subscribe(
        context, SubscriptionRequest(name="bell", channel="bell", events=["*.error"])
    ).view.uuid
    DIARY.failures["do one"] = 1
    run = work_of(people.bo)
    loop.go_round()
    NotificationPlace.objects.using(ALIAS).update(reached=0)  # as after a crash in between
    loop.go_round()
    [notice], _ = notices.of(context)
    assert (notice.run_uuid, notice.is_bad, notice.title) == (str(run.uuid), True, "Make failed: RuntimeError")
    notices.clear(people.bo.context(), notice.uuid)
    assert notices.of(context)[1] == 1
    notices.clear(context, notice.uuid)
    assert notices.of(context) == ([], 0)
    subscriptions.unsubscribe(context, uid)
    assert not Notice.objects.exists()


def test_a_delivery_is_sent_again_under_its_own_id_and_a_test_too(loop: Any, receiver: Receiver, people: Any) -> None:
    context = people.ana.context()
    uid, _ = subscribe(people.ana, receiver)
    work_of(people.ana)
    loop.go_round()
    newest = deliveries.list_of(context, uid).items[0]
    receiver.answers = [200, 503]
    deliveries.test(context, uid)
    deliveries.send_again(context, uid, newest.id)
    loop.go_round()
    assert receiver.types[2:] == ["subscription.test", "instance.make.end"]
    assert receiver.got[3][0]["Novella-Message"] == receiver.got[1][0]["Novella-Message"] == newest.message_id
    outcomes = {(one.event_type, one.outcome, one.detail) for one in deliveries.list_of(context, uid).items}
    assert ("subscription.test", "delivered", "answered 200") in outcomes
    assert ("instance.make.end", "failed", "answered 503") in outcomes
    assert subscriptions.get(context, uid).is_enabled
    with pytest.raises(NotFound):
        deliveries.send_again(people.bo.context(), uid, newest.id)


def test_a_hung_target_holds_up_its_own_project_alone(loop: Any, receiver: Receiver, people: Any) -> None:
    subscribe(people.chi, receiver)
    subscribe(people.ana, receiver)
    waiting: list[Any] = []
    loop.submit = waiting.append
    work_of(people.ana)
    work_of(people.chi)
    loop.go_round()
    loop.go_round()  # both are busy: none is sent twice
    assert len(waiting) == 2
    first = waiting.pop(0)
    worker = threading.Thread(target=waiting.pop())
    worker.start()
    worker.join(WAIT_SECONDS)
    assert len(receiver.got) == 2
    loop.go_round()
    assert waiting == []
    other = threading.Thread(target=first)
    other.start()
    other.join(WAIT_SECONDS)
    assert len(receiver.got) == 4


# -- where webhooks may go ------------------------------------------------------------------------------------


def test_a_name_that_leads_inside_is_not_followed(receiver: Receiver, settings: Any, monkeypatch: Any) -> None:
    port = receiver.server.server_port
    inside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
    outside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", port))]
    embedded = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::127.0.0.1", port, 0, 0))]
    for found in (inside, outside + inside, embedded):  # one private address is enough
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, found=found, **kwargs: found)
        with pytest.raises(SinkFailed, match="private network"), hook(f"http://rebound.example.org:{port}/x") as send:
            send(message())
    assert receiver.got == []
    settings.NOVELLA_NOTIFICATION_PRIVATE_TARGETS = True
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: inside)
    with hook(f"http://rebound.example.org:{port}/x") as send:
        assert send(message()) == "answered 200"
    assert receiver.got[0][0]["Host"] == f"rebound.example.org:{port}"


def test_the_address_that_was_checked_is_the_one_that_is_used(monkeypatch: Any) -> None:
    requested: list[Any] = []
    answers = [[(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 80))]]

    def connect(place: Any, *args: Any, **kwargs: Any) -> Any:
        requested.append(place)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: answers.pop())
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(SinkFailed, match="ConnectionRefusedError"), hook("http://hooks.example.org/x") as send:
        send(message())
    assert requested == [("93.184.216.34", 80)]


def test_an_answer_by_the_byte_is_cut_off(settings: Any, monkeypatch: Any) -> None:
    settings.NOVELLA_NOTIFICATION_PRIVATE_TARGETS = True
    monkeypatch.setattr(sinks, "LONGEST_SECONDS", 0.3)
    server = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        taken, _ = server.accept()
        with taken:
            try:
                for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 1000:
                    taken.send(bytes([byte]))
                    ended.wait(0.05)
            except OSError:
                pass

    ended = threading.Event()
    thread = threading.Thread(target=drip)
    thread.start()
    with pytest.raises(SinkFailed), hook(f"http://127.0.0.1:{server.getsockname()[1]}/x") as send:
        send(message())
    ended.set()
    thread.join(WAIT_SECONDS)
    server.close()
    assert not thread.is_alive()


def hook(url: str) -> Any:
    return Webhook(url, "k" * 32, is_guarded=True).open()


def message() -> Notification:
    return Notification(uuid.uuid4(), 1, "instance.create.end", "", {"payload": {}})
