"""The fleet, hosts and drains as operators see them, without a browser: what is shown, what is refused."""

from __future__ import annotations

import re
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from conductor.api_db.models import Aggregate, AggregateHost
from conductor.cell_db.models import Drain, Service
from conductor.core.request_spec import FlavorSpec
from conductor.journal.models import AuditRecord, WorkflowRun
from conductor.placement.models import ProviderInventory
from conductor.services.fleet import fleet
from conductor.services.servers import flavors
from tests import factories
from tests import fleet as made
from tests.counting import counted
from tests.fixtures.page_text import text
from tests.integration.page_clients import signed_in

DATABASES = ("default", "cell0", "cell1", "cell2")


@pytest.fixture
def admin(people: Any) -> Client:
    factories.cells()
    return signed_in("admin")


@pytest.fixture
def hosts(admin: Client) -> None:
    """Three hosts in one zone, of which one is closed and one down, and one in another cell."""
    made.add_host("sim-1", zone="az-1")
    made.add_host("sim-2")
    made.add_host("sim-3")
    made.put_into_zone("az-1", ["sim-2", "sim-3"])
    made.add_host("far-1", "cell2", zone="az-2")
    Service.objects.using("cell1").filter(host="sim-2").update(is_disabled=True, disabled_reason="new fans")
    made.silence("sim-3")
    ProviderInventory.objects.filter(provider__name="sim-1", resource_class="MEMORY_MB").update(used=8192)


def guest(people: Any, name: str, host: str, **values: Any) -> Any:
    return factories.instance(people.ana.context(), name, host=host, node=host, **values)


def tile(page: str, host: str) -> str:
    found = re.search(rf'href="/hosts/{host}" title="([^"]*)"', page)
    assert found, host
    return found[1]


def test_others_get_404(people: Any) -> None:
    ana = signed_in("ana")
    for path in ("/fleet", "/hosts/sim-1", "/hosts/sim-1/drain", "/hosts/sim-1/do/close", "/hosts/-/close?host=sim-1"):
        assert ana.get(path).status_code == 404
    assert ana.post("/hosts/sim-1/drain", {"reason": "x"}).status_code == 404


def test_the_map_says_how_many_are_in_which_state_and_how_full_they_are(admin: Client, hosts: None) -> None:
    page = text(admin.get("/fleet"))
    assert "4 hosts: 2 up, 1 closed, 1 down" in page
    assert tile(page, "sim-1") == "sim-1: up, memory used 50 %"
    assert "heat-5 is-up" in page
    assert "is-closed" in page
    assert "is-down" in page
    assert tile(page, "sim-3").startswith("sim-3: down")
    near = text(admin.get("/fleet?cell=cell1&zone=az-1&measure=cpu"))
    assert "far-1" not in near
    assert tile(near, "sim-1") == "sim-1: up, vcpus used 0 %"


def test_matching_hosts_are_highlighted_on_the_map(admin: Client, hosts: None) -> None:
    page = text(admin.get("/fleet?q=AZ-2"))
    assert "1 host matches" in page
    assert page.count("fleet-tile dim") == 3
    assert re.findall(r'<tr id="fleet-([\w-]+)"', page) == ["far-1"]


def test_overlays_count_where_servers_are_and_would_be(admin: Client, people: Any, hosts: None) -> None:
    guest(people, "web-1", "sim-1")
    page = text(admin.get(f"/fleet?overlay=project:{people.ana.project.id}"))
    assert "1 server of shop on 1 host." in page
    assert "sim-1: up, memory used 50 %, 1 server" in page
    assert re.findall(r'<tr id="fleet-([\w-]+)"', page) == ["sim-1"]
    answer = admin.get("/fleet?overlay=moon:1")
    assert (answer.status_code, "Use one of flavor, group, project, recent" in text(answer)) == (400, True)
    assert admin.get("/fleet?overlay=project:moon").status_code == 404


def test_a_flavor_fits_where_the_scheduler_would_put_it(admin: Client, people: Any, hosts: None) -> None:
    wanted = flavors.NewFlavor(FlavorSpec("half", "half", vcpus=2, memory_mb=8192, root_gb=1))
    flavors.create(people.admin.context(), wanted)
    page = text(admin.get("/fleet?overlay=flavor:half"))
    assert "2 of 4 hosts would take half now" in page
    assert tile(page, "sim-1").endswith("1 more")
    assert tile(page, "far-1").endswith("2 more")
    assert tile(page, "sim-2").endswith("0 more")  # it is closed


def test_several_hosts_are_closed_with_an_answer_for_each(admin: Client, hosts: None) -> None:
    picked = "host=sim-1&host=sim-2&host=far-1"
    assert text(admin.get("/fleet")).count("data-host=") == 4
    requested = text(admin.get(f"/hosts/-/close?{picked}"))
    assert ("Disable: 3 hosts?" in requested, requested.count("The host is already disabled.")) == (True, 1)
    names = ["sim-1", "sim-2", "far-1"]
    answer = admin.post("/hosts/-/close", {"host": names, "reason": " "})
    assert (answer.status_code, "Enter a reason" in text(answer)) == (400, True)
    done = text(admin.post("/hosts/-/close", {"host": names, "reason": "new fans for all"}))
    assert "Disable: 2 completed, 1 refused" in done
    for alias, host in (("cell1", "sim-1"), ("cell2", "far-1")):
        service = Service.objects.using(alias).get(host=host)
        assert (service.is_disabled, service.disabled_reason) == (True, "new fans for all")
    assert Service.objects.using("cell1").get(host="sim-2").disabled_reason == "new fans"
    kept = [record for alias in DATABASES for record in AuditRecord.objects.using(alias).filter(action="host.close")]
    assert sorted(record.result for record in kept) == ["done", "done", "refused"]
    opened = text(admin.post("/hosts/-/open", {"host": [*names, "moon"], "reason": "they are in"}))
    assert "Enable: 3 completed, 1 refused" in opened
    statuses = [admin.get(f"/hosts/-/{rest}").status_code for rest in ("fence?host=sim-1", "close")]
    assert statuses == [404, 400]


def test_bad_addresses_are_named(admin: Client, hosts: None) -> None:
    answer = admin.get("/fleet?measure=mood")
    assert (answer.status_code, "Use one of memory, cpu" in text(answer)) == (400, True)
    assert admin.get("/fleet?cell=moon").status_code == 404
    assert admin.get("/hosts/moon").status_code == 404


def test_many_hosts_cost_no_more_statements_and_are_drawn_as_few_paths(
    admin: Client, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(first: int, last: int) -> None:
        Service.objects.using("cell1").bulk_create(
            [
                Service(
                    binary="nova-compute", host=f"many-{number}", last_seen_at=factories.ago(0),
                    created_at=factories.ago(9),
                )
                for number in range(first, last)
            ]
        )  # fmt: skip

    def cost() -> tuple[int, int]:
        with ExitStack() as stack:
            seen = [stack.enter_context(counted(alias)) for alias in DATABASES]
            found = fleet.survey(people.admin.context())
        return len(found.hosts), sum(len(one.statements) for one in seen)

    add(0, 5)
    few = cost()
    add(5, 2000)
    assert cost() == (2000, few[1])
    page = text(admin.get("/fleet"))
    assert 'aria-label="nova: 2,000 hosts: 2,000 up' in page
    assert page.count('class="sq heat-0 is-up" d="M') < 10
    assert page.count("<tr id=") == 100
    assert 'data-hosts="many-0 many-1 many-10 many-100 ' in page  # the host at each position
    assert 'data-hosts="~many-0 ~many-1 many-10 many-100 ' in text(admin.get("/fleet?q=many-10"))
    monkeypatch.setattr("portal.pages.hosts.fleet.MOST_DRAWN", 1999)
    page = text(admin.get("/fleet"))
    assert ("only totals are shown" in page, "fleet-squares" in page) == (True, False)


def test_the_page_of_a_host_shows_what_is_there(admin: Client, people: Any, hosts: None) -> None:
    of = guest(people, "web-1", "sim-1")
    AggregateHost.objects.create(aggregate=Aggregate.objects.create(name="rack-7"), host="sim-1")
    page = text(admin.get("/hosts/sim-1"))
    assert f'id="guest-{of.uuid}"' in page
    assert "web-1" in page
    assert "shop" in page
    assert "8 GB of 16 GB" in page
    assert "rack-7" in page
    assert "The host is enabled and has 1 server." in page
    assert "The host is in service." in page  # why it cannot be returned to service
    assert "new fans" in text(admin.get("/hosts/sim-2"))


def test_a_host_is_closed_and_opened_with_a_reason_on_record(admin: Client, hosts: None) -> None:
    refused = admin.post("/hosts/sim-1/do/close", {"reason": " "})
    assert (refused.status_code, "Enter a reason" in text(refused)) == (400, True)
    assert not Service.objects.using("cell1").get(host="sim-1").is_disabled
    answer = admin.post("/hosts/sim-1/do/close", {"reason": "new disks"}, follow=True)
    assert "is disabled" in text(answer)
    assert Service.objects.using("cell1").get(host="sim-1").disabled_reason == "new disks"
    again = admin.post("/hosts/sim-1/do/close", {"reason": "twice"})
    assert (again.status_code, "The host is already disabled." in text(again)) == (409, True)
    admin.post("/hosts/sim-1/do/open", {"reason": "done"})
    assert not Service.objects.using("cell1").get(host="sim-1").is_disabled
    kept = AuditRecord.objects.using("cell1").order_by("pk").values_list("action", "result", "reason", "details")
    assert list(kept) == [
        ("host.close", "done", "new disks", {"host": "sim-1"}),
        ("host.open", "done", "done", {"host": "sim-1"}),
    ]
    assert AuditRecord.objects.filter(action="host.close", result="refused").count() == 2


def test_destructive_actions_are_confirmed_by_the_hosts_name(admin: Client, hosts: None) -> None:
    answer = admin.post("/hosts/sim-3/do/fence", {"reason": "no power", "confirm": "sim-2"})
    assert (answer.status_code, "Type sim-3 to confirm." in text(answer)) == (400, True)
    assert not Service.objects.using("cell1").filter(is_forced_down=True).exists()
    early = admin.post("/hosts/sim-3/do/evacuate", {"reason": "dead", "confirm": "sim-3"})
    assert (early.status_code, "is down but not fenced" in text(early)) == (409, True)
    assert admin.post("/hosts/sim-3/do/fence", {"reason": "no power", "confirm": "sim-3"}).status_code == 302
    assert Service.objects.using("cell1").get(host="sim-3").is_forced_down
    assert admin.get("/hosts/sim-3/do/dance").status_code == 404


def test_a_drain_is_shown_before_it_is_begun(admin: Client, people: Any, hosts: None) -> None:
    made.add_host("sim-4")
    made.put_into_zone("az-1", ["sim-4"])
    guest(people, "web-1", "sim-1")
    broken = guest(people, "web-2", "sim-1", vm_state="error")
    page = text(admin.get("/hosts/sim-1/drain"))
    assert "1 of 2 servers can move" in page
    assert '<a href="/hosts/sim-4">sim-4</a>' in page
    assert "it is in error" in page
    assert 'name="allows_cold" value="1">' in page  # cold moves are off by default
    for values, reported in (
        ({"most_at_once": "2", "reason": ""}, "Enter a reason"),
        ({"most_at_once": "0", "reason": "fans"}, "1 to 100"),
        ({"most_at_once": "many", "reason": "fans"}, "1 to 100"),
        ({"deadline": "2020-01-31T12:00", "reason": "fans"}, "must be in the future"),
        ({"deadline": "soon", "reason": "fans"}, "a date and time"),
    ):
        refused = admin.post("/hosts/sim-1/drain", {"sent": "1", **values})
        assert (refused.status_code, reported in text(refused)) == (400, True)
    assert not Drain.objects.using("cell1").exists()
    assert not WorkflowRun.objects.using("cell1").exists()
    begun = admin.post("/hosts/sim-1/drain", {"sent": "1", "most_at_once": "3", "reason": "fans"}, follow=True)
    drain = Drain.objects.using("cell1").get()
    assert (drain.most_at_once, drain.allows_cold) == (3, False)
    page = text(begun)
    assert "0 of 2 moved, 0 moving, 2 left, 1 can't move; 3 at a time." in page
    assert f'id="guest-{broken.uuid}"' in page
    assert AuditRecord.objects.using("cell1").get(action="host.drain").reason == "fans"
    assert "is-draining" in text(admin.get("/fleet"))
    assert "The host is being drained: cancel the drain first." in text(admin.get("/hosts/sim-1"))


def test_the_maintenance_note_of_a_host_is_shown_until_it_is_back(admin: Client, hosts: None) -> None:
    early = admin.post("/hosts/sim-1/note", {"note": "new fans"})
    assert (early.status_code, "before you add a maintenance note" in text(early)) == (409, True)
    admin.post("/hosts/sim-1/do/close", {"reason": "fans"})
    kept = admin.post("/hosts/sim-1/note", {"note": "new fans\nuntil <Friday>"}, follow=True)
    assert "new fans<br>until &lt;Friday&gt;" in text(kept)
    assert "until &lt;Friday&gt;" in text(admin.get("/hosts"))
    record = AuditRecord.objects.using("cell1").get(action="host.note")
    assert record.details == {"host": "sim-1", "note": "new fans\nuntil <Friday>", "before": ""}
    admin.post("/hosts/sim-1/do/open", {"reason": "done"})
    assert "until &lt;Friday&gt;" not in text(admin.get("/hosts")) + text(admin.get("/hosts/sim-1"))


def test_a_drain_is_steered_from_its_page(admin: Client, people: Any, hosts: None) -> None:
    guest(people, "web-1", "sim-1")
    admin.post("/hosts/sim-1/drain", {"sent": "1", "most_at_once": "1", "allows_cold": "1", "reason": "fans"})
    paused = admin.post("/hosts/sim-1/drain/pause", follow=True)
    assert "Drain paused. No further moves start." in text(paused)
    assert "The drain is already paused." in text(paused)
    assert Drain.objects.using("cell1").get().is_paused
    admin.post("/hosts/sim-1/drain/resume")
    assert not Drain.objects.using("cell1").get().is_paused
    odd = admin.post("/hosts/sim-1/drain/explode", follow=True)
    assert "Unknown action explode" in text(odd)
    Drain.objects.using("cell1").update(is_late=True, deadline_at=datetime(2020, 1, 31, 12, tzinfo=UTC))
    assert "Deadline passed, 1 left" in text(admin.get("/hosts/sim-1/drain"))
    early = admin.post("/hosts/sim-1/drain/resume", {"deadline": "2020-02-28T12:00"})
    assert (early.status_code, 'value="2020-02-28T12:00"' in text(early)) == (400, True)
    admin.post("/hosts/sim-1/drain/resume", {"deadline": "2099-01-31T12:00"})
    drain = Drain.objects.using("cell1").get()
    assert (drain.is_late, drain.deadline_at) == (False, datetime(2099, 1, 31, 12, tzinfo=UTC))
    admin.post("/hosts/sim-1/drain/cancel")
    assert WorkflowRun.objects.using("cell1").get(flow="drain_host").is_cancel_requested
    actions = AuditRecord.objects.using("cell1").order_by("pk").values_list("action", flat=True)
    assert list(actions) == [
        "host.drain",
        "host.drain.pause",
        "host.drain.resume",
        "host.drain.resume",
        "host.drain.cancel",
    ]
