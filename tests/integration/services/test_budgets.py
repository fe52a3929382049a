"""Monthly budgets: amounts, notifications, permissions, and concurrent changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connections

from conductor.api_db.models import Budget
from conductor.cells.lookup import journal_aliases
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleRevision
from conductor.identity.models import Project, Role, RoleAssignment
from conductor.journal.models import AuditRecord, Event
from conductor.services.billing import budgets, usage
from conductor.services.notifications import notices, subscriptions
from conductor.services.notifications.subscribers import Subscribers
from conductor.services.notifications.subscriptions import SubscriptionRequest
from tests import factories
from tests.api_client import ApiClient
from tests.counting import Captured
from tests.fixtures.unresponsive_cells import silence
from tests.integration.page_clients import signed_in, text
from tests.integration.receivers import Receiver

pytestmark = pytest.mark.django_db(databases="__all__")
PRICES = {"currency": "EUR", "vcpu": "1"}
START = datetime(2026, 4, 1, tzinfo=UTC)
SIZE = {"vcpus": 1, "memory_mb": 0, "root_gb": 0, "ephemeral_gb": 0, "name": "one"}  # one euro in an hour
SET = (50, 80, 100)


class Clock:
    """The time that costs are counted to."""

    def __init__(self) -> None:
        self.now = START

    def reach(self, hours: float) -> None:
        self.now = START + timedelta(hours=hours)
        budgets.look()


@pytest.fixture
def clock(people: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    factories.cells()
    settings.NOVELLA_PRICES = PRICES
    made = Clock()
    monkeypatch.setattr(usage, "now", lambda: made.now)
    factories.instance(people.ana.context(), "web-1", flavor=SIZE, launched_at=START, terminated_at=None)
    return made


def put(people: Any, amount: str = "100", thresholds: Any = SET, revision: int | None = None) -> budgets.BudgetView:
    return budgets.put(people.admin.context(), people.ana.project.id, Decimal(amount), thresholds, revision)


def notices_of(person: Any) -> list[str]:
    return [one.title for one in notices.of(person.context())[0]]


def test_each_threshold_is_notified_once_a_month_to_every_member(people: Any, clock: Clock) -> None:
    put(people)
    clock.reach(49)
    assert notices_of(people.ana) == []
    clock.reach(50)
    clock.reach(51)
    half = "Part of the month's budget is used: 50 %, 2026-04: 50.00 / 100.00 EUR"
    assert notices_of(people.ana) == notices_of(people.bo) == [half]
    assert notices_of(people.rea) == notices_of(people.chi) == notices_of(people.admin) == []
    notices.clear(people.ana.context())
    clock.reach(120)  # two thresholds at once: only the highest is reported
    clock.reach(130)
    assert notices_of(people.ana) == ["The month's budget is used up: 100 %, 2026-04: 120.00 / 100.00 EUR"]
    assert [one.is_bad for one in notices.of(people.bo.context())[0]] == [True, False]
    clock.reach(30 * 24 + 60)
    assert notices_of(people.ana)[0] == "Part of the month's budget is used: 50 %, 2026-05: 60.00 / 100.00 EUR"
    events = Event.objects.filter(topic=f"budget:{people.ana.project.id}").order_by("pk")
    assert [(one.kind, one.project_id, one.data["percent"], one.data["spent"]) for one in events] == [
        ("budget.crossed", people.ana.project.id, percent, spent)
        for percent, spent in ((50, "50.00"), (100, "120.00"), (50, "60.00"))
    ]


def test_the_forecast_of_a_month_continues_the_current_cost(people: Any, clock: Clock) -> None:
    gone = START + timedelta(hours=10)
    factories.instance(people.ana.context(), "web-2", flavor=SIZE, launched_at=START, terminated_at=gone)
    factories.instance(people.chi.context(), "foreign", flavor=SIZE, launched_at=START, terminated_at=None)
    put(people, "1000")
    clock.reach(20)
    found = budgets.get(people.ana.context(), people.ana.project.id)
    assert (found.spent, found.forecast, found.counted_at) == (30, 10 + 30 * 24, clock.now)


def test_a_new_budget_is_counted_and_notifies_at_once(people: Any, clock: Clock) -> None:
    put(people)
    clock.reach(60)
    found = put(people, "200", (25, 60))
    assert (found.spent, found.revision, found.thresholds) == (60, 2, [25, 60])
    assert notices_of(people.ana)[0] == "Part of the month's budget is used: 25 %, 2026-04: 60.00 / 200.00 EUR"
    assert len(notices_of(people.ana)) == 2


def test_all_projects_are_counted_with_the_same_statements(people: Any, clock: Clock) -> None:
    put(people, "1000")

    def count() -> int:
        watched = [Captured(connections[alias]) for alias in connections]
        for one in watched:
            one.__enter__()
        budgets.look()
        for one in watched:
            one.__exit__(None, None, None)
        return sum(len(one) for one in watched)

    alone = count()
    for number in range(20):
        project = Project.objects.create(domain=people.ana.project.domain, name=f"p{number}")
        Budget.objects.create(project_id=project.id, amount=5, currency="EUR", updated_at=START)
    assert count() == alone


def test_an_unreachable_cell_does_not_lower_the_spent_amount(
    people: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(people, "1000")
    clock.reach(40)
    with monkeypatch.context() as patched:
        silence(patched, "cell1")
        clock.reach(50)
    found = budgets.get(people.ana.context(), people.ana.project.id)
    assert (found.spent, found.counted_at) == (40, START + timedelta(hours=40))


def test_of_two_writers_one_gets_a_conflict(people: Any, clock: Clock) -> None:
    put(people, revision=0)
    for seen in (0, 2):
        with pytest.raises(StaleRevision):
            put(people, "5", revision=seen)
    with pytest.raises(StaleRevision):
        budgets.remove(people.admin.context(), people.ana.project.id, 2)
    assert Budget.objects.get().amount == 100
    budgets.remove(people.admin.context(), people.ana.project.id, 1)
    kept = AuditRecord.objects.filter(action__startswith="budget.").order_by("pk")
    amounts = [(one.action, one.details["before"].get("amount"), one.details["after"].get("amount")) for one in kept]
    assert amounts == [("budget.set", None, "100.00"), ("budget.remove", "100.00", None)]


def test_managers_of_a_project_set_its_budget(people: Any, clock: Clock, settings: Any) -> None:
    shop = people.ana.project
    with pytest.raises(Forbidden):
        budgets.put(people.ana.context(), shop.id, Decimal(5), SET, None)
    RoleAssignment.objects.create(user=people.bo.user, project=shop, role=Role.objects.get(name="manager"))
    bo = signed_in("bo")
    wrong = bo.post(f"/budgets/{shop.id}", {"amount": "0,001", "thresholds": "50", "revision": "0"})
    assert (wrong.status_code, 'value="0,001"' in wrong.content.decode()) == (400, True)
    sent = {"amount": "40,5", "thresholds": "80, 50 %", "revision": "0"}
    assert bo.post(f"/budgets/{shop.id}", sent)["Location"] == "/usage"
    assert bo.post(f"/budgets/{shop.id}", sent).status_code == 412
    found = Budget.objects.get()
    assert (found.amount, found.thresholds, found.set_by) == (Decimal("40.50"), [50, 80], "bo")
    clock.reach(41)
    for path in ("/", "/usage"):
        assert "This month's budget is used up. Servers keep running" in text(signed_in("ana").get(path)), path
    assert "Das Budget dieses Monats ist aufgebraucht" in text(bo.get("/usage", headers={"accept-language": "de"}))
    assert "Change budget" in text(bo.get("/usage"))
    assert "Change budget" not in text(signed_in("ana").get("/usage"))
    assert signed_in("chi").get(f"/budgets/{shop.id}").status_code == 404
    assert bo.post(f"/budgets/{shop.id}", {"remove": "yes", "revision": "1"}).status_code == 302
    settings.NOVELLA_PRICES = {}
    assert "Pricing isn't configured" in text(signed_in("admin").get(f"/budgets/{shop.id}"))
    with pytest.raises(Conflict):
        put(people)


@pytest.mark.parametrize(
    ("amount", "thresholds", "field"),
    [
        *((amount, SET, "amount") for amount in ("0", "1.001", "NaN", "1e12")),
        *(("5", percents, "thresholds") for percents in ((0,), (1001,), range(1, 12))),
    ],
)
def test_invalid_budgets_are_named(people: Any, clock: Clock, amount: str, thresholds: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        put(people, amount, thresholds)
    assert refused.value.details["field"] == field
    assert not Budget.objects.exists()


@pytest.mark.usefixtures("databases")
def test_subscribers_get_it_once_each(people: Any, clock: Clock, settings: Any, receiver: Receiver) -> None:
    settings.NOVELLA_NOTIFICATION_PRIVATE_TARGETS = True
    requests = (
        (people.ana, SubscriptionRequest(name="hook", url=receiver.url)),
        (people.rea, SubscriptionRequest(name="chat", channel="chat", url=receiver.url, events=["budget.crossed"])),
        (people.chi, SubscriptionRequest(name="foreign", url=receiver.url)),
        (people.ana, SubscriptionRequest(name="failures", url=receiver.url, events=["*.error"])),
        (people.ana, SubscriptionRequest(name="bell", channel="bell")),
        (people.rea, SubscriptionRequest(name="bell", channel="bell")),
    )
    for person, requested in requests:
        subscriptions.subscribe(person.context(), requested)
    put(people)
    clock.reach(60)
    Subscribers(journal_aliases(), "teller").go_round()
    bodies = [json.loads(body) for _, body in receiver.got]
    sentence = "Part of the month's budget is used: 50 %, 2026-04: 60.00 / 100.00 EUR"
    assert [body["text"] for body in bodies if "text" in body] == [f"{sentence} (budget.crossed)"]
    (hook,) = (body for body in bodies if "payload" in body)
    assert (hook["event_type"], hook["priority"], hook["payload"]["schema"]) == (
        "budget.crossed",
        "INFO",
        "budget.crossed",
    )
    data = hook["payload"]["data"]
    assert (data["project_id"], data["percent"], data["spent"], data["sentence"]) == (
        people.ana.project.id,
        50,
        "60.00",
        sentence,
    )
    assert notices_of(people.ana) == [sentence]  # the bell shows it without the subscription
    assert notices_of(people.rea) == [sentence]  # and a reader gets it only by the subscription


def test_operators_see_the_budgets_of_all_projects(people: Any, clock: Clock) -> None:
    put(people)
    for person, amount in ((people.chi, "1"), (people.admin, "1000")):
        budgets.put(people.admin.context(), person.project.id, Decimal(amount), SET, None)
    clock.reach(120)
    operator, page = ApiClient(people.admin.token()), signed_in("admin")

    def names(query: str = "") -> list[str]:
        return [one["project_name"] for one in operator.get(f"/api/budgets{query}").json()["budgets"]]

    assert (names(), names("?state=spent"), names("?state=within")) == (
        ["admin", "lab", "shop"],
        ["shop"],
        ["admin", "lab"],
    )
    clock.reach(20)
    assert names("?state=will_be_spent") == ["shop"]
    first = operator.get("/api/budgets?limit=2").json()
    assert [one["project_name"] for one in first["budgets"]] == ["admin", "lab"]
    assert names(f"?limit=2&marker={first['budgets'][-1]['project_id']}") == ["shop"]
    assert operator.get("/api/budgets?marker=nobody").status_code == 400
    assert operator.get("/api/budgets?state=lost").status_code == 400
    assert ApiClient(people.ana.token()).get("/api/budgets").status_code == 403
    assert signed_in("ana").get("/budgets").status_code == 404
    shown = text(page.get("/budgets"))
    assert shown.index(">admin<") < shown.index(">lab<") < shown.index(">shop<")
    assert "forecast over budget" in shown
    assert ">lab<" not in text(page.get("/budgets?state=will_be_spent"))
    assert 'href="/budgets"' in text(page.get("/project-quotas"))


def test_the_same_over_http(people: Any, clock: Clock) -> None:
    path = f"/api/budgets/{people.ana.project.id}"
    operator, ana = ApiClient(people.admin.token()), ApiClient(people.ana.token())
    assert ana.get(path).status_code == 404
    assert operator.put(path, {"amount": "100"}).status_code == 428
    made = operator.put(path, {"amount": "100"}, headers={"If-Match": '"0"'})
    assert (made.status_code, made["ETag"], made.json()["budget"]["thresholds"]) == (200, '"1"', [50, 80, 100])
    assert operator.put(path, {"amount": "5"}, headers={"If-Match": '"0"'}).status_code == 412
    assert operator.put(path, {"amount": 5}, headers={"If-Match": "*"}).status_code == 400
    clock.reach(7)
    found = ana.get(path).json()["budget"]
    assert (found["amount"], found["spent"], found["forecast"]) == ("100.00", "7.0000", "720.0000")
    assert ana.put(path, {"amount": "5"}, headers={"If-Match": "*"}).status_code == 403
    assert ApiClient(people.chi.token()).get(path).status_code == 404
    assert operator.delete(path).status_code == 204
    with pytest.raises(NotFound):
        budgets.get(people.ana.context(), people.ana.project.id)
