"""Subscriptions over HTTP: made, shown masked, changed without a lost write, and refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import Notice, Subscription
from conductor.db.transactions import database_now
from conductor.journal.models import AuditRecord, NotificationDelivery, NotificationPlace
from conductor.services.notifications import subscriptions
from conductor.services.notifications.sealing import unseal
from tests.compute_rows import make_cloud, make_instance

pytestmark = pytest.mark.usefixtures("databases")

PATH = "/api/subscriptions"
GUARD = "seven-ducks-swim"
URL = f"https://hooks.example.org:8443/novella/{GUARD}?key={GUARD}"
HOOK = {"name": "deploys", "url": URL, "events": ["instance.create.*", "*.error"]}


def made(client: Any, **more: Any) -> Any:
    answer = client.post(PATH, {**HOOK, **more})
    assert answer.status_code == 201, answer.content
    return answer.json()["subscription"]


def change(client: Any, one: Any, body: Any, revision: object = None) -> Any:
    seen = f'"{one["revision"] if revision is None else revision}"'
    return client.patch(f"{PATH}/{one['uuid']}", body, headers={"If-Match": seen})


def test_the_key_is_shown_once_and_the_address_never(api_client: Any) -> None:
    ana = api_client("ana")
    answer = ana.post(PATH, HOOK)
    body = answer.json()
    one, secret = body["subscription"], body["secret"]
    assert (answer.status_code, answer.headers["ETag"], answer.headers["Cache-Control"]) == (201, '"1"', "no-store")
    assert answer.headers["Location"].endswith(f"{PATH}/{one['uuid']}")
    assert len(secret) >= 32
    assert one["secret_hint"] == f"…{secret[-4:]}"
    assert (one["address"], one["enabled"], one["cloud_wide"]) == ("https://hooks.example.org:8443/…", True, False)
    row = Subscription.objects.get()
    assert unseal(row.sealed).url == URL
    assert unseal(row.sealed).secret == secret
    shown = [ana.get(PATH), ana.get(f"{PATH}/{one['uuid']}"), api_client("admin").get(f"{PATH}?all_people=true")]
    for text in (*(str(answer.json()) for answer in shown), str(list(AuditRecord.objects.values())), str(vars(row))):
        assert GUARD not in text
        assert secret not in text
    assert shown[0].json()["subscriptions"] == [one]


def test_a_subscription_gets_events_after_its_creation(api_client: Any) -> None:
    one = made(api_client("ana"))
    name = f"subscription {one['uuid']}"
    assert all(NotificationPlace.objects.using(alias).filter(sink=name).exists() for alias in ("default", "cell1"))


def test_of_two_concurrent_changes_the_second_is_refused_with_412(api_client: Any) -> None:
    ana = api_client("ana")
    one = made(ana)
    first = change(ana, one, {"events": ["*.end"]})
    assert (first.status_code, first.headers["ETag"]) == (200, '"2"')
    late = change(ana, one, {"events": ["*.start"], "name": "other"})
    assert late.status_code == 412
    assert "revision is 2, not 1" in late.json()["error"]["message"]
    blind = ana.patch(f"{PATH}/{one['uuid']}", {"name": "other"})
    assert blind.status_code == 428
    assert "If-Match" in blind.json()["error"]["message"]
    assert ana.patch(f"{PATH}/{one['uuid']}", {"name": "x"}, headers={"If-Match": "two"}).status_code == 400
    assert ana.delete(f"{PATH}/{one['uuid']}", headers={"If-Match": '"1"'}).status_code == 412
    row = Subscription.objects.get()
    assert (row.name, row.events, row.revision) == ("deploys", ["*.end"], 2)
    assert change(ana, one, {"name": "other"}, 2).json()["subscription"]["name"] == "other"


def test_a_new_key_takes_the_place_of_the_old_one(api_client: Any) -> None:
    ana = api_client("ana")
    body = ana.post(PATH, HOOK).json()
    path = f"{PATH}/{body['subscription']['uuid']}/secret"
    assert ana.post(path).status_code == 428
    answer = ana.post(path, headers={"If-Match": '"1"'})
    assert (answer.status_code, answer.json()["subscription"]["revision"]) == (200, 2)
    assert answer.json()["secret"] != body["secret"]
    target = unseal(Subscription.objects.get().sealed)
    assert (target.url, target.secret) == (URL, answer.json()["secret"])


# One test for all: a database that is emptied for each would take longer than what is asked.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": " "}, "name"),
    ({"url": "ftp://hooks.example.org/"}, "URL"),
    ({"url": "https:///x"}, "URL"),
    ({"url": "https://ana:pw@hooks.example.org/"}, "URL"),
    ({"url": "https://hooks.example.org/#x"}, "URL"),
    ({"url": "https://hooks.example.org:0/"}, "URL"),
    ({"url": "http://127.0.0.1:8000/"}, "private"),
    ({"url": "http://127.1/"}, "private"),
    ({"url": "http://2130706433/"}, "private"),
    ({"url": "http://localhost/"}, "private"),
    ({"url": "http://10.1.2.3/"}, "private"),
    ({"url": "http://169.254.169.254/latest"}, "private"),
    ({"url": "http://[::1]/"}, "private"),
    ({"url": "http://[::ffff:10.0.0.1]/"}, "private"),
    ({"url": "http://[64:ff9b::7f00:1]/"}, "private"),
    ({"url": "http://[fd00::1]/"}, "private"),
    ({"url": "http://[::127.0.0.1]/"}, "private"),
    ({"url": "http://[::7f00:1]:8000/"}, "private"),
    ({"url": "http://[64:ff9b:1::7f00:1]/"}, "private"),
    ({"url": "http://[2002:7f00:1::]/"}, "private"),
    ({"events": []}, "events"),
    ({"events": ["instance.explode.end"]}, "instance.explode.end"),
    ({"events": ["*", "instance[a]"]}, "events[1]"),
    ({"servers": ["99999999-9999-9999-9999-999999999999"]}, "99999999"),
    ({"servers": ["web"]}, "servers[0]"),
    ({"channel": "pigeon"}, "channel"),
    ({"colour": "red"}, "colour"),
    ({"enabled": "yes"}, "enabled"),
    ({"channel": "bell"}, "url"),
]


def test_invalid_subscriptions_are_named_and_none_is_created(api_client: Any) -> None:
    ana = api_client("ana")
    for body, named in WRONG:
        answer = ana.post(PATH, {**HOOK, **body})
        assert answer.status_code == 400, body
        assert named in answer.json()["error"]["message"], body
        assert GUARD not in answer.json()["error"]["message"]
    assert not Subscription.objects.exists()


def test_a_change_that_is_refused_changes_nothing(api_client: Any) -> None:
    ana = api_client("ana")
    one = made(ana)
    made(ana, name="second")
    before = list(Subscription.objects.values())
    for body, status in (
        ({"name": "third", "url": "http://localhost/"}, 400),
        ({"name": "second"}, 409),
        ({"name": "third", "cloud_wide": True}, 403),
        ({"channel": "bell"}, 400),
        ({}, 400),
    ):
        assert change(ana, one, body).status_code == status, body
    assert list(Subscription.objects.values()) == before


def test_subscriptions_of_other_projects_and_users_are_not_found(api_client: Any) -> None:
    one = made(api_client("ana"))
    for who in ("bo", "chi", "rea"):
        client = api_client(who)
        assert client.get(PATH).json() == {"subscriptions": []}
        assert client.get(f"{PATH}/{one['uuid']}").status_code == 404
        assert client.get(f"{PATH}/{one['uuid']}/deliveries").status_code == 404
        assert client.get(f"{PATH}?all_people=true").status_code == 403
    assert change(api_client("bo"), one, {"name": "mine"}).status_code == 404
    assert api_client("bo").delete(f"{PATH}/{one['uuid']}").status_code == 404
    assert api_client("rea").post(PATH, HOOK).status_code == 403
    assert api_client(None).get(PATH).status_code == 401
    assert Subscription.objects.get().revision == 1


def test_servers_of_the_project_alone_narrow(api_client: Any, people: Any) -> None:
    make_cloud(people)
    ours, theirs = (make_instance(one.context(), "cell1", "web") for one in (people.ana, people.chi))
    assert made(api_client("ana"), servers=[str(ours.uuid)])["servers"] == [str(ours.uuid)]
    refused = api_client("ana").post(PATH, {**HOOK, "name": "x", "servers": [str(ours.uuid), str(theirs.uuid)]})
    assert (refused.status_code, "could not be found" in refused.json()["error"]["message"]) == (400, True)
    wide = made(api_client("admin"), cloud_wide=True, servers=[str(theirs.uuid)])
    assert (wide["cloud_wide"], wide["servers"]) == (True, [str(theirs.uuid)])


def test_the_number_of_subscriptions_is_limited(api_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 2)
    ana = api_client("ana")
    made(ana)
    assert ana.post(PATH, HOOK).status_code == 409  # the name is taken
    assert ana.post(PATH, {"name": "bell", "channel": "bell"}).json()["secret"] == ""
    answer = ana.post(PATH, {**HOOK, "name": "third"})
    assert (answer.status_code, "Delete one first" in answer.json()["error"]["message"]) == (409, True)
    assert Subscription.objects.count() == 2


def test_private_addresses_are_refused_unless_the_operator_allows_them(api_client: Any, settings: Any) -> None:
    settings.NOVELLA_NOTIFICATION_PRIVATE_TARGETS = True
    assert made(api_client("ana"), url="http://127.0.0.1:9/x")["address"] == "http://127.0.0.1:9/…"


def test_a_test_message_is_sent_and_the_log_has_pages(api_client: Any) -> None:
    ana = api_client("ana")
    one = made(ana)
    path = f"{PATH}/{one['uuid']}"
    requested = ana.post(f"{path}/test")
    assert (requested.status_code, requested.json()["delivery"]["outcome"]) == (202, "asked")
    assert ana.post(f"{path}/test").status_code == 409  # it is about to be sent already
    for number in (1, 2):
        NotificationDelivery.objects.using("cell1").create(
            sink=f"subscription {one['uuid']}", message_id=one["uuid"], event_type="instance.create.end",
            outcome="failed", detail="answered 500", tried_at=database_now(number), event_number=10**9,
        )  # fmt: skip
    first = ana.get(f"{path}/deliveries?limit=2").json()
    rest = ana.get(f"{path}/deliveries?marker={first['deliveries'][-1]['id']}").json()
    assert [row["outcome"] for row in (*first["deliveries"], *rest["deliveries"])] == ["failed", "failed", "asked"]
    assert "deliveries_links" in first
    assert "deliveries_links" not in rest
    again = f"{path}/deliveries/{first['deliveries'][0]['id']}/again"
    gone = ana.post(again)
    assert (gone.status_code, "no longer in the event log" in gone.json()["error"]["message"]) == (409, True)
    assert ana.post(f"{path}/deliveries/{requested.json()['delivery']['id']}/again").status_code == 409
    assert ana.post(f"{path}/deliveries/cell1:999/again").status_code == 404
    assert ana.get(f"{path}/deliveries?marker=cell1:x").status_code == 400
    change(ana, one, {"enabled": False})
    assert "Turn the subscription on" in ana.post(f"{path}/test").json()["error"]["message"]
    assert NotificationDelivery.objects.using("cell1").filter(outcome="asked").count() == 0


def test_unsubscribing_deletes_the_subscription_and_is_audited(api_client: Any) -> None:
    ana = api_client("ana")
    one = made(ana)
    assert ana.delete(f"{PATH}/{one['uuid']}", headers={"If-Match": '"1"'}).status_code == 204
    assert ana.get(f"{PATH}/{one['uuid']}").status_code == 404
    assert not Notice.objects.exists()
    actions = AuditRecord.objects.filter(action__startswith="subscription.").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == ["subscription.create", "subscription.delete"]
