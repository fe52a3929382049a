"""Completes request specs from the databases: server groups, hints, and moves of instances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings

from conductor.api_db.models import InstanceGroup, InstanceGroupMember, InstanceMapping, RequestSpecRecord
from conductor.cell_db.models import ComputeNode, Instance, Migration
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.identifiers import uuid_or_none
from conductor.core.request_spec import FlavorSpec, GroupSpec, ImageSpec, MoveSpec, RequestSpec
from conductor.core.scheduling.group_rules import ANTI_AFFINITY, LEAVING
from conductor.core.states import MigrationType
from conductor.placement import allocations
from conductor.scheduler import hardware_requests, placement_bounds

GROUP_HINT = "group"
HOST_HINTS = ("same_host", "different_host")


def complete(spec: RequestSpec) -> RequestSpec:
    """Return the request with its group's members and their hosts, the hosts of hinted instances, and its hardware.

    Raises Invalid for invalid hardware.
    """
    hinted = [uuid for hint in HOST_HINTS for uuid in spec.scheduler_hints.get(hint, ())]
    hosts = hosts_of(hinted) if hinted else {}
    known = replace(spec, group=group_now(spec), instance_hosts={**spec.instance_hosts, **hosts})
    return placement_bounds.bounded(hardware_requests.derived(known))


def group_now(spec: RequestSpec) -> GroupSpec | None:
    """Return the current group that the request names. None if it names none, or if the group does not exist."""
    named = spec.group.group_uuid if spec.group else next(iter(spec.scheduler_hints.get(GROUP_HINT, ())), "")
    uuid = uuid_or_none(named)
    group = InstanceGroup.objects.filter(uuid=uuid).first() if uuid else None
    return group_spec(group) if group else spec.group


def group_spec(group: InstanceGroup) -> GroupSpec:
    """Return a group with the hosts that are claimed for its members.

    Members with anti-affinity count at both ends of their moves. The source has a key of its own.
    """
    members = InstanceGroupMember.objects.filter(group=group)
    hosts = {str(uuid): host for uuid, host in members.values_list("instance_uuid", "host")}
    if group.policy == ANTI_AFFINITY:
        leaving = members.exclude(leaving_host="").values_list("instance_uuid", "leaving_host")
        hosts |= {f"{uuid}{LEAVING}": host for uuid, host in leaving}
    return GroupSpec(str(group.uuid), group.policy, group.rules, hosts)


def hosts_of(instance_uuids: Iterable[str]) -> dict[str, str]:
    """Return the hosts of the instances by uuid, for those that have one. Cells that do not answer are left out."""
    uuids = [uuid for uuid in map(uuid_or_none, instance_uuids) if uuid]
    by_cell: defaultdict[str, list[str]] = defaultdict(list)
    mappings = InstanceMapping.objects.filter(instance_uuid__in=uuids, cell__isnull=False, is_deleted=False)
    for uuid, cell in mappings.values_list("instance_uuid", "cell__name"):
        by_cell[cell].append(str(uuid))

    def ask(alias: str) -> dict[str, str]:
        rows = Instance.objects.using(alias).alive().filter(uuid__in=by_cell[alias], host__isnull=False)
        return {str(uuid): host for uuid, host in rows.values_list("uuid", "host") if host}

    found: dict[str, str] = {}
    for answer in scatter_gather(ask, by_cell).answers.values():
        found |= answer
    return found


# Required driver capability of the destination, by kind of move.
CAPABILITIES: Mapping[str, str] = {
    MigrationType.RESIZE: "migrate",
    MigrationType.MIGRATION: "migrate",
    MigrationType.LIVE_MIGRATION: "live_migrate",
}
SHARED_DISKS = "evacuate"  # the capability of drivers whose hosts share guests' disks


def of(instance: Instance, migration: Migration, *, requested_host: str, tried_hosts: Sequence[str]) -> RequestSpec:
    """Return the scheduling request of one move. It is for this attempt only; the original request is not changed."""
    alias = str(instance._state.db)
    node = ComputeNode.objects.using(alias).filter(host=migration.source_host, node=migration.source_node).first()
    may_stay = migration.migration_type == MigrationType.RESIZE and settings.NOVELLA_ALLOW_RESIZE_TO_SAME_HOST
    source = str(node.uuid) if node else ""
    held = migration.details.get("held", {})
    return replace(
        asked(instance),
        flavor=FlavorSpec(**(migration.new_flavor or instance.flavor)),
        ignore_hosts=(*(() if may_stay else (migration.source_host,)), *tried_hosts),
        requested_host=requested_host,
        move=MoveSpec(
            cell=alias,
            migration_uuid=str(migration.uuid),
            hypervisor_type=node.hypervisor_type if node else "",
            capability=_capability(migration.migration_type, node),
            source_provider_uuid=source,
            **_given_back(held, source if may_stay else ""),
        ),
    )


def hypothetical(instance: Instance, migration_type: str, *, flavor: FlavorSpec | None = None) -> RequestSpec:
    """Return the request of a move that has not begun, as `of` does, with the instance's current allocations."""
    alias = str(instance._state.db)
    node = ComputeNode.objects.using(alias).filter(host=instance.host, node=instance.node).first()
    may_stay = migration_type == MigrationType.RESIZE and settings.NOVELLA_ALLOW_RESIZE_TO_SAME_HOST
    source = str(node.uuid) if node else ""
    held = allocations.held_by(instance.uuid) if may_stay else {}
    spec = asked(instance)
    return replace(
        spec,
        flavor=flavor or spec.flavor,
        ignore_hosts=() if may_stay else (instance.host or "",),
        move=MoveSpec(
            cell=alias,
            migration_uuid="",
            hypervisor_type=node.hypervisor_type if node else "",
            capability=_capability(migration_type, node),
            source_provider_uuid=source,
            **_given_back(held, source),
        ),
    )


def leaves_disks(alias: str, migration: Migration) -> bool:
    """Whether other hosts can access the disks of a dead host's guest."""
    node = ComputeNode.objects.using(alias).filter(host=migration.source_host, node=migration.source_node).first()
    return _capability(migration.migration_type, node) == SHARED_DISKS


def asked(instance: Instance) -> RequestSpec:
    """Return the original request of the instance's launch, with its current image."""
    row = RequestSpecRecord.objects.filter(instance_uuid=instance.uuid).first()
    image, flavor = ImageSpec(**instance.image), FlavorSpec(**instance.flavor)
    if row is not None:
        return replace(  # a named host applied only to the launch
            RequestSpec.from_json(row.spec),
            num_instances=1,
            flavor=flavor,
            image=image,
            requested_host="",
            force_hosts=(),
        )
    return RequestSpec(
        project_id=instance.project_id,
        user_id=instance.user_id,
        flavor=flavor,
        image=image,
        availability_zone=instance.pinned_availability_zone,
        scheduler_hints=instance.scheduler_hints,
    )


def _capability(migration_type: str, node: ComputeNode | None) -> str:
    """Return the driver capability that the destination needs.

    Any host can rebuild a dead host's guest from its image. Shared disks need a host that has them.
    """
    if migration_type != MigrationType.EVACUATION:
        return CAPABILITIES[migration_type]
    actions = node.report.get("capabilities", {}).get("actions", ()) if node else ()
    return SHARED_DISKS if SHARED_DISKS in actions else ""


def _given_back(held: Mapping[str, Mapping[str, int]], source: str) -> dict[str, Any]:
    """Return what the instance would give back at its host. Empty where it may not stay there."""
    if not source or not held:
        return {}
    is_one = held.keys() <= {source}
    return {"gives_back": held.get(source, {}), "gives_back_by_provider": {} if is_one else held}
