"""Adds to a request what only the databases know: where the members of its group and the hinted instances are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from conductor.api_db.models import InstanceGroup, InstanceGroupMember, InstanceMapping
from conductor.cell_db.models import Instance
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.identifiers import uuid_or_none
from conductor.core.request_spec import GroupSpec, RequestSpec
from conductor.core.scheduling.group_rules import ANTI_AFFINITY, LEAVING
from conductor.scheduler import hardware_wishes, request_bounds

GROUP_HINT = "group"
HOST_HINTS = ("same_host", "different_host")


def complete(spec: RequestSpec) -> RequestSpec:
    """The same request with its group's members and their hosts, the hosts of hinted instances, and its hardware.

    Raises Invalid for hardware that cannot be.
    """
    hinted = [uuid for hint in HOST_HINTS for uuid in spec.scheduler_hints.get(hint, ())]
    hosts = hosts_of(hinted) if hinted else {}
    known = replace(spec, group=group_now(spec), instance_hosts={**spec.instance_hosts, **hosts})
    return request_bounds.bounded(hardware_wishes.derived(known))


def group_now(spec: RequestSpec) -> GroupSpec | None:
    """The group that the request names, as it stands; None where it names none that exists."""
    named = spec.group.group_uuid if spec.group else next(iter(spec.scheduler_hints.get(GROUP_HINT, ())), "")
    uuid = uuid_or_none(named)
    group = InstanceGroup.objects.filter(uuid=uuid).first() if uuid else None
    return group_spec(group) if group else spec.group


def group_spec(group: InstanceGroup) -> GroupSpec:
    """A group with the hosts that are claimed for its members.

    Members that must not meet count on both ends of their moves: the other end is there under a key of its own.
    """
    members = InstanceGroupMember.objects.filter(group=group)
    hosts = {str(uuid): host for uuid, host in members.values_list("instance_uuid", "host")}
    if group.policy == ANTI_AFFINITY:
        leaving = members.exclude(leaving_host="").values_list("instance_uuid", "leaving_host")
        hosts |= {f"{uuid}{LEAVING}": host for uuid, host in leaving}
    return GroupSpec(str(group.uuid), group.policy, group.rules, hosts)


def hosts_of(instance_uuids: Iterable[str]) -> dict[str, str]:
    """Instance uuid → host, for those that live on one. A cell that does not answer has none for us."""
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
