"""Queries that placement refuses: those that it cannot read, and unknown names."""

from __future__ import annotations

from dataclasses import replace

import os_resource_classes as classes
import os_traits as traits

from conductor.core.host_state import HostTable
from conductor.core.placement.query import CandidateQuery, RequestGroup
from conductor.core.scheduling.provider_answers import answers
from conductor.core.scheduling.resource_request import SPREAD, unfit_of


def refusal_of(query: CandidateQuery, hosts: HostTable) -> str:
    """Return why the query is refused. Empty for a valid one. Custom names are known where a host has them.

    Placement reads a query only as long as some hosts satisfy it. The rest of it is not read, and so not refused.
    """
    if not query.groups.get(SPREAD, RequestGroup()).resources:
        return "nothing is asked of the group that may be spread"
    unfit = unfit_of(query)
    if unfit:
        return unfit
    unknown = _unknown_traits(query.root_required | query.root_forbidden, hosts)
    if unknown:
        return unknown
    bare = replace(query, groups={})
    if not _has_any(hosts, bare):
        return ""
    for _, group in sorted(query.groups.items()):  # the group that may be spread comes first
        refusal, is_over = _read(group, hosts, bare)
        if refusal or is_over:
            return refusal
    return ""


def _read(group: RequestGroup, hosts: HostTable, bare: CandidateQuery) -> tuple[str, bool]:
    """Return why the group is refused, and whether no host is left that satisfies it."""
    known = {name for state in hosts.states for name in state.amounts}
    foreign = set(group.resources) - set(classes.STANDARDS) - known
    if foreign:
        return f"there is no resource class {min(foreign)}", True
    if group.member_of and not _has_any(hosts, replace(bare, groups={"": RequestGroup(member_of=group.member_of)})):
        return "", True
    unknown = _unknown_traits(group.forbidden.union(*group.required), hosts)
    if unknown:
        return unknown, True
    return "", not _has_any(hosts, replace(bare, groups={"": group}))


def _has_any(hosts: HostTable, query: CandidateQuery) -> bool:
    return bool(answers(hosts, query).any())


def _unknown_traits(named: frozenset[str], hosts: HostTable) -> str:
    known = {name for state in hosts.states for name in state.traits}
    unknown = {name for name in named if name not in known and not hasattr(traits, name)}
    return f"there is no trait {min(unknown)}" if unknown else ""
