"""After a failed build: the next alternate is claimed, once, and the result of each host is stored and shown."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from conductor.api_db.models import CellMapping, InstanceGroup, InstanceGroupMember, InstanceMapping
from conductor.cell_db.models import Service
from conductor.core.context import RequestContext, system_context
from conductor.core.errors import NotFound
from conductor.core.selection import Selection
from conductor.db.transactions import database_now
from conductor.placement.allocations import Claim, claim, held_by
from conductor.placement.models import Consumer
from conductor.scheduler import manager
from conductor.services.scheduling import decisions
from tests.fleet import ANA, LAB, SHOP, add_host, provider_of, requested, silence

pytestmark = pytest.mark.usefixtures("databases")

MEMBER = RequestContext(user_id=ANA, project_id=SHOP, request_id="req-1", roles=frozenset({"member"}))
OTHER_PROJECT = RequestContext(user_id=ANA, project_id=LAB, request_id="req-1", roles=frozenset({"member"}))


class Build:
    """An instance that was given its first host, with two alternates."""

    def __init__(self, **requests: Any) -> None:
        for host, memory_mb in (("best", 32768), ("runner-up", 16384), ("third", 8192)):
            add_host(host, size=(4, memory_mb, 100))
        self.uuid = str(uuid4())
        self.run_uuid = str(uuid4())
        InstanceMapping.objects.create(
            instance_uuid=self.uuid,
            project_id=SHOP,
            user_id=ANA,
            build_run_uuid=self.run_uuid,
            cell=CellMapping.objects.get(name="cell1"),
            created_at=database_now(),
        )
        [self.selections] = manager.select_destinations(
            system_context(), requested(**requests), [self.uuid], step_key=self.uuid, run_uuid=self.run_uuid
        )

    def next(self, tried: int) -> Selection | None:
        return manager.claim_alternate(self.uuid, project_id=SHOP, user_id=ANA, alternates=self.selections[tried:])

    def fates(self) -> dict[str, str]:
        [view] = decisions.for_run(system_context(), self.run_uuid)
        [chosen] = view.selections
        return {chosen["host"]: chosen["fate"], **{item["host"]: item["fate"] for item in chosen["alternates"]}}


def fill(host: str) -> None:
    claim(Claim(str(uuid4()), provider_of(host), {"VCPU": 4}, SHOP, ANA))


def test_alternates_are_tried_in_order_and_each_outcome_is_stored() -> None:
    build = Build()
    assert [selection.host for selection in build.selections] == ["best", "runner-up", "third"]
    assert build.fates() == {"best": "used", "runner-up": "not needed", "third": "not needed"}
    manager.release(build.uuid)
    fill("runner-up")
    assert build.next(1) == build.selections[2]
    assert build.fates() == {"best": "failed", "runner-up": "claim failed", "third": "used"}
    assert list(held_by(build.uuid)) == [provider_of("third")]
    manager.release(build.uuid)
    assert build.next(3) is None
    assert build.fates() == {"best": "failed", "runner-up": "claim failed", "third": "failed"}
    assert held_by(build.uuid) == {}


def test_asking_again_after_a_crash_keeps_the_alternate_that_was_claimed() -> None:
    build = Build()
    manager.release(build.uuid)
    fill("runner-up")
    assert build.next(1) == build.selections[2]
    manager.release(str(Consumer.objects.exclude(uuid=build.uuid).get().uuid))
    assert build.next(1) == build.selections[2]  # though the runner-up has room again
    assert list(held_by(build.uuid)) == [provider_of("third")]


def test_alternates_that_are_unresponsive_or_disabled_are_skipped() -> None:
    build = Build()
    manager.release(build.uuid)
    silence("runner-up")
    Service.objects.using("cell1").filter(host="third").update(is_disabled=True)
    assert build.next(1) is None
    assert build.fates() == {"best": "failed", "runner-up": "not open", "third": "not open"}
    assert held_by(build.uuid) == {}


def test_an_alternate_must_suit_the_group_as_it_is_now() -> None:
    group = InstanceGroup.objects.create(project_id=SHOP, user_id=ANA, name="web", policy="anti-affinity")
    build = Build(scheduler_hints={"group": [str(group.uuid)]})
    InstanceGroupMember.objects.create(group=group, instance_uuid=build.uuid, host="")
    InstanceGroupMember.objects.create(group=group, instance_uuid=uuid4(), host="runner-up")
    manager.release(build.uuid)
    assert build.next(1) == build.selections[2]
    assert InstanceGroupMember.objects.get(instance_uuid=build.uuid).host == "third"
    manager.release(build.uuid)
    assert InstanceGroupMember.objects.get(instance_uuid=build.uuid).host == ""


def test_an_outcome_can_be_stored_explicitly() -> None:
    build = Build()
    manager.mark_alternate(build.run_uuid, build.uuid, "best", "failed")
    manager.mark_alternate(build.run_uuid, str(uuid4()), "best", "used")
    manager.mark_alternate(str(uuid4()), build.uuid, "best", "used")
    assert build.fates() == {"best": "failed", "runner-up": "not needed", "third": "not needed"}


def test_a_tenant_sees_counts_and_advice_and_no_host() -> None:
    build = Build()
    [mine] = decisions.for_run(MEMBER, build.run_uuid)
    [all_of_it] = decisions.for_run(system_context(), build.run_uuid)
    assert (mine.hosts, mine.weights, mine.selections, mine.nearest, mine.lost_races) == ([], [], [], [], [])
    assert mine.advice == all_of_it.advice == ["3 of 3 hosts are eligible."]
    assert mine.funnel == all_of_it.funnel
    assert not any(host in repr(mine) for host in ("best", "runner-up", "third"))
    assert [host["host"] for host in all_of_it.hosts] == ["best", "runner-up", "third"]
    assert [weight["host"] for weight in all_of_it.weights] == ["best", "runner-up", "third"]
    assert decisions.get(MEMBER, mine.uuid) == mine


def test_decisions_of_others_are_not_found() -> None:
    build = Build()
    [mine] = decisions.for_run(MEMBER, build.run_uuid)
    with pytest.raises(NotFound):
        decisions.get(OTHER_PROJECT, mine.uuid)
    with pytest.raises(NotFound):
        decisions.for_run(OTHER_PROJECT, build.run_uuid)
    for unknown in (str(uuid4()), "no uuid"):
        with pytest.raises(NotFound):
            decisions.get(MEMBER, unknown)
        assert decisions.for_run(MEMBER, unknown) == []
