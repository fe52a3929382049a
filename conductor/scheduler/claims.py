"""Claims of host resources for new instances, retries and moves, with quota and server group membership."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from django.db.models import Q, Sum
from django.db.models.functions import Coalesce

from conductor.api_db.models import InstanceGroup, InstanceGroupMember, InstanceMapping, UsageEntry
from conductor.cell_db.models import Instance
from conductor.core.errors import ConcurrentUpdate, QuotaExceeded
from conductor.core.hardware import wire
from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import FlavorSpec, MoveSpec
from conductor.core.scheduling.decision import Decision
from conductor.core.scheduling.group_rules import may_join
from conductor.core.scheduling.host_trees import with_taken
from conductor.core.scheduling.needs import needs_of
from conductor.core.scheduling.select import selection_of
from conductor.core.selection import Selection
from conductor.db.transactions import one_at_a_time, write_tx
from conductor.placement import allocations, hardware
from conductor.placement.allocations import Claim, ProviderFull
from conductor.scheduler import decision_log, host_facts, request_specs
from conductor.scheduler.decision_log import CLAIM_FAILED, NOT_OPEN, REFUSED, USED
from conductor.scheduler.host_manager import host_manager

ALIAS = "default"


def claim(chosen: Mapping[str, Selection], *, project_id: str, user_id: str) -> None:
    """Claim the selections by instance uuid, all or none. Raises allocations.ProviderFull or ConsumerHolds."""
    with write_tx(ALIAS):
        allocations.claim_many(
            [
                Claim(uuid, provider, resources, project_id, user_id)
                for uuid, selection in chosen.items()
                for provider, resources in selection.parts.items()
            ]
        )
        for uuid, selection in chosen.items():
            if selection.hardware:
                hardware.claim(uuid, selection.provider_uuid, wire.wanted_from_json(selection.hardware))
        by_host: dict[str, list[str]] = {}
        for uuid, selection in chosen.items():
            by_host.setdefault(selection.host, []).append(uuid)
        if InstanceGroupMember.objects.filter(instance_uuid__in=list(chosen)).exists():
            for host, uuids in by_host.items():
                InstanceGroupMember.objects.filter(instance_uuid__in=uuids).update(host=host)


def release(instance_uuid: str) -> None:
    """Release the instance's allocations; idempotent."""
    release_many([instance_uuid])


def release_many(instance_uuids: Sequence[str]) -> None:
    """Release the instances' allocations, in one transaction."""
    with write_tx(ALIAS):
        allocations.release(instance_uuids)
        InstanceGroupMember.objects.filter(instance_uuid__in=instance_uuids).exclude(host="").update(host="")


def held_selection(instance_uuid: str, choices: Sequence[Selection]) -> Selection | None:
    """Return the one of `choices` that the instance already has allocations for. None if there is none."""
    held = allocations.held_by(instance_uuid)
    for choice in choices:
        if held == choice.parts:
            return choice
    return None


def claim_at(instance: Instance, provider_uuid: str) -> None:
    """Claim the instance's needs at its host's providers.

    Raises:
        ProviderFull: other claims took the room meanwhile.
        ConsumerHolds: another claim for the instance was faster.
    """
    needs = needs_of(request_specs.asked(instance))
    parts = {provider_uuid: dict(needs.resources)}
    table = host_manager.snapshot().table
    for row, state in enumerate(table.states):
        if state.provider_uuid == provider_uuid:
            parts = selection_of(table, row, needs).parts
    allocations.claim_many(
        [
            Claim(str(instance.uuid), provider, amounts, instance.project_id, instance.user_id)
            for provider, amounts in parts.items()
        ]
    )


def claim_alternate(
    instance_uuid: str, *, project_id: str, user_id: str, alternates: Sequence[Selection]
) -> Selection | None:
    """Claim the first alternate that is open, has room and is allowed by the instance's group. None if there is none.

    An instance that already holds one of them keeps it, so a repeated call after a crash has the same result.
    """
    with write_tx(ALIAS):
        held = held_selection(instance_uuid, alternates)
        fates = {held.host: USED} if held else {}
        for alternate in () if held else alternates:
            fates[alternate.host] = _try(instance_uuid, alternate, project_id, user_id)
            if fates[alternate.host] == USED:
                held = alternate
                break
        decision_log.note_alternates(instance_uuid, [alternate.host for alternate in alternates], fates)
        return held


def mark_alternate(run_uuid: str, instance_uuid: str, host: str, fate: str) -> None:
    """Record the fate of `host`, which the decision of an API-level run named for the instance."""
    decision_log.mark(run_uuid, instance_uuid, {host: fate})


def mark_refused(instance_uuid: str, host: str, reason: str) -> None:
    """Record that `host` has refused to build the instance, and why, in the decision that named the host."""
    run_uuid = decision_log.build_run_of(instance_uuid)
    if run_uuid is not None:
        decision_log.mark(run_uuid, instance_uuid, {host: REFUSED}, reasons={host: reason})


def _try(instance_uuid: str, alternate: Selection, project_id: str, user_id: str) -> str:
    if not host_facts.is_open(alternate.cell, alternate.host):
        return NOT_OPEN
    member = InstanceGroupMember.objects.filter(instance_uuid=instance_uuid).select_related("group").first()
    if member:  # check the policy against current claims; the lock excludes other claims for the group
        InstanceGroup.objects.select_for_update().filter(pk=member.group_id).first()
    if member and not may_join(request_specs.group_spec(member.group), instance_uuid, alternate.host):
        return CLAIM_FAILED
    try:
        claim({instance_uuid: alternate}, project_id=project_id, user_id=user_id)
    except ProviderFull:
        return CLAIM_FAILED
    return USED


Selections = tuple[tuple[Selection, ...], ...]


def after(decision: Decision, error: ConcurrentUpdate) -> Decision | None:
    """Return the decision with alternates in place of the host that filled up meanwhile.

    None where no alternate is left, or where more than the room has changed. Then the scheduler needs a new snapshot.
    """
    full = error.details.get("provider_uuid", "") if isinstance(error, ProviderFull) else ""
    selections = without(decision.selections, full) if full else None
    return None if selections is None else replace(decision, selections=selections)


def without(selections: Selections, full: str) -> Selections | None:
    """Return the same picks without the provider that is full. None where there are too few alternates.

    Each alternate replaces one instance at most, as it had room for one when it was chosen.
    """
    stand_ins: set[str] = set()
    chosen: list[Selection] = []
    for first, *rest in selections:
        if full in first.parts:
            free = (one for one in rest if full not in one.parts and one.provider_uuid not in stand_ins)
            stand_in = next(free, None)
            if stand_in is None:
                return None
            stand_ins.add(stand_in.provider_uuid)
            chosen.append(stand_in)
        else:
            chosen.append(first)
    return tuple(
        (one, *(other for other in rest if full not in other.parts and other.provider_uuid not in stand_ins))
        for one, (_, *rest) in zip(chosen, selections, strict=True)
    )


Held = Mapping[str, Mapping[str, int]]  # amounts by resource class, by provider uuid


def with_room_given_back(hosts: HostTable, move: MoveSpec | None) -> HostTable:
    """Return the hosts, with the allocations of the moving instance on its own host counted as free."""
    if move is None or not (move.gives_back or move.gives_back_by_provider):
        return hosts
    for row, state in enumerate(hosts.states):
        if state.provider_uuid == move.source_provider_uuid:
            freed = replace(_freed(state, move), num_instances=state.num_instances - 1)
            return hosts.with_rows({row: freed}, age_seconds=hosts.age_seconds)
    return hosts


def _freed(state: HostState, move: MoveSpec) -> HostState:
    if state.tree:
        held = move.gives_back_by_provider or {state.provider_uuid: move.gives_back}
        return with_taken(state, held, -1)
    return replace(
        state,
        vcpus_used=state.vcpus_used - move.gives_back.get("VCPU", 0),
        memory_mb_used=state.memory_mb_used - move.gives_back.get("MEMORY_MB", 0),
        disk_gb_used=state.disk_gb_used - move.gives_back.get("DISK_GB", 0),
        amounts={
            name: replace(amount, used=amount.used - move.gives_back.get(name, 0))
            for name, amount in state.amounts.items()
        },
    )


def step_aside(instance_uuid: UUID | str, migration_uuid: UUID | str, chosen: Selection) -> None:
    """Move the instance's allocations to the migration, before the claim at the destination.

    If the destination is the same host, the migration keeps only what the claim does not cover. The sum is then the
    larger of both sizes, which either of them may need.
    """
    with write_tx(ALIAS):
        if not allocations.move(instance_uuid, migration_uuid, allocations.MIGRATION):
            return
        for provider in allocations.held_by(migration_uuid).keys() & chosen.parts.keys():
            allocations.shrink(migration_uuid, provider, chosen.parts[provider])
        members = InstanceGroupMember.objects.filter(instance_uuid=instance_uuid)
        for member in members.select_for_update():
            members.update(leaving_host=member.host)


def step_back(instance_uuid: UUID | str, migration_uuid: UUID | str, *, held: Held, owner: tuple[str, str]) -> None:
    """Restore the instance's allocations from before the move. `owner` is its project and user.

    Nothing changes where nothing was moved, or where the allocations are restored already.
    """
    with write_tx(ALIAS):
        if not allocations.is_there(migration_uuid):
            return
        allocations.release([instance_uuid])
        if allocations.held_by(migration_uuid) == held:
            allocations.move(migration_uuid, instance_uuid)
        else:  # it was shrunk beside the claim that was just released, so the whole of it fits again
            inside = hardware.held_by(migration_uuid)
            allocations.release([migration_uuid])
            project_id, user_id = owner
            allocations.claim_many(
                [
                    Claim(str(instance_uuid), provider, amounts, project_id, user_id)
                    for provider, amounts in held.items()
                ]
            )
            hardware.restore(instance_uuid, inside)
        members = InstanceGroupMember.objects.filter(instance_uuid=instance_uuid).exclude(leaving_host="")
        for member in members.select_for_update():
            members.update(host=member.leaving_host, leaving_host="")


def settle(instance_uuid: UUID | str, migration_uuid: UUID | str) -> None:
    """Release the migration's allocations at the source, as the instance stays at its destination."""
    with write_tx(ALIAS):
        allocations.release([migration_uuid])
        members = InstanceGroupMember.objects.filter(~Q(leaving_host=""), instance_uuid=instance_uuid)
        if members.exists():
            members.update(leaving_host="")


UNLIMITED = -1


def grow(instance_uuid: UUID | str, *, old: FlavorSpec, new: FlavorSpec, limits: Mapping[str, int]) -> None:
    """Count the larger of both sizes from now on. Raises QuotaExceeded when the growth exceeds `limits`."""
    mapping = InstanceMapping.objects.get(instance_uuid=instance_uuid)
    one_at_a_time(ALIAS, f"project:{mapping.project_id}")
    refuse_excess(mapping.project_id, str(instance_uuid), new, limits)
    take(instance_uuid, max(old.vcpus, new.vcpus), max(old.memory_mb, new.memory_mb))


def refuse_excess(project_id: str, instance_uuid: str, new: FlavorSpec, limits: Mapping[str, int]) -> None:
    """Raise QuotaExceeded when the project exceeds `limits` (cores, ram) with this instance in its new size."""
    rows = InstanceMapping.objects.filter(project_id=project_id, is_deleted=False)
    own = rows.filter(instance_uuid=instance_uuid).values("vcpus", "memory_mb").first() or {"vcpus": 0, "memory_mb": 0}
    entries = UsageEntry.objects.filter(project_id=project_id)
    used = entries.aggregate(cores=Coalesce(Sum("cores"), 0), ram=Coalesce(Sum("ram"), 0))
    growth = {"cores": new.vcpus - own["vcpus"], "ram": new.memory_mb - own["memory_mb"]}
    over = [
        name
        for name, more in growth.items()
        if more > 0 and limits.get(name, UNLIMITED) != UNLIMITED and used[name] + more > limits[name]
    ]
    if over:
        names = ", ".join(over)
        requested, there = (", ".join(str(amounts[name]) for name in over) for amounts in (growth, used))
        most = ", ".join(str(limits[name]) for name in over)
        raise QuotaExceeded(
            f"Quota exceeded for {names}: Requested {requested}, but already used {there} of {most} {names}"
        )


def take(instance_uuid: UUID | str, vcpus: int, memory_mb: int) -> None:
    """Set the vCPUs and the memory, in MB, that count for the instance."""
    InstanceMapping.objects.filter(instance_uuid=instance_uuid).update(vcpus=vcpus, memory_mb=memory_mb)
