"""Pages of decisions that are asked again, and the launch form's meter."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from conductor.api_db.models import HostSnapshot, SchedulingDecision
from conductor.cell_db.models import Service
from conductor.journal.models import WorkflowRun
from conductor.placement.models import Allocation
from conductor.services.servers import flavors
from tests import factories
from tests.fixtures.decisions import decided, raced
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


def page(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def test_operators_read_every_filter_about_every_host(run: WorkflowRun, people: Any) -> None:
    row = decided(run, people.ana, 5000)
    html = page(signed_in("admin"), f"/decisions/{row.uuid}")
    assert all(name in html for name in HOSTS)
    assert "It fits with 4,096 MB of memory instead of 5,000." in html
    assert "needs 5,000 MB, has 4,096 MB free" in html
    assert "3 rejected, 2 by this filter alone" in html
    assert "small: 1 vCPU, 5000 MB memory, 1 GB disk" in html
    tab = page(signed_in("admin"), f"/workflows/{run.uuid}/placement")
    assert f'href="/decisions/{row.uuid}"' in tab
    assert f'hx-get="/decisions/{row.uuid}/fits-if"' in tab


def test_tenants_read_what_to_change_and_no_hosts_name(run: WorkflowRun, people: Any) -> None:
    row = decided(run, people.ana, 5000)
    ana = signed_in("ana")
    for path in ("", "/fits-if", "?fleet=then", "?fleet=now"):
        html = page(ana, f"/decisions/{row.uuid}{path}")
        assert "It fits with 4,096 MB of memory instead of 5,000." in html
        assert not any(name in html for name in HOSTS)
    for path in ("", "/fits-if"):
        page(signed_in("chi"), f"/decisions/{row.uuid}{path}", 404)
        assert Client().get(f"/decisions/{row.uuid}{path}").status_code == 302


def test_a_lost_claim_is_shown_with_the_winner_and_the_next_host(people: Any) -> None:
    for host, memory_mb in (("best", 8192), ("next", 4096)):
        add_host(host, size=(1, memory_mb, 100))
    (winner, _), (loser, decision) = raced(people.ana, people.ana)
    assert decision.selections[0][0]["host"] == "next"
    html = page(signed_in("admin"), f"/workflows/{loser.uuid}/placement")
    assert "The claim on best was too late" in html
    assert "Capacity that was missing when the host was claimed: vCPU." in html
    assert f'<a href="/workflows/{winner.uuid}">Open the workflow that claimed it.</a> Next host: next.' in html
    html = page(signed_in("ana"), f"/workflows/{loser.uuid}/placement")
    assert "1 claim was too late: the host had no capacity left." in html
    assert "The next best host was selected instead." in html
    assert "was too late" not in page(signed_in("ana"), f"/workflows/{winner.uuid}/placement")


def test_a_decision_is_evaluated_again_without_a_claim(run: WorkflowRun, people: Any) -> None:
    row = decided(run, people.ana, 1500)
    admin = signed_in("admin")
    assert "On the hosts as recorded: Selected hosts: quokka" in page(admin, f"/decisions/{row.uuid}?fleet=then")
    Service.objects.using("cell1").update(is_disabled=True)
    html = page(admin, f"/decisions/{row.uuid}?fleet=now")
    assert "On the current hosts: No host would be available" in html
    assert "The result differs from the original decision." in html
    page(admin, f"/decisions/{row.uuid}?fleet=tomorrow", 400)
    page(admin, f"/decisions/{row.uuid}?marker=moon/moon", 404)
    assert SchedulingDecision.objects.count() == 1
    assert Allocation.objects.values("consumer").distinct().count() == 1


def test_pruned_decisions_are_shown_as_pruned(run: WorkflowRun, people: Any) -> None:
    row = decided(run, people.ana, 1500)
    HostSnapshot.objects.all().delete()
    html = page(signed_in("admin"), f"/decisions/{row.uuid}?fleet=then")
    assert html.count("is no longer stored: it is kept for 7 days") == 2
    assert "All filters on all hosts" not in html


def test_an_old_decision_without_any_of_it_is_shown(run: WorkflowRun, people: Any) -> None:
    row = factories.decision(run, **factories.some_decision())
    html = page(signed_in("admin"), f"/decisions/{row.uuid}")
    assert "is no longer stored" in html


def test_the_launch_form_says_whether_it_fits(run: WorkflowRun, people: Any) -> None:
    admin = people.admin.context()
    flavors.seed()
    image = factories.image("simulated-linux", admin, is_simulated=True)
    factories.network("private", admin)
    ana = signed_in("ana")
    path = f"/servers/launch/summary?image={image.uuid}&flavor="
    assert "Fits now on 2 of 3 hosts" in page(ana, f"{path}1")
    few = page(ana, f"{path}2&count=100")
    assert "of 100 servers fit now" in few
    assert "instead of 100." in few
    Service.objects.using("cell1").filter(host="quokka").update(is_disabled=True)
    none = page(ana, f"{path}4")
    assert "Doesn&#x27;t fit now" in none
    assert not any(name in few + none for name in HOSTS)
    assert "Fits" not in page(ana, "/servers/launch/summary?image=none&flavor=1")
    form = page(ana, "/servers/launch")
    assert "Fits now" in form
    # Sizes without a host are greyed, give a reason, and link to what would make them fit; the selected one stays.
    offered = re.findall(r'name="flavor" value="(.)"( checked| disabled)?', form)
    assert offered == [("1", " checked"), ("2", ""), ("3", ""), ("4", " disabled")]
    assert "2 of 3 hosts: not enough memory (4,096 MB needed)." in form
    assert re.search(r'flavor=4&amp;image=[^"]+" data-choose="flavor-4"', form)
    assert 'id="flavor-4" name="flavor" value="4" disabled' in form
    assert 'value="4" checked' in page(ana, f"/servers/launch?flavor=4&image={image.uuid}")
    assert not SchedulingDecision.objects.exists()
