"""The pages of subscriptions and the bell, without a browser: forms, refusals, and hidden values."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.test import Client

from conductor.api_db.models import Subscription
from conductor.core.notification_sink import Notification
from conductor.journal.models import NotificationDelivery
from conductor.services.notifications import notices, subscriptions
from conductor.services.notifications.sealing import unseal
from conductor.services.notifications.subscriptions import SubscriptionRequest
from tests.integration.page_clients import signed_in, text

LIST = "/notifications/subscriptions"
URL = "https://hooks.example.org/novella?key=seven-ducks-swim"
FORM = {"name": "deploys", "channel": "webhook", "url": URL, "kind": "ends", "events": "", "servers": ""}


@pytest.fixture
def ana(people: Any) -> Client:
    return signed_in("ana")


def revision_of(client: Client, path: str) -> str:
    found = re.search(r'name="revision" value="(\d+)"', text(client.get(path)))
    assert found is not None
    return found[1]


def test_the_key_is_shown_once_and_the_address_never(ana: Client) -> None:
    assert "No subscriptions in this project yet." in text(ana.get(LIST))
    answer = ana.post(LIST, FORM)
    row = Subscription.objects.get()
    secret = unseal(row.sealed).secret
    assert (answer.status_code, secret in text(answer), row.events) == (200, True, ["*.end", "*.error"])
    assert "no-store" in answer.headers["Cache-Control"]
    for path in (LIST, f"{LIST}/{row.uuid}"):
        page = text(ana.get(path))
        assert "https://hooks.example.org/…" in page
        assert secret not in page
        assert "seven-ducks-swim" not in page
    assert str(row.uuid) not in text(signed_in("bo").get(LIST))
    assert signed_in("bo").get(f"{LIST}/{row.uuid}").status_code == 404


def test_a_chat_has_an_address_and_no_key(ana: Client) -> None:
    page = text(ana.post(LIST, {**FORM, "channel": "chat"}, follow=True))
    row = Subscription.objects.get()
    assert (row.channel, row.secret_hint, unseal(row.sealed).url) == ("chat", "", URL)
    assert ("now notifies your chat" in page, "https://hooks.example.org/…" in page, "Generate new key" in page) == (
        True,
        True,
        False,
    )
    assert "seven-ducks-swim" not in page + text(ana.get(LIST))
    moved = {**FORM, "url": "https://chat.example.org/hooks/one", "enabled": "yes", "revision": "1"}
    assert ana.post(f"{LIST}/{row.uuid}", moved).status_code == 302
    row.refresh_from_db()
    assert (row.address, unseal(row.sealed).url) == ("https://chat.example.org/…", moved["url"])


def test_errors_are_shown_and_the_input_stays(ana: Client) -> None:
    for values, status, named in (
        ({"url": "http://localhost/"}, 400, "private network"),
        ({"url": ""}, 400, "Enter the URL to which messages for channel webhook"),
        ({"channel": "chat", "url": ""}, 400, "Enter the URL to which messages for channel chat"),
        ({"name": "  "}, 400, "Enter a name of 1 to 60 characters"),
        ({"kind": "chosen", "events": "instance.explode"}, 400, "instance.explode"),
        ({"kind": "chosen", "events": " "}, 400, "Enter 1 to 50 event types"),
        ({"servers": "web-1"}, 400, "Server web-1 could not be found"),
        ({"channel": "pigeon"}, 400, "channel must be one of"),
    ):
        answer = ana.post(LIST, {**FORM, **values})
        assert answer.status_code == status, values
        assert named in text(answer)
        assert 'aria-invalid="true"' in text(answer) or "channel" in values
        assert f'value="{values.get("name", "deploys")}"' in text(answer) or "name" in values
    assert not Subscription.objects.exists()


def test_a_change_based_on_an_outdated_version_is_refused(ana: Client) -> None:
    ana.post(LIST, FORM)
    row = Subscription.objects.get()
    path = f"{LIST}/{row.uuid}"
    first = {**FORM, "name": "releases", "url": "", "kind": "all", "enabled": "yes", "revision": "1"}
    assert ana.post(path, first).status_code == 302
    late = ana.post(path, {**first, "name": "other"})
    assert (late.status_code, "The subscription has changed" in text(late)) == (412, True)
    assert ana.post(path, {**first, "revision": ""}).status_code == 400
    row.refresh_from_db()
    assert (row.name, row.events, row.revision, unseal(row.sealed).url) == ("releases", ["*"], 2, URL)
    assert ana.post(f"{path}/secret", {"revision": "1"}).status_code == 412
    assert ana.post(f"{path}/delete", {"revision": "1"}).status_code == 412
    renewed = ana.post(f"{path}/secret", {"revision": revision_of(ana, path)})
    row.refresh_from_db()
    assert unseal(row.sealed).secret in text(renewed)
    assert ana.post(f"{path}/delete", {"revision": revision_of(ana, path)}).status_code == 302
    assert not Subscription.objects.exists()


def test_the_log_is_there_with_tests_and_sending_again(ana: Client) -> None:
    ana.post(LIST, FORM)
    row = Subscription.objects.get()
    path = f"{LIST}/{row.uuid}"
    assert "No deliveries yet" in text(ana.get(path))
    assert "sent within a few seconds" in text(ana.post(f"{path}/test", follow=True))
    assert "queued" in text(ana.get(path))
    twice = ana.post(f"{path}/test")
    assert (twice.status_code, "already being sent" in text(twice)) == (409, True)
    delivery = NotificationDelivery.objects.get()
    assert ana.post(f"{path}/again", {"delivery": f"default:{delivery.pk}"}).status_code == 409
    assert ana.post(f"{path}/again", {"delivery": "nonsense"}).status_code == 404


def test_the_bell_shows_notices_until_they_are_cleared(ana: Client, people: Any) -> None:
    context = people.ana.context()
    made = subscriptions.subscribe(context, SubscriptionRequest(name="bell", channel="bell")).view
    row = Subscription.objects.get()
    data = {"workflow": {"uuid": str(uuid.uuid4())}, "instance": {"display_name": "web-1"}, "fault": None}
    with notices.NoticeSink(row, "bell").open() as send:
        for kind in ("instance.reboot.error", "instance.create.end"):
            send(Notification(uuid.uuid4(), 1, kind, "", {"payload": {"data": data}}))
    page = text(ana.get("/notifications"))
    assert "Reboot of web-1 failed" in page
    assert "Create of web-1 ended" in page
    bell = text(ana.get("/notifications", headers={"HX-Request": "true"}))
    assert 'aria-label="2 notifications"' in bell
    assert "Reboot of web-1" not in text(signed_in("bo").get("/notifications"))
    [first, _], _ = notices.of(context)
    ana.post("/notifications/clear", {"notice": first.uuid, "next": "/notifications"})
    assert [one.title for one in notices.of(context)[0]] == ["Reboot of web-1 failed"]
    ana.post("/notifications/clear", {"next": "/notifications"})
    assert notices.of(context) == ([], 0)
    assert made.channel == "bell"
