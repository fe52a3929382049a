"""Rules of server groups: how many members a host may hold, and which hosts a member may join."""

from __future__ import annotations

from collections import Counter

from conductor.core.request_spec import GroupSpec

AFFINITY = "affinity"
ANTI_AFFINITY = "anti-affinity"
SOFT_AFFINITY = "soft-affinity"
SOFT_ANTI_AFFINITY = "soft-anti-affinity"
LEAVING = ":leaving"  # after a member's uuid: marks the host that the member is leaving
STAYING = "member:"  # before a member's uuid: the member counts at its host, even if the request places it anew
HARD = frozenset({AFFINITY, ANTI_AFFINITY})


NO_MEMBERS: Counter[str] = Counter()


def members_by_host(group: GroupSpec | None, policy: str) -> Counter[str]:
    """Return the number of members per host, of a group with this policy. Empty for other policies. Read-only."""
    if group is None or group.policy != policy:
        return NO_MEMBERS
    return Counter(host for host in group.member_hosts.values() if host)


def most_per_host(group: GroupSpec | None) -> int:
    """Return how many members of an anti-affinity group one host may hold."""
    return int(group.rules.get("max_server_per_host", 1)) if group else 1


def may_join(group: GroupSpec, instance_uuid: str, host: str) -> bool:
    """Whether a hard policy lets this member be on `host`, given the current places of the others."""
    own = (instance_uuid, instance_uuid + LEAVING)
    others = Counter(at for uuid, at in group.member_hosts.items() if at and uuid not in own)
    if group.policy == ANTI_AFFINITY:
        return others[host] < most_per_host(group)
    if group.policy == AFFINITY:
        return not others or host in others
    return True
