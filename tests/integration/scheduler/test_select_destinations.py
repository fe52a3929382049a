"""The scheduler on real databases: claims, answers that stay the same, races, zones, groups, cells that are down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections

from conductor.api_db.models import InstanceGroup, InstanceGroupMember, SchedulingDecision
from conductor.core.context import system_context
from conductor.core.errors import NoValidHost, StaleToken
from conductor.core.messages import unpack
from conductor.core.request_spec import MoveSpec, RequestSpec
from conductor.core.scheduling.decision import unpacked
from conductor.core.selection import Selection
from conductor.db.transactions import write_tx
from conductor.placement.allocations import Claim, claim, held_by
from conductor.placement.models import Allocation, Consumer, ProviderInventory
from conductor.scheduler import contention, manager
from conductor.scheduler.contention import ContentionTracker
from conductor.scheduler.host_manager import host_manager
from conductor.services.fleet import enabling
from conductor.services.hosts import hosts
from conductor.workflows.engine import leases
from tests.fixtures.destinations import select, used
from tests.fleet import (
    ANA,
    REAL,
    SHOP,
    add_host,
    add_instance,
    inventory_of,
    provider_of,
    put_into_zone,
    requested,
    silence,
)

pytestmark = pytest.mark.usefixtures("databases")


def refused(spec: RequestSpec, count: int = 1) -> SchedulingDecision:
    before = list(ProviderInventory.objects.order_by("pk").values_list("pk", "used"))
    with pytest.raises(NoValidHost) as caught:
        select(spec, count)
    assert list(ProviderInventory.objects.order_by("pk").values_list("pk", "used")) == before
    return SchedulingDecision.objects.get(uuid=caught.value.details["decision_uuid"])


def test_one_host_is_claimed_and_the_next_best_of_its_cell_are_alternates() -> None:
    add_host("big", size=(8, 32768, 100))
    add_host("middle", size=(8, 16384, 100))
    add_host("little", size=(8, 8192, 100))
    add_host("tiny", size=(8, 4096, 100))
    add_host("elsewhere", "cell2", size=(8, 30000, 100))
    uuid = str(uuid4())
    [[chosen, *alternates]] = select(requested(vcpus=2, memory_mb=1024, disk_gb=5), uuids=[uuid])
    assert chosen == Selection(
        host="big",
        node="big",
        cell="cell1",
        provider_uuid=provider_of("big"),
        resources={"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 5},
        availability_zone="nova",
    )
    assert [alternate.host for alternate in alternates] == ["middle", "little"]
    assert held_by(uuid) == {provider_of("big"): {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 5}}
    assert used("big") == {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 5}
    assert used("middle") == {"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}


def test_equal_hosts_are_chosen_at_random_unless_configured_otherwise(settings: Any) -> None:
    hosts = [add_host(f"host-{number}") and f"host-{number}" for number in range(6)]
    settings.NOVELLA_SHUFFLE_BEST_SAME_WEIGHED_HOSTS = False

    firsts = []
    for _ in range(3):
        uuid = str(uuid4())
        ((chosen, *others),) = select(requested(), uuids=[uuid])
        firsts.append([chosen.host, *(one.host for one in others)])
        manager.release(uuid)

    assert firsts == [hosts[:3]] * 3


def test_the_same_step_gets_the_same_answer_and_claims_once() -> None:
    add_host("one")
    add_host("two")
    uuids = [str(uuid4()), str(uuid4())]
    first = select(requested(), step_key="step", uuids=uuids)
    again = select(requested(), step_key="step", uuids=uuids)
    assert again == first
    assert Consumer.objects.count() == 2
    assert SchedulingDecision.objects.count() == 1


def test_the_same_step_gets_the_same_refusal() -> None:
    add_host("one", size=(1, 256, 1))
    for _ in range(2):
        with pytest.raises(NoValidHost, match="not enough memory"):
            select(requested(), step_key="step", uuids=[str(uuid4())])
        add_host("late" + str(uuid4()))
    assert SchedulingDecision.objects.count() == 1
    assert not Allocation.objects.exists()


def test_a_batch_spreads_and_is_all_or_nothing() -> None:
    for index in range(4):
        add_host(f"host-{index}", size=(2, 4096, 100))
    chosen = select(requested(), 4)
    assert sorted(picked[0].host for picked in chosen) == ["host-0", "host-1", "host-2", "host-3"]
    decision = refused(requested(), 5)  # four places are left
    assert decision.is_successful is False
    assert decision.selections == []
    assert "Only 4 of 5 instances found a host: none was placed." in [
        unpack(text) for text in decision.summary["advice"]
    ]
    assert len(select(requested(), 4)) == 4


def test_a_refusal_says_what_is_missing() -> None:
    for index in range(16):
        add_host(f"sim-{index}", "cell1" if index % 2 else "cell2")
    add_host("real", offers=REAL, size=(1, 256, 10))
    decision = refused(requested(image={"img_hv_type": "qemu"}))
    assert decision.summary["num_hosts"] == 17
    assert [unpack(text) for text in decision.summary["advice"]][:2] == [
        "16 of 17 hosts: image needs hypervisor qemu, host runs fake.",
        "1 of 17 hosts: not enough memory (512 MB needed).",
    ]
    funnel = {stage["filter"]: (stage["before"], stage["after"]) for stage in decision.summary["funnel"]}
    assert funnel["placement"] == (17, 16)
    assert funnel["ImagePropertiesFilter"] == (16, 0)
    assert [host["host"] for host in decision.details["hosts"] if host["rejected_by"] == "placement"] == ["real"]
    assert unpacked(decision.details["nearest"][0]) == {
        "host": "real",
        "cell": "cell1",
        "rejected_by": "placement",
        "reason": "not enough memory",
        "need": "512 MB",
        "have": "256 MB free",
        "shortfall": 0.5,
    }


def test_zones_follow_aggregates() -> None:
    add_host("left", zone="az-1")
    add_host("right", "cell2")
    assert select(requested(availability_zone="az-1"))[0][0].host == "left"
    assert select(requested(availability_zone="nova"))[0][0].host == "right"
    assert select(requested(availability_zone="az-1"))[0][0].availability_zone == "az-1"
    refused(requested(availability_zone="az-2"))
    put_into_zone("az-2", ["right"])
    assert select(requested(availability_zone="az-2"))[0][0].host == "right"


def test_hosts_that_stop_responding_are_disabled_or_return_are_seen_at_once() -> None:
    from conductor.cell_db.models import Service

    add_host("one")
    add_host("two")
    assert len(select(requested(), 2)) == 2
    silence("one")
    Service.objects.using("cell1").filter(host="two").update(is_disabled=True, disabled_reason="new disks")
    decision = refused(requested())
    reasons = {host["host"]: (host["reason"], host["have"]) for host in map(unpacked, decision.details["hosts"])}
    assert reasons == {"one": ("the host is down", "down"), "two": ("the host is closed to new instances", "new disks")}
    Service.objects.using("cell1").filter(host="two").update(is_disabled=False)
    assert select(requested())[0][0].host == "two"


def test_a_host_that_was_closed_without_a_reason_is_shown_with_the_caller() -> None:
    add_host("one")
    operator = replace(system_context(), user_name="admin", request_id="req-1")
    (service,) = hosts.list_services(operator, host="one", binary="nova-compute").items
    enabling.update(operator, service, is_disabled=True, disabled_reason=None)
    (rejected,) = map(unpacked, refused(requested()).details["hosts"])
    assert rejected["reason"] == "the host is closed to new instances"
    assert rejected["have"] == "closed by admin without a reason (req-1)"
    enabling.update(operator, service, is_disabled=False, disabled_reason=None)
    assert hosts.get_service(operator, service.uuid).disabled_reason is None
    assert select(requested())[0][0].host == "one"


def test_hosts_grow_shrink_and_come_and_go() -> None:
    from conductor.placement import inventories

    add_host("one", size=(1, 1024, 10))
    refused(requested(memory_mb=2048))
    inventories.report(provider_of("one"), "one", inventory_of((1, 4096, 10)))
    assert select(requested(memory_mb=2048))[0][0].host == "one"
    refused(requested())
    add_host("two")
    assert select(requested())[0][0].host == "two"


def test_hints_find_the_hosts_of_other_instances() -> None:
    for host, cell in (("one", "cell1"), ("two", "cell1"), ("three", "cell2")):
        add_host(host, cell)
    near, far = str(uuid4()), str(uuid4())
    add_instance(near, "two")
    add_instance(far, "three", "cell2")
    assert select(requested(scheduler_hints={"same_host": [near]}))[0][0].host == "two"
    assert select(requested(scheduler_hints={"different_host": [near, far]}))[0][0].host == "one"
    refused(requested(scheduler_hints={"same_host": [near], "different_host": [near]}))


def group_of(policy: str, members: list[str], **rules: int) -> str:
    group = InstanceGroup.objects.create(project_id=SHOP, user_id=ANA, name="web", policy=policy, rules=rules)
    for uuid in members:
        InstanceGroupMember.objects.create(group=group, instance_uuid=uuid)
    return str(group.uuid)


def test_an_anti_affinity_group_keeps_its_members_apart_within_and_across_requests() -> None:
    for index in range(3):
        add_host(f"host-{index}")
    members = [str(uuid4()) for _ in range(4)]
    spec = requested(scheduler_hints={"group": [group_of("anti-affinity", members)]})
    first = select(spec, uuids=members[:2])
    second = select(spec, uuids=members[2:3])
    assert len({picked[0].host for picked in first + second}) == 3
    with pytest.raises(NoValidHost, match="must be on different hosts"):
        select(spec, uuids=members[3:])
    manager.release(members[0])
    assert select(spec, uuids=members[3:])[0][0].host == first[0][0].host


def test_an_affinity_group_stays_together() -> None:
    for index in range(5):
        add_host(f"host-{index}")
    members = [str(uuid4()) for _ in range(6)]
    spec = requested(scheduler_hints={"group": [group_of("affinity", members)]})
    hosts = {picked[0].host for picked in select(spec, uuids=members[:3])}
    hosts |= {picked[0].host for uuid in members[3:] for picked in select(spec, uuids=[uuid])}
    assert len(hosts) == 1


def test_racing_members_of_an_anti_affinity_group_never_meet() -> None:
    for index in range(6):
        add_host(f"host-{index}")
    members = [str(uuid4()) for _ in range(6)]
    spec = requested(scheduler_hints={"group": [group_of("anti-affinity", members)]})
    hosts = in_threads(lambda uuid: select(spec, uuids=[uuid])[0][0].host, members)
    assert sorted(hosts) == [f"host-{index}" for index in range(6)]


def test_racing_requests_never_overfill_and_fill_to_the_last_place() -> None:
    for index in range(3):
        add_host(f"host-{index}", size=(5, 65536, 1000))

    def one(_: str) -> str:
        try:
            return str(select(requested())[0][0].host)
        except NoValidHost:
            return ""

    hosts = Counter(in_threads(one, [str(index) for index in range(20)]))
    assert hosts == {"host-0": 5, "host-1": 5, "host-2": 5, "": 5}
    assert [used(f"host-{index}")["VCPU"] for index in range(3)] == [5, 5, 5]


def overtaken(act: Callable[[], object]) -> Callable[[str], AbstractContextManager[None]]:
    """Run `act` as a faster competitor, before a write transaction begins for the first time."""
    acts = [act]

    @contextmanager
    def transaction(alias: str) -> Iterator[None]:
        if acts:
            acts.pop()()
        with write_tx(alias):
            yield

    return transaction


def test_a_member_that_was_placed_meanwhile_is_kept_apart_from() -> None:
    add_host("best", size=(8, 32768, 100))
    add_host("other")
    mine, faster = str(uuid4()), str(uuid4())
    spec = requested(scheduler_hints={"group": [group_of("anti-affinity", [mine, faster])]})
    transaction = overtaken(lambda: select(spec, uuids=[faster]))
    [[chosen, *_]] = select(spec, uuids=[mine], step_key="step", transaction=transaction)
    assert chosen.host == "other"
    assert list(held_by(faster)) == [provider_of("best")]
    decision = SchedulingDecision.objects.get(step_key="step")
    assert decision.summary["lost_races"] == 1
    [race] = decision.details["lost_races"]
    assert (race["host"], race["reason"]) == ("", "A member of the server group was placed elsewhere meanwhile.")
    assert (race["chosen"], race["funnel"][0]["before"]) == (["best"], 2)
    assert [weight["host"] for weight in race["weights"]] == ["best", "other"]


def test_two_owners_of_a_step_that_moves_get_one_answer() -> None:
    add_host("home")
    add_host("other")
    uuid = str(uuid4())
    [[old, *_]] = select(requested(), uuids=[uuid])
    spec = requested(move=MoveSpec("cell1", str(uuid4()), gives_back_by_provider=old.parts))
    transaction = overtaken(lambda: select(spec, uuids=[uuid], step_key="step"))
    [[chosen, *_]] = select(spec, uuids=[uuid], step_key="step", transaction=transaction)
    assert held_by(uuid) == chosen.parts
    assert SchedulingDecision.objects.filter(step_key="step").count() == 1


def test_after_a_lost_claim_another_host_is_chosen() -> None:
    add_host("best", size=(1, 32768, 100))
    add_host("other", size=(1, 16384, 100))
    transaction = overtaken(lambda: select(requested()))
    [[chosen, *_]] = select(requested(), step_key="step", transaction=transaction)
    assert chosen.host == "other"
    races = SchedulingDecision.objects.get(step_key="step").details["lost_races"]
    assert [race["host"] for race in races] == ["best"]
    assert used("best")["VCPU"] == used("other")["VCPU"] == 1


def test_after_a_lost_claim_the_next_host_of_the_same_decision_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for host, memory_mb in (("best", 32768), ("second", 16384), ("third", 8192), ("elsewhere", 24576)):
        add_host(host, "cell2" if host == "elsewhere" else "cell1", size=(1, memory_mb, 100))
    looks: list[int] = []
    look = manager.host_manager.snapshot
    monkeypatch.setattr(manager.host_manager, "snapshot", lambda **how: looks.append(1) or look(**how))
    faster = Claim(str(uuid4()), provider_of("best"), {"VCPU": 1}, SHOP, ANA)
    [[chosen, *alternates]] = select(requested(), step_key="step", transaction=overtaken(lambda: claim(faster)))
    assert (chosen.host, [alternate.host for alternate in alternates]) == ("second", ["third"])
    assert len(looks) == 1
    decision = SchedulingDecision.objects.get(step_key="step")
    assert [race["host"] for race in decision.details["lost_races"]] == ["best"]
    assert decision.selections[0][0]["host"] == "second"
    assert (decision.summary["drawn_among"], decision.summary["scheduler"]) == (1, leases.WORKER)
    assert (used("best")["VCPU"], used("second")["VCPU"], used("third")["VCPU"]) == (1, 1, 0)


def test_after_a_lost_claim_the_next_decisions_draw_among_several(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.NOVELLA_CONTENTION_SUBSET_SIZE = 6
    for number in range(8):
        add_host(f"host-{number}", size=(40, 32768 + number * 8192, 1000))
    monkeypatch.setattr(contention, "tracker", ContentionTracker())
    monkeypatch.setattr(manager, "tracker", contention.tracker)
    assert {select(requested())[0][0].host for _ in range(2)} == {"host-7"}
    faster = Claim(str(uuid4()), provider_of("host-7"), {"VCPU": 38}, SHOP, ANA)
    [[chosen, *_]] = select(requested(), transaction=overtaken(lambda: claim(faster)))
    assert chosen.host == "host-6"
    drawn = {select(requested(), step_key=f"step-{number}")[0][0].host for number in range(12)}
    assert len(drawn) > 1
    assert SchedulingDecision.objects.get(step_key="step-0").summary["drawn_among"] > 1
    assert sum(used(f"host-{number}")["VCPU"] for number in range(8)) == 2 + 38 + 1 + 12


def test_losing_every_race_is_an_error_and_claims_nothing() -> None:
    add_host("first", size=(1, 16384, 100))

    @contextmanager
    def always_late(alias: str) -> Iterator[None]:
        for row in ProviderInventory.objects.filter(resource_class="VCPU", used=0):
            claim(Claim(str(uuid4()), str(row.provider.uuid), {"VCPU": 1}, SHOP, ANA))
        try:
            with write_tx(alias):
                yield
        finally:
            add_host(f"late-{uuid4()}", size=(1, 16384, 100))

    uuid = str(uuid4())
    with pytest.raises(NoValidHost, match="taken by other requests") as caught:
        select(requested(), uuids=[uuid], transaction=always_late)
    decision = SchedulingDecision.objects.get(uuid=caught.value.details["decision_uuid"])
    assert (decision.is_successful, decision.selections, decision.summary["lost_races"]) == (False, [], 10)
    assert held_by(uuid) == {}


def in_threads(work: Any, items: list[str]) -> list[Any]:
    def run(item: str) -> Any:
        try:
            return work(item)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(run, items))


def test_a_transaction_that_is_refused_claims_nothing() -> None:
    add_host("one")

    @contextmanager
    def stale(alias: str) -> Iterator[None]:
        raise StaleToken()
        yield

    with pytest.raises(StaleToken):
        select(requested(), transaction=stale)
    assert not SchedulingDecision.objects.exists()
    assert not Allocation.objects.exists()


def asked(spec: RequestSpec, *, transaction: Any = write_tx) -> manager.DestinationRequest:
    return manager.DestinationRequest(spec, [str(uuid4())], str(uuid4()), str(uuid4()), transaction)


def hosts_of(answers: Sequence[list[list[Selection]] | Exception]) -> list[str]:
    return [str(answer) if isinstance(answer, Exception) else answer[0][0].host for answer in answers]


def test_requests_of_a_set_count_with_those_before_them() -> None:
    for index in range(3):
        add_host(f"host-{index}", size=(1, 4096, 100))
    questions = [asked(requested()) for _ in range(4)]
    *chosen, last = manager.select_for_many(questions)
    assert sorted(hosts_of(chosen)) == ["host-0", "host-1", "host-2"]
    assert isinstance(last, NoValidHost)
    decisions = SchedulingDecision.objects.order_by("pk")
    assert [(row.step_key, row.is_successful) for row in decisions] == [
        (question.step_key, index < 3) for index, question in enumerate(questions)
    ]
    assert [row.details["lost_races"] for row in decisions] == [[]] * 4
    assert manager.select_for_many(questions)[:3] == chosen
    assert decisions.count() == 4


def test_a_set_fills_the_hosts_and_overfills_none() -> None:
    for index in range(6):
        add_host(f"host-{index}", size=(4, 8192, 100))
    answers = manager.select_for_many([asked(requested(vcpus=2)) for _ in range(16)])
    assert Counter(hosts_of(answers[:12])) == {f"host-{index}": 2 for index in range(6)}
    assert [type(answer) for answer in answers[12:]] == [NoValidHost] * 4
    assert [used(f"host-{index}")["VCPU"] for index in range(6)] == [4] * 6


def test_members_of_a_group_in_one_set_stay_apart() -> None:
    for index in range(3):
        add_host(f"host-{index}")
    group = InstanceGroup.objects.create(name="apart", policy="anti-affinity", project_id=SHOP, user_id=ANA)
    questions = [asked(requested(scheduler_hints={"group": [str(group.uuid)]})) for _ in range(3)]
    for question in questions:
        InstanceGroupMember.objects.create(group=group, instance_uuid=question.instance_uuids[0])
    assert sorted(hosts_of(manager.select_for_many(questions))) == ["host-0", "host-1", "host-2"]


def test_a_failed_request_of_a_set_affects_no_other() -> None:
    add_host("one", size=(8, 32768, 100))

    @contextmanager
    def stale(alias: str) -> Iterator[None]:
        with write_tx(alias):
            raise StaleToken("another worker owns it", token=1)
            yield

    questions = [
        asked(requested()),
        asked(requested(), transaction=stale),
        asked(requested(vcpus=64)),
        asked(requested(extra_specs={"hw:numa_nodes": "none"})),
        asked(requested()),
    ]
    answers = manager.select_for_many(questions)
    assert [type(answer).__name__ for answer in answers] == ["list", "StaleToken", "NoValidHost", "Invalid", "list"]
    assert used("one")["VCPU"] == 2
    assert SchedulingDecision.objects.count() == 3


def test_a_claim_that_is_lost_in_a_set_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    add_host("big", size=(16, 65536, 100))
    add_host("little", size=(8, 8192, 50))
    snapshot = host_manager.snapshot()  # as it was before the other claim
    claim(Claim(str(uuid4()), provider_of("big"), {"VCPU": 1, "MEMORY_MB": 64768, "DISK_GB": 1}, SHOP, ANA))
    monkeypatch.setattr(manager.host_manager, "snapshot", _once(snapshot, manager.host_manager.snapshot))
    questions = [asked(requested()), asked(requested(memory_mb=2048))]
    answers = manager.select_for_many(questions)
    assert hosts_of(answers) == ["big", "little"]
    lost = SchedulingDecision.objects.get(step_key=questions[1].step_key).details["lost_races"]
    assert [race["host"] for race in lost] == ["big"]


def _once(first: Any, then: Callable[..., Any]) -> Callable[..., Any]:
    given = iter([first])
    return lambda **options: next(given, None) or then(**options)
