"""Quotas, usage with its CSV and its cost, activity, and users' preferences."""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.test import Client

from conductor.core.errors import Invalid
from conductor.journal.models import AuditRecord
from conductor.network.models import Network
from conductor.services.accounts import preferences
from conductor.services.audit import audit
from conductor.services.audit.audit import AuditEntry
from conductor.services.billing import costs
from conductor.volume.models import Volume
from portal.pages.audit import activity
from portal.pages.projects import project
from tests import factories
from tests.integration.page_clients import signed_in, text

PRICES = {"currency": "EUR", "vcpu": 0.02, "memory_gb": 0.01, "disk_gb": 0.001}


@pytest.fixture
def ana(people: Any) -> Client:
    factories.cells()
    return signed_in("ana")


def rows(client: Client, query: str = "") -> list[dict[str, str]]:
    answer = client.get(f"/usage.csv{query}")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/csv")
    return list(csv.DictReader(StringIO(answer.content.decode())))


def test_quotas_of_every_service_are_bars(ana: Client, people: Any) -> None:
    ana.post("/volumes/do/create", {"name": "data", "size": "3"})
    ana.post("/key-pairs/do/generate", {"name": "made", "type": "ssh"})
    page = text(ana.get("/quotas"))
    assert 'aria-label="Your key pairs: 1 of 100"' in page
    for words in ("Servers", "Volumes", "Floating IPs", "Security rules"):
        assert words in page
    assert 'aria-label="Volumes: 1 of 100"' in page
    for words in ("Images: 0 of 100", "Address scopes: 0 of 100", "Your application credentials: 0 of 500"):
        assert f'aria-label="{words}"' in page


def test_the_csv_adds_up_to_the_page(ana: Client, people: Any, settings: Any) -> None:
    settings.NOVELLA_PRICES = PRICES
    for name, age in (("a", 7200), ("=cmd", 3600)):
        factories.instance(people.ana.context(), name, age=2 * age)
    factories.instance(people.chi.context(), "secret-7", age=7200)
    found = rows(ana)
    assert [row["name"] for row in found] == ["a", "'=cmd"]
    assert {row["currency"] for row in found} == {"EUR"}
    for row in found:
        hours, vcpus, memory = Decimal(row["hours"]), int(row["vcpus"]), Decimal(row["memory_mb"]) / 1024
        due = hours * (vcpus * Decimal("0.02") + memory * Decimal("0.01") + int(row["disk_gb"]) * Decimal("0.001"))
        assert abs(Decimal(row["cost"]) - due) < Decimal("0.0002")
    total = sum(Decimal(row["cost"]) for row in found)
    page = text(ana.get("/usage"))
    assert f"{total:.2f} EUR" in page
    assert "secret-7" not in page


def test_usage_by_tag_user_and_day_adds_up(ana: Client, people: Any, settings: Any) -> None:
    settings.NOVELLA_PRICES = PRICES
    factories.instance(people.ana.context(), "a", age=3 * 86400, tags=["blue", "=cmd"])
    factories.instance(people.ana.context(), "b", age=7200)
    chi = factories.instance(people.chi.context(), "secret-7", age=7200)
    since = f"{datetime.now(UTC) - timedelta(days=5):%Y-%m-%d}"
    lines = rows(ana, f"?from={since}")
    assert [(row["user"], row["tags"]) for row in lines] == [("ana", "blue =cmd"), ("ana", "")]
    whole = sum(float(row["hours"]) for row in lines)
    by_tag = {row["tag"]: row for row in rows(ana, f"?by=tag&from={since}")}
    assert set(by_tag) == {"blue", "'=cmd", "(no tag)"}
    assert by_tag["blue"]["hours"] == by_tag["'=cmd"]["hours"]
    assert abs(float(by_tag["blue"]["hours"]) - float(lines[0]["hours"])) < 0.1
    (by_user,) = rows(ana, f"?by=user&from={since}")
    assert (by_user["user"], by_user["servers"]) == ("ana", "2")
    by_day = rows(ana, f"?by=day&from={since}")
    assert len(by_day) in (2, 3)  # launched a day and a half ago
    assert abs(sum(float(row["hours"]) for row in by_day) - whole) < 0.1
    assert abs(sum(float(row["cost"]) for row in by_day) - float(by_user["cost"])) < 0.01
    # Projects beside one's own are for administrators.
    assert "project" not in rows(ana, f"?by=project&from={since}")[0]
    assert {row["project"] for row in rows(signed_in("admin"), f"?by=project&from={since}")} >= {"shop", "lab"}
    assert chi.name not in text(ana.get(f"/usage?by=tag&from={since}"))
    assert "Download these rows as CSV" in text(ana.get(f"/usage?by=tag&from={since}"))


def test_without_prices_no_cost_is_shown(ana: Client, people: Any) -> None:
    factories.instance(people.ana.context(), "a", age=7200)
    assert costs.prices() is None
    assert "Cost" not in text(ana.get("/usage"))
    assert [row["cost"] for row in rows(ana)] == [""]


def test_a_page_holds_no_more_lines_than_people_read(ana: Client, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("web-1", "web-2", "web-3"):
        factories.instance(people.ana.context(), name)
    monkeypatch.setattr(project, "MOST_GROUPS", 2)
    page = " ".join(ana.get("/usage").content.decode().split())
    assert "2 of 3 rows shown" in page
    assert "web-3" not in page
    assert len(rows(ana)) == 3


@pytest.mark.parametrize(
    "query", ["?from=soon", "?from=2026-02-01&to=2026-01-01", "?from=2999-01-01", "?from=2001-01-01"]
)
def test_periods_that_cannot_be_are_refused(ana: Client, query: str) -> None:
    assert ana.get(f"/usage{query}").status_code == 400
    assert ana.get(f"/usage.csv{query}").status_code == 400


def test_activity_lists_actors_and_actions(ana: Client, people: Any) -> None:
    context = people.ana.context()
    factories.run(context, "cell1", flow="reboot_instance", action="reboot", state="done", instance_name="web-1", age=9)
    factories.run(people.chi.context(), "cell1", instance_name="not-ours")
    audit.record("default", context, AuditEntry(action="host.close", project_id=context.project_id, reason="new fans"))
    AuditRecord.objects.update(created_at=factories.ago(5))  # two of the same millisecond have no order of their own
    audit.record_refusal(context, "delete", "", Invalid("It is locked."))
    page = text(ana.get("/activity"))
    order = [page.index(words) for words in ("It is locked.", "new fans", "Reboot web-1")]
    assert order == sorted(order)
    assert page.count("<tr data-row>") == 3
    for query, words in (
        ({"action": "reboot"}, "Reboot web-1"),
        ({"action": "delete"}, "It is locked."),
        ({"action": "host.close"}, "new fans"),
        ({"result": "refused"}, "It is locked."),
    ):
        only = text(ana.get("/activity", query))
        assert words in only
        assert only.count("<tr data-row>") == 1, query
    assert text(signed_in("chi").get("/activity")).count("<tr data-row>") == 1


def test_activity_names_what_members_changed_and_leads_there_while_it_is(ana: Client, people: Any) -> None:
    ana.post("/volumes/do/create", {"name": "data", "size": "3"})
    ana.post("/networks/do/create", {"name": "blue"})
    ana.post("/key-pairs/do/generate", {"name": "made", "type": "ssh"})
    volume, network = Volume.objects.get(), Network.objects.get(name="blue")
    ana.post("/volumes/do/delete", {"item": str(volume.uuid)})
    page = text(ana.get("/activity"))
    for action in ("volume.create", "network.create", "key_pair.create", "volume.delete"):
        assert page.count(f">{action}<") == 1
    assert f'<a class="break" href="/networks/of/{network.uuid}">blue</a>' in page
    assert 'href="/key-pairs/of/made">made</a>' in page
    assert page.count('<span class="break">data</span>') == 2
    assert str(volume.uuid) not in page
    assert "/key-pairs/of/made" not in text(signed_in("bo").get("/activity")), "a key is its user's"
    for query, count in (({"kind": "volume"}, 2), ({"kind": "network", "action": "create"}, 1), ({"kind": "port"}, 0)):
        assert text(ana.get("/activity", query)).count("<tr data-row>") == count, query
    assert text(signed_in("admin").get("/audit?kind=volume")).count("data-row>") == 2
    export = signed_in("admin").get("/audit.csv?kind=volume").content.decode()
    assert export.count('""name"": ""data""') == 2


def test_activity_by_kind_has_what_workflows_do(ana: Client, people: Any) -> None:
    context = people.ana.context()
    for flow in ("create_snapshot", "reboot_instance", "create_volume"):
        factories.run(context, "default", flow=flow, action=flow, state="done", instance_name=flow)
    for kind, flow in (("snapshot", "create_snapshot"), ("server", "reboot_instance"), ("volume", "create_volume")):
        page = text(ana.get("/activity", {"kind": kind}))
        assert page.count("<tr data-row>") == 1
        assert f" {flow}</a>" in page


def test_activity_goes_on_after_what_was_shown(ana: Client, people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "PAGE_SIZE", 2)
    context = people.ana.context()
    for age in (50, 40, 30):
        factories.run(context, "cell1", state="done", instance_name=f"web-{age}", age=age)
    for reason in ("one", "two"):
        audit.record("default", context, AuditEntry(action="host.close", project_id=context.project_id, reason=reason))
    address, seen = "/activity", []
    while address:
        page = text(ana.get(address))
        seen += re.findall(r"web-\d+|>(?:one|two)<", page)
        following = re.search(r'href="([^"]+)" rel="next"', page)
        address = following[1] if following else ""
    assert sorted(seen[:2]) == [">one<", ">two<"]  # created at the same time
    assert seen[2:] == ["web-30", "web-40", "web-50"]


def test_a_profile_is_kept_with_the_person(ana: Client, people: Any) -> None:
    server = factories.instance(people.ana.context(), "a")
    sent = {"theme": "dark", "density": "compact", "time_zone": "Asia/Tokyo", "state_changes": "muted"}
    assert ana.post("/profile", sent).status_code == 302
    page = text(signed_in("ana").get(f"/servers/{server.uuid}"))
    assert 'data-theme="dark" data-density="compact" data-muted' in page
    assert " JST" in page
    assert " UTC<" in text(signed_in("bo").get(f"/servers/{server.uuid}"))


@pytest.mark.parametrize(
    ("name", "value"), [("theme", "neon"), ("density", "tiny"), ("time_zone", "Mars/Base"), ("state_changes", "sung")]
)
def test_requests_that_there_are_not_are_refused(ana: Client, people: Any, name: str, value: str) -> None:
    before = preferences.of(people.ana.user.pk)
    answer = ana.post("/profile", {"theme": "dark", "density": "compact", "time_zone": "UTC", name: value})
    assert answer.status_code == 400
    assert f'href="#field-{name}"' in text(answer)
    assert preferences.of(people.ana.user.pk) == before
    assert 'data-theme="system"' in text(ana.get("/profile"))
