"""Announcements and the monthly cost: who may write them, how long they last, and all users' home pages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from conductor.api_db.models import Announcement
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.journal.models import AuditRecord
from conductor.services.billing import costs, usage
from conductor.services.operations import announcements
from tests import factories
from tests.integration.page_clients import signed_in, text

pytestmark = pytest.mark.django_db(databases="__all__")
PRICES = {"currency": "EUR", "vcpu": "0.01", "memory_gb": "0.005", "disk_gb": "0.0001"}


@pytest.fixture
def admin(people: Any) -> Any:
    return people.admin.context()


def titles(found: Any) -> list[str]:
    return [one.title for one in found]


def test_announcements_begin_and_end_by_themselves_the_most_severe_first(admin: Any) -> None:
    now = timezone.now()
    announcements.announce(admin, {"title": "  new   images "})
    announcements.announce(admin, {"title": "tomorrow", "begins_at": now + timedelta(days=1)})
    announcements.announce(admin, {"title": "storage is slow", "severity": "warning"})
    over = announcements.announce(admin, {"title": "yesterday", "severity": "critical"})
    Announcement.objects.filter(uuid=over.uuid).update(
        begins_at=now - timedelta(days=2), ends_at=now - timedelta(days=1)
    )
    assert titles(announcements.current()) == ["storage is slow", "new images"]
    kept = announcements.list_of(admin, of_all_times=True).items
    assert [(one.title, one.state) for one in kept] == [
        ("yesterday", "over"),
        ("storage is slow", "active"),
        ("tomorrow", "planned"),
        ("new images", "active"),
    ]


def test_only_operators_announce_and_see_planned_announcements(people: Any, admin: Any) -> None:
    ana = people.ana.context()
    planned = announcements.announce(admin, {"title": "x", "begins_at": timezone.now() + timedelta(days=1)})
    for refused in (
        lambda: announcements.announce(ana, {"title": "mine"}),
        lambda: announcements.change(ana, planned.uuid, {"title": "mine"}),
        lambda: announcements.withdraw(ana, planned.uuid),
        lambda: announcements.list_of(ana, of_all_times=True),
    ):
        with pytest.raises(Forbidden):
            refused()
    with pytest.raises(NotFound):
        announcements.get(ana, planned.uuid)
    assert titles(announcements.list_of(admin, of_all_times=True).items) == ["x"]


@pytest.mark.parametrize(
    ("requested", "field"),
    [
        ({"title": " \n "}, "title"),
        ({"title": "a" * 121}, "title"),
        ({"title": "x", "text": "a" * 1001}, "text"),
        ({"title": "x", "severity": "loud"}, "severity"),
        ({"title": "x", "ends_at": datetime(2020, 1, 1, tzinfo=UTC)}, "ends_at"),
    ],
)
def test_an_invalid_field_is_named_and_changes_nothing(admin: Any, requested: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        announcements.announce(admin, requested)
    assert refused.value.details["field"] == f"announcement.{field}"
    assert not Announcement.objects.exists()


def test_the_number_of_announcements_is_limited(admin: Any) -> None:
    for number in range(announcements.MOST_EVENTS_SENT):
        announcements.announce(admin, {"title": str(number)})
    with pytest.raises(Conflict):
        announcements.announce(admin, {"title": "one more"})
    announcements.withdraw(admin, announcements.current()[0].uuid)
    announcements.announce(admin, {"title": "one more"})


def test_an_operator_announces_on_a_page_and_all_users_read_it_at_home(people: Any) -> None:
    factories.cells()
    ana, operator = signed_in("ana"), signed_in("admin")
    sent = {"title": "Maintenance", "text": "Disks <are> replaced.", "severity": "critical", "begins_at": ""}
    refused = operator.post("/news/do/create", {**sent, "ends_at": "2020-01-01T00:00"})
    assert refused.status_code == 400
    assert 'id="field-ends_at" data-wrong' in text(refused)
    assert not Announcement.objects.exists()
    made = operator.post("/news/do/create", {**sent, "ends_at": "2099-01-01T00:00"})
    assert made.status_code == 302, text(made)
    home = text(ana.get("/"))
    assert "Maintenance" in home
    assert "Disks <are> replaced." in home
    assert "<are>" not in ana.get("/").content.decode()
    row = Announcement.objects.get()
    assert (row.author, row.severity, row.ends_at) == ("admin", "critical", datetime(2099, 1, 1, tzinfo=UTC))
    changed = {"item": str(row.uuid), **sent, "title": "Done early", "severity": "info", "ends_at": ""}
    assert operator.post("/news/do/edit", changed).status_code == 302
    row.refresh_from_db()
    assert (row.title, row.severity, row.ends_at) == ("Done early", "info", None)
    assert operator.post("/news/do/delete", {"item": str(row.uuid), "reason": "it is over"}).status_code == 302
    assert "Done early" not in text(ana.get("/"))
    kept = AuditRecord.objects.using("default").filter(action__startswith="announcement.").order_by("pk")
    assert list(kept.values_list("action", "result")) == [
        ("announcement.create", "refused"),
        ("announcement.create", "done"),
        ("announcement.update", "done"),
        ("announcement.delete", "done"),
    ]
    assert kept.last().reason == "it is over"


def test_the_cost_of_a_month_is_summed_and_forecast(
    people: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.cells()
    ana, settings.NOVELLA_PRICES = people.ana.context(), PRICES
    now = datetime(2026, 4, 11, tzinfo=UTC)  # ten of thirty days
    monkeypatch.setattr(usage, "now", lambda: now)
    size = {"vcpus": 2, "memory_mb": 2048, "root_gb": 10, "ephemeral_gb": 0, "name": "small"}
    factories.instance(ana, "web-1", flavor=size, launched_at=now - timedelta(days=20), terminated_at=None)
    gone = now - timedelta(days=9)
    factories.instance(ana, "web-2", flavor=size, launched_at=now - timedelta(days=10), terminated_at=gone)
    month = costs.this_month(ana)
    hourly = Decimal("0.031")  # 2 × 0.01 + 2 × 0.005 + 10 × 0.0001
    assert month.so_far == hourly * 24 * (10 + 1)
    assert month.at_this_pace == month.so_far + hourly * 24 * 20, "only web-1 goes on"
    assert month.last_month == hourly * 24 * 10
    assert (month.server_hours, month.vcpu_hours) == (24 * 11, 24 * 22)
    home = text(signed_in("ana").get("/"))
    assert "<b>8.18</b>" in home
    assert "EUR" in home
    settings.NOVELLA_PRICES = {}
    home = text(signed_in("ana").get("/"))
    assert "Pricing isn't configured." in home
    assert "EUR" not in home
    monkeypatch.setattr(costs, "MOST_ADDED_UP", 1)
    assert "Too many servers to add up on this page." in text(signed_in("ana").get("/"))


def test_a_month_is_for_its_project_alone(people: Any) -> None:
    with pytest.raises(Forbidden):
        costs.this_month(replace(people.ana.context(), roles=frozenset()))
