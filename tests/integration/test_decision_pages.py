"""Pages of decisions that are asked again, and the launch form's meter."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test import Client

from conductor.api_db.models import HostSnapshot, InstanceMapping, SchedulingDecision
from conductor.cell_db.models import Service
from conductor.core.context import system_context
from conductor.core.errors import NoValidHost
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.journal.models import WorkflowRun
from conductor.placement.models import Allocation
from conductor.scheduler import manager
from conductor.scheduler.manager import Transaction
from conductor.services import flavors
from conductor.transactions import write_tx
from tests import factories
from tests.fleet import add_host
from tests.integration.page_clients import signed_in

HOSTS = ("quokka", "wombat", "numbat")


@pytest.fixture
def run(people: Any) -> WorkflowRun:
    """A workflow of ana's, on a fleet of three, one of which is closed."""
    for host, memory_mb in zip(HOSTS, (4096, 2048, 1024), strict=True):
        add_host(host, size=(8, memory_mb, 100))
    Service.objects.using("cell1").filter(host="numbat").update(is_disabled=True)
    return factories.run(people.ana.context(), instance_name="web-1")


def decided(
    run: WorkflowRun, person: Any, memory_mb: int, *, uuid: str = "", transaction: Transaction = write_tx
) -> SchedulingDecision:
    spec = RequestSpec(person.project.id, person.user.id, FlavorSpec("1", "small", 1, memory_mb, root_gb=1))
    key = str(uuid4())
    with suppress(NoValidHost):
        manager.select_destinations(
            system_context(),
            spec,
            [uuid or str(uuid4())],
            step_key=key,
            run_uuid=str(run.uuid),
            transaction=transaction,
        )
    return SchedulingDecision.objects.get(step_key=key)


def page(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def test_operators_read_every_filter_about_every_host(run: WorkflowRun, people: Any) -> None:
    row = decided(run, people.ana, 5000)
    html = page(signed_in("admin"), f"/decisions/{row.uuid}")
    assert all(name in html for name in HOSTS)
    assert "It fits with 4096 MB of memory in place of 5000." in html
    assert "needs 5000 MB, has 4096 MB free" in html
    assert "3 turned away, 2 alone" in html
    assert "small: 1 vCPU, 5000 MB, 1 GB disk" in html
    tab = page(signed_in("admin"), f"/workflows/{run.uuid}/placement")
    assert f'href="/decisions/{row.uuid}"' in tab
    assert f'hx-get="/decisions/{row.uuid}/fits-if"' in tab


def test_tenants_read_what_to_change_and_no_hosts_name(run: WorkflowRun, people: Any) -> None:
    row = decided(run, people.ana, 5000)
    ana = signed_in("ana")
    for path in ("", "/fits-if", "?fleet=then", "?fleet=now"):
        html = page(ana, f"/decisions/{row.uuid}{path}")
        assert "It fits with 4096 MB of memory in place of 5000." in html
        assert not any(name in html for name in HOSTS)
    for path in ("", "/fits-if"):
        page(signed_in("chi"), f"/decisions/{row.uuid}{path}", 404)
        assert Client().get(f"/decisions/{row.uuid}{path}").status_code == 302


Launched = tuple[WorkflowRun, SchedulingDecision]


def raced(*people: Any) -> tuple[Launched, Launched]:
    """Two people launch and decide on the only place of the best host before either claims it; who won, who lost."""
    both = threading.Barrier(2)
    waits = [True, True]

    @contextmanager
    def together(alias: str) -> Iterator[None]:
        if waits:
            waits.pop()
            both.wait(60)
        with write_tx(alias):
            yield

    def launched(person: Any) -> WorkflowRun:
        run = factories.run(person.context(), instance_uuid=str(uuid4()), instance_name="web")
        InstanceMapping.objects.create(
            instance_uuid=run.instance_uuid, project_id=run.project_id, user_id=run.user_id, build_run_uuid=run.uuid,
            created_at=run.created_at,
        )  # fmt: skip
        return run

    def race(person: Any, run: WorkflowRun) -> Launched:
        row = decided(run, person, 512, uuid=str(run.instance_uuid), transaction=together)
        connections.close_all()
        return run, row

    launches = [launched(person) for person in people]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(race, people, launches))
    [winner] = [pair for pair in found if not pair[1].summary["lost_races"]]
    [loser] = [pair for pair in found if pair[1].summary["lost_races"]]
    return winner, loser


def test_who_loses_the_last_place_reads_who_took_it_and_what_came_next(people: Any) -> None:
    for host, memory_mb in (("best", 8192), ("next", 4096)):
        add_host(host, size=(1, memory_mb, 100))
    (winner, _), (loser, decision) = raced(people.ana, people.ana)
    assert decision.selections[0][0]["host"] == "next"
    html = page(signed_in("admin"), f"/workflows/{loser.uuid}/placement")
    assert "The claim on best came too late" in html
    assert "When it was claimed, not enough was left of this: vCPU." in html
    assert f'<a href="/workflows/{winner.uuid}">This workflow took it.</a> Next came next.' in html
    html = page(signed_in("ana"), f"/workflows/{loser.uuid}/placement")
    assert "1 claim came too late" in html
    assert "The next best host was taken instead." in html
    assert "came too late" not in page(signed_in("ana"), f"/workflows/{winner.uuid}/placement")


def test_it_is_decided_again_and_nothing_is_claimed(run: WorkflowRun, people: Any) -> None:
    row = decided(run, people.ana, 1500)
    admin = signed_in("admin")
    assert "On the hosts as they were: It would go to quokka" in page(admin, f"/decisions/{row.uuid}?fleet=then")
    Service.objects.using("cell1").update(is_disabled=True)
    html = page(admin, f"/decisions/{row.uuid}?fleet=now")
    assert "On today&#x27;s hosts: No host would fit" in html
    assert "That is not how it ended." in html
    page(admin, f"/decisions/{row.uuid}?fleet=tomorrow", 400)
    page(admin, f"/decisions/{row.uuid}?marker=moon/moon", 404)
    assert SchedulingDecision.objects.count() == 1
    assert Allocation.objects.values("consumer").distinct().count() == 1


def test_what_is_not_kept_any_more_is_said(run: WorkflowRun, people: Any) -> None:
    row = decided(run, people.ana, 1500)
    HostSnapshot.objects.all().delete()
    html = page(signed_in("admin"), f"/decisions/{row.uuid}?fleet=then")
    assert html.count("is not kept any more: it is for 7 days") == 2
    assert "Every filter about every host" not in html


def test_an_old_decision_without_any_of_it_is_shown(run: WorkflowRun, people: Any) -> None:
    row = factories.decision(run, **factories.some_decision())
    html = page(signed_in("admin"), f"/decisions/{row.uuid}")
    assert "was not kept" in html


def test_the_launch_form_says_whether_it_fits(run: WorkflowRun, people: Any) -> None:
    admin = people.admin.context()
    flavors.seed()
    image = factories.image("simulated-linux", admin, is_simulated=True)
    factories.network("private", admin)
    ana = signed_in("ana")
    path = f"/servers/launch/summary?image={image.uuid}&flavor="
    assert "Fits now: 2 of 3 hosts" in page(ana, f"{path}1")
    few = page(ana, f"{path}2&count=100")
    assert "of 100 now" in few
    assert "in place of 100." in few
    Service.objects.using("cell1").filter(host="quokka").update(is_disabled=True)
    none = page(ana, f"{path}4")
    assert "Does not fit now" in none
    assert not any(name in few + none for name in HOSTS)
    assert "Fits" not in page(ana, "/servers/launch/summary?image=none&flavor=1")
    form = page(ana, "/servers/launch")
    assert "Fits now" in form
    # Sizes that no host takes are greyed, say why, and can be asked what would make them fit; the chosen one stays.
    offered = re.findall(r'name="flavor" value="(.)"( checked| disabled)?', form)
    assert offered == [("1", " checked"), ("2", ""), ("3", ""), ("4", " disabled")]
    assert "2 of 3 hosts: not enough memory (4096 MB needed)." in form
    assert re.search(r'flavor=4&amp;image=[^"]+" data-choose="flavor-4"', form)
    assert 'id="flavor-4" name="flavor" value="4" disabled' in form
    assert 'value="4" checked' in page(ana, f"/servers/launch?flavor=4&image={image.uuid}")
    assert not SchedulingDecision.objects.exists()
