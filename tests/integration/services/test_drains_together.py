"""Several hosts emptied together: planned so that none takes a server of another, begun all or none, steered."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import Drain, Service
from conductor.core.errors import Conflict, Forbidden, Invalid
from conductor.journal.models import AuditRecord, WorkflowRun
from conductor.services.fleet import drains, host_actions
from conductor.services.fleet.drains import DrainRequest
from conductor.services.scheduling import what_if
from tests import factories
from tests import fleet as made
from tests.fixtures.drains import drained
from tests.integration.flows.conftest import ana, hosts, launch
from tests.integration.flows.moving import Hosts, instance_of
from tests.integration.page_clients import signed_in, text

__all__ = ["ana", "hosts", "launch"]

CELL = "cell1"


@pytest.fixture
def four(people: Any) -> Any:
    """Four hosts, of which sim-1 and sim-2 have two servers each and far-1 is in another cell."""
    factories.cells()
    for name in ("sim-1", "sim-2", "sim-3"):
        made.add_host(name, zone="" if name != "sim-1" else "az-1")
    made.put_into_zone("az-1", ["sim-2", "sim-3"])
    made.add_host("far-1", "cell2", zone="az-2")
    for host in ("sim-1", "sim-2"):
        for number in (1, 2):
            factories.instance(people.ana.context(), f"{host}-web-{number}", host=host, node=host)
    return people.admin.context()


def nothing_begun() -> bool:
    return not any(
        (
            Drain.objects.using(CELL).exists(),
            WorkflowRun.objects.using(CELL).exists(),
            Service.objects.using(CELL).filter(is_disabled=True).exists(),
            Drain.objects.using("cell2").exists(),
        )
    )


def test_no_host_of_the_plan_takes_a_server_of_another(four: Any, people: Any) -> None:
    alone = what_if.drain(four, "sim-1")
    assert {guest.host for guest in alone.guests} <= {"sim-2", "sim-3"}
    plan = what_if.drain_all(four, ["sim-1", "sim-2", "sim-1"])
    assert [one.host for one in plan.hosts] == ["sim-1", "sim-2"]
    assert {guest.host for one in plan.hosts for guest in one.guests} == {"sim-3"}
    assert (plan.moved, plan.staying) == (4, 0)
    taken = plan.room_before["free_vcpus"] - plan.room_after["free_vcpus"]
    assert taken == 4
    everything = what_if.drain_all(four, ["sim-1", "sim-2", "sim-3"])
    assert (everything.moved, everything.staying) == (0, 4)
    assert all(guest.reason for one in everything.hosts for guest in one.guests)
    with pytest.raises(Forbidden):
        what_if.drain_all(people.ana.context(), ["sim-1"])
    assert nothing_begun()


def test_several_drains_begin_together_or_not_at_all(four: Any) -> None:
    with pytest.raises(Invalid):
        host_actions.drain_all(four, ["sim-1", "sim-2"], DrainRequest(), reason=" ")
    with pytest.raises(Invalid):
        host_actions.drain_all(four, [], DrainRequest(), reason="fans")
    assert nothing_begun()
    host_actions.drain(four, "sim-2", DrainRequest(), reason="alone")
    drains.act(four, "sim-2", "pause")
    with pytest.raises(Conflict):
        host_actions.drain_all(four, ["far-1", "sim-1", "sim-2"], DrainRequest(), reason="fans")
    assert list(Drain.objects.using(CELL).values_list("host", flat=True)) == ["sim-2"]
    assert not Drain.objects.using("cell2").exists()
    assert not Service.objects.using(CELL).get(host="sim-1").is_disabled
    refused = AuditRecord.objects.filter(action="host.drain", result="refused").values_list("details", flat=True)
    assert [one["host"] for one in refused] == ["sim-1", "sim-2"]
    uuids = host_actions.drain_all(four, ["far-1", "sim-1"], DrainRequest(3, False), reason="fans")
    assert len(set(uuids)) == 2
    assert AuditRecord.objects.using("cell2").get(action="host.drain").reason == "fans"
    found = drains.under_way(four)
    assert [(one.host, one.cell, one.requested) for one in found.items] == [
        ("far-1", "cell2", DrainRequest(3, False)),
        ("sim-1", "cell1", DrainRequest(3, False)),
        ("sim-2", "cell1", DrainRequest()),
    ]


def test_the_pages_plan_begin_and_steer_all(four: Any) -> None:
    admin = signed_in("admin")
    listed = text(admin.get("/hosts"))
    assert 'name="host" value="sim-1"' in listed
    assert 'action="/drains/new"' in listed
    assert admin.get("/drains/new").status_code == 400
    assert admin.get("/drains/new?host=moon").status_code == 404
    page = text(admin.get("/drains/new?host=sim-1&host=sim-2"))
    assert "4 servers can move" in page
    assert '<a href="/hosts/sim-3">sim-3</a>' in page
    form = {"host": ["sim-1", "sim-2"], "sent": "1", "most_at_once": "2", "reason": ""}
    for values, reported in ((form, "Enter a reason"), ({**form, "most_at_once": "0"}, "1 to 100")):
        refused = admin.post("/drains/new", values)
        assert (refused.status_code, reported in text(refused)) == (400, True)
    assert nothing_begun()
    begun = admin.post("/drains/new", {**form, "reason": "new fans", "allows_cold": "1"}, follow=True)
    page = text(begun)
    assert begun.redirect_chain[0][0] == "/drains?host=sim-1&host=sim-2"
    assert "2 hosts are being emptied." in page
    assert "0 of 4 servers moved; 2 of 2 hosts draining" in page
    again = admin.post("/drains/new", {**form, "reason": "twice"})
    assert again.status_code == 409
    paused = text(admin.post("/drains/do/pause", {"host": ["sim-1", "sim-2"]}, follow=True))
    assert "2 hosts: Drain paused. No further moves start." in paused
    assert Drain.objects.using(CELL).filter(is_paused=True).count() == 2
    odd = text(admin.post("/drains/do/pause", {"host": ["sim-1", "sim-3"]}, follow=True))
    assert "Host sim-3 was never drained." in odd
    assert admin.post("/drains/do/explode", {"host": "sim-1"}).status_code == 404
    assert signed_in("ana").get("/drains").status_code == 404


def test_resume_all_asks_for_another_deadline_where_one_has_passed(four: Any) -> None:
    host_actions.drain_all(four, ["sim-1", "sim-2"], DrainRequest(), reason="fans")
    admin, rows = signed_in("admin"), Drain.objects.using(CELL)
    rows.update(is_paused=True)
    rows.filter(host="sim-2").update(deadline_at=factories.ago(5))  # not checked while it is paused
    requested = text(admin.post("/drains/do/resume", {"host": ["sim-1", "sim-2"]}))
    assert "The deadline of 1 drain has passed." in requested
    assert rows.filter(is_paused=True).count() == 2, "it asks first"
    past = admin.post("/drains/do/resume", {"host": ["sim-1", "sim-2"], "deadline": "2020-01-31T12:00"})
    assert (past.status_code, "must be in the future" in text(past), rows.filter(is_paused=True).count()) == (
        400,
        True,
        2,
    )
    until = {"host": ["sim-1", "sim-2"], "deadline": "2099-01-31T12:00"}
    assert "2 hosts: Drain resumed." in text(admin.post("/drains/do/resume", until, follow=True))
    kept = {row.host: row.deadline_at and row.deadline_at.year for row in rows.all()}
    assert (kept, rows.filter(is_paused=True).count()) == ({"sim-1": None, "sim-2": 2099}, 0)
    rows.filter(host="sim-2").update(deadline_at=factories.ago(5), is_late=True)
    admin.post("/drains/do/resume", {**until, "deadline": ""})
    assert rows.get(host="sim-2").deadline_at is None, "without any, as it was asked"


def test_two_of_three_hosts_are_emptied_onto_the_third(hosts: Hosts, launch: Any, people: Any) -> None:
    uuids = [launch(f"web-{number}") for number in range(3)]
    leaving = [f"sim-{number}" for number in (1, 2)]
    host_actions.drain_all(people.admin.context(), leaving, DrainRequest(), reason="fans")
    assert drained(hosts)
    assert {instance_of(uuid).host for uuid in uuids} == {"sim-3"}
    assert drains.under_way(people.admin.context()).items == []
    moves = WorkflowRun.objects.using(CELL).filter(flow="live_migrate_instance", state="done")
    assert len(set(moves.values_list("instance_uuid", flat=True))) == moves.count()  # no server twice
    page = text(signed_in("admin").get("/drains?host=sim-1&host=sim-2"))
    assert "0 of 2 hosts draining" in page
