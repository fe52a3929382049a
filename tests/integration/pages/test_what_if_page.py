"""The what-if page: it answers from its address alone, compares, and changes nothing."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest

from conductor.api_db.models import PluginChoice, PluginProposal, SchedulingDecision
from conductor.core.errors import Forbidden, Invalid, NotFound
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.image.models import Image
from conductor.journal.models import AuditRecord
from conductor.scheduler.active_plugins import in_force
from conductor.services.plugins import plugins, proposals
from conductor.services.plugins.plugins import PluginSettingsChange
from conductor.services.scheduling import what_if_batches, what_if_comparisons
from conductor.services.scheduling.what_if_comparisons import WhatIfChanges, WhatIfRequest
from conductor.services.servers.types import InstanceCreate
from tests import factories
from tests.fixtures.what_if import everything
from tests.fixtures.what_if_callers import caller
from tests.integration.page_clients import signed_in, text

__all__ = ["caller"]


def question(count: int = 1, flavor: str = "1", **more: Any) -> WhatIfRequest:
    image = str(Image.objects.get(name="small-linux").uuid)
    return WhatIfRequest(InstanceCreate("what-if", flavor, image, count, count, **more))


def ask(caller: Any, *, of: WhatIfRequest | None = None, **supposed: Any) -> Any:
    return what_if_comparisons.compare(caller, of or question(), WhatIfChanges(**supposed))


def address(**requested: str) -> dict[str, str]:
    return {"flavor": "1", "image": str(Image.objects.get(name="small-linux").uuid), **requested}


def test_without_changes_it_shows_the_current_state(caller: Any, people: Any) -> None:
    found = ask(caller, of=question(3))
    assert (found.now.fits, found.now.placed, found.now.num_hosts, found.then) == (True, 3, 4, None)
    assert all(stage.by == 0 for stage in found.stages)
    assert sum(host.servers_now for host in found.hosts) == 3
    with pytest.raises(Forbidden):
        ask(people.ana.context())


def test_racks_go_and_hosts_come(caller: Any) -> None:
    gone = ask(caller, without=("rack*",))
    assert (gone.then.num_hosts, gone.taken_away) == (1, ["rack1-01", "rack1-02", "rack2-01"])
    assert set(gone.then.hosts) == {"big-01"}
    fates = {host.host: host.fate for host in gone.hosts}
    assert fates["rack1-01"] == "gone"
    closed = ask(caller, closed=("big-01", "rack*"))
    assert (closed.then.fits, closed.then.num_hosts, closed.then.num_fitting) == (False, 4, 0)
    assert sum(stage.by for stage in closed.stages) == 4
    more = ask(caller, of=question(availability_zone="az-2"), add=(what_if_comparisons.NewHosts(2, "big-01"),))
    assert (more.then.num_hosts, more.now.num_fitting, more.then.num_fitting) == (6, 1, 3)
    assert {host.host for host in more.hosts if host.fate == "new"} == {"new-1", "new-2"}


def test_other_filters_and_weights_change_the_decision(caller: Any) -> None:
    before, choices = everything(), in_force()
    zoned = question(availability_zone="az-2")
    off = {"filter": {"ComputeFilter": PluginSettingsChange(is_enabled=False, keys=frozenset({"is_enabled"}))}}
    assert ask(caller, of=zoned).now.num_fitting == 1
    found = ask(caller, of=zoned, plugins=off)
    requested = {stage.filter: stage for stage in found.stages}
    assert (requested["ComputeFilter"].now, requested["ComputeFilter"].then) == (0, None)
    heavy = {"weigher": {"RAMWeigher": PluginSettingsChange(multiplier=-5.0, keys=frozenset({"multiplier"}))}}
    light = ask(caller, plugins=heavy)
    assert set(light.now.hosts) == {"big-01"}
    assert "big-01" not in light.then.hosts
    assert (everything(), in_force()) == (before, choices)


@pytest.mark.parametrize(
    ("supposed", "field"),
    [
        ({"without": ("moon-*",)}, "without"),
        ({"closed": ("moon",)}, "closed"),
        ({"add": (what_if_comparisons.NewHosts(1, "moon"),)}, "fleet.add.like"),
        ({"subset": 5000}, "subset"),
        (
            {"plugins": {"filter": {"Moon": PluginSettingsChange(is_enabled=False, keys=frozenset({"is_enabled"}))}}},
            "plugins.Moon",
        ),
    ],
)
def test_invalid_what_if_changes_are_named(caller: Any, supposed: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        ask(caller, **supposed)
    assert caught.value.details["field"] == field


def test_the_address_of_the_page_has_the_whole_question(caller: Any, people: Any) -> None:
    admin = signed_in("admin")
    empty = text(admin.get("/what-if"))
    assert "Select a flavor, or paste a decision ID" in empty
    assert "rack1-01" not in empty
    before = everything()
    requested = address(count="2", without="rack1-*", subset="", off="filter:ComputeFilter")
    page = text(admin.get("/what-if", {**requested, "w.RAMWeigher": "2.5"}))
    assert "2 of 2 servers would find a host; 4 of 4 hosts remain." in page
    assert "2 of 2 servers would find a host; 2 of 2 hosts remain." in page
    assert "no longer eligible" in page
    assert "2 changed" in page
    assert 'value="rack1-*"' in page
    shared = text(admin.get("/what-if", {**requested, "w.RAMWeigher": "2.5", "other": "x"}))
    link = shared.split('class="button" href="/what-if?')[1].split('"')[0]
    assert "subset" not in link
    assert "other" not in link
    assert "2 changed" in text(admin.get(f"/what-if?{link}"))
    after = everything()
    assert {name for name in before if before[name] != after[name]} <= {"default.sessions.Session"}
    assert signed_in("ana").get("/what-if").status_code == 404


def test_a_stored_decision_is_evaluated_again(caller: Any, people: Any) -> None:
    run = factories.run(people.ana.context())
    stored = factories.failed_decision(run)
    admin = signed_in("admin")
    page = text(admin.get(f"/what-if?decision={stored.uuid}"))
    assert "1 of 1 server would find a host" in page
    many = text(admin.get(f"/what-if?decision={stored.uuid}&count=3&closed=big-01"))
    assert "3 of 3 servers would find a host" in many
    unknown = admin.get("/what-if?decision=00000000-0000-4000-8000-000000000000")
    assert (unknown.status_code, "could not be found" in text(unknown)) == (400, True)


@pytest.mark.parametrize(
    ("requested", "sentence"),
    [
        ({"flavor": "moon"}, "moon"),
        ({"count": "many"}, "count must be a whole number from 0"),
        ({"hints": "colour"}, "name=value"),
        ({"properties": "hw"}, "name=value"),
        ({"zone": "moon"}, "zone"),
        ({"off": "colour:red"}, "filter:compute_status"),
        ({"w.RAMWeigher": "much"}, "Enter the weight as a number"),
        ({"o.RAMWeigher": "1"}, "o.filter.NAME.OPTION"),
        ({"without": "moon"}, "No host matches moon"),
    ],
)
def test_a_wrong_address_says_what_is_wrong(caller: Any, requested: dict[str, str], sentence: str) -> None:
    answer = signed_in("admin").get("/what-if", address(**requested))
    assert (answer.status_code, sentence in text(answer)) == (400, True)


def test_supposed_choices_are_checked_and_not_stored(caller: Any, people: Any) -> None:
    change = {"filter": {"ComputeFilter": PluginSettingsChange(is_enabled=False, keys=frozenset({"is_enabled"}))}}
    assert plugins.hypothetical(caller, change)["filter"].of("ComputeFilter").is_enabled is False
    assert plugins.hypothetical(caller, {})["filter"].of("ComputeFilter").is_enabled is None
    with pytest.raises(Forbidden):
        plugins.hypothetical(people.ana.context(), change)


def test_the_newest_requests_are_evaluated_again(caller: Any, people: Any) -> None:
    """Two of a size that only the large host takes, and one that any takes: without the large host two are lost."""
    run, _ = factories.build(caller, "web-1")
    for flavor, memory in (("huge", 200_000), ("huge", 200_000), ("small", 512)):
        spec = RequestSpec(caller.project_id, caller.user_id, FlavorSpec(flavor, flavor, 1, memory, root_gb=1))
        factories.decision(run, **factories.some_decision(), request=spec.to_json())
    before = SchedulingDecision.objects.count()
    found = what_if_batches.replay(caller, 10, WhatIfChanges(without=("big-*",)))
    assert (found.asked, found.fit_now, found.fit_then, found.num_lost, found.num_won) == (3, 3, 1, 2, 0)
    assert [one.flavor for one in found.lost] == ["huge", "huge"]
    page = text(signed_in("admin").get("/what-if", {"replay": "10", "without": "big-*"}))
    assert "of 3 requests eligible now" in page
    assert "No longer eligible" in page
    assert "No ineligible request would become eligible." in page
    alone = what_if_batches.replay(caller, 10, WhatIfChanges())
    assert (alone.is_hypothetical, alone.fit_then, alone.elsewhere) == (False, 3, 0)
    with pytest.raises(Forbidden):
        what_if_batches.replay(people.ana.context(), 10, WhatIfChanges())
    with pytest.raises(Invalid, match="Select a number of requests to replay: 10, 100, 1000"):
        what_if_batches.replay(caller, 7, WhatIfChanges())
    assert SchedulingDecision.objects.count() == before


def test_a_what_if_change_is_proposed_reviewed_and_applied(caller: Any, settings: Any) -> None:
    admin = signed_in("admin")
    requested = address(off="filter:IoOpsFilter", **{"w.RAMWeigher": "3"})
    page = text(admin.get("/what-if", requested))
    assert "/what-if/proposals/new?" in page
    assert "/what-if/proposals/new?" not in text(admin.get("/what-if", address(without="big-01"))), "no plugin differs"
    place = f"/what-if/proposals/new?{urlencode(requested)}"
    assert re.search("Work in progress.*Free memory", text(admin.get(place)))
    empty = admin.post(f"/what-if/proposals/new?{urlencode(address())}", {"reason": "why not"})
    assert (empty.status_code, "there is nothing to propose" in text(empty)) == (400, True)
    before = in_force().digest
    made_page = admin.post(place, {"reason": "fills large hosts"}, follow=True)
    proposal = PluginProposal.objects.get()
    assert "fills large hosts" in text(made_page)
    assert in_force().digest == before, "nothing is changed yet"
    assert "fills large hosts" in text(admin.get("/what-if/proposals"))
    review = f"/what-if/proposals/{proposal.uuid}"
    seen = {"version.filter": "0", "version.weigher": "0", "reason": "better by far"}
    settings.NOVELLA_SECOND_PERSON = True
    own = admin.post(f"{review}/apply", seen)
    assert (own.status_code, "You proposed this." in text(own)) == (409, True)
    settings.NOVELLA_SECOND_PERSON = False
    stale = admin.post(f"{review}/apply", {**seen, "version.filter": "7"})
    assert (stale.status_code, "have changed: their version is" in text(stale)) == (409, True)
    assert in_force().digest == before, "of all kinds or of none"
    assert "The proposal was applied." in text(admin.post(f"{review}/apply", seen, follow=True))
    chosen = {row.kind: row.choice["plugins"] for row in PluginChoice.objects.all()}
    assert chosen == {"filter": {"IoOpsFilter": {"is_enabled": False}}, "weigher": {"RAMWeigher": {"multiplier": 3.0}}}
    assert in_force().digest != before
    again = admin.post(f"{review}/decline", {"reason": "late"})
    assert (again.status_code, "The proposal was applied by admin." in text(again)) == (409, True)
    kept = AuditRecord.objects.filter(action__startswith="plugins.").order_by("pk").values_list("action", "result")
    assert [one for one in kept if "change" not in one[0]] == [
        ("plugins.propose", "done"),
        ("plugins.apply", "refused"),
        ("plugins.apply", "refused"),
        ("plugins.apply", "done"),
        ("plugins.decline", "refused"),
    ]
    assert signed_in("ana").get(review).status_code == 404


def test_a_declined_proposal_changes_nothing(caller: Any) -> None:
    changes = {"filter": {"IoOpsFilter": PluginSettingsChange(is_enabled=False, keys=frozenset({"is_enabled"}))}}
    uuid = proposals.propose(caller, changes, question="/what-if?flavor=1", reason="try it")
    before = in_force().digest
    assert signed_in("admin").post(f"/what-if/proposals/{uuid}/decline", {"reason": "no"}).status_code == 302
    found = proposals.get(caller, uuid)
    assert (found.state, found.answer, in_force().digest) == ("declined", "no", before)
    with pytest.raises(NotFound):
        proposals.get(caller, "moon")
