"""Questions that placement does not answer at all: what it cannot read, and names that it does not know."""

from __future__ import annotations

from collections.abc import Iterable

import os_resource_classes as classes
import os_traits as traits

from conductor.core.host_state import HostState
from conductor.core.placement.query import CandidateQuery, RequestGroup


def refusal_of(query: CandidateQuery, states: Iterable[HostState]) -> str:
    """Why the question is refused; empty where it is not. Custom names are known where some host has them."""
    states = tuple(states)
    spread = query.groups.get("", RequestGroup())
    if not spread.resources:
        return "nothing is asked of the group that may be spread"
    bare = [suffix for suffix, group in query.groups.items() if not group.resources]
    if bare:
        return f"group {bare[0]} asks for traits alone, without resources"
    if sum(1 for suffix in query.groups if suffix) > 1 and not query.group_policy:
        return "several groups need a group_policy"
    named = {name for group in query.groups.values() for name in group.resources}
    unknown = named - set(classes.STANDARDS) - {name for state in states for name in state.amounts}
    if unknown:
        return f"there is no resource class {min(unknown)}"
    return _refused_traits(query, states)


def _refused_traits(query: CandidateQuery, states: tuple[HostState, ...]) -> str:
    for group in query.groups.values():
        both = {name for names in group.required for name in names} & group.forbidden
        if both:
            return f"trait {min(both)} is both required and forbidden"
    both = query.root_required & query.root_forbidden
    if both:
        return f"trait {min(both)} is both required and forbidden"
    named = query.root_required | query.root_forbidden
    for group in query.groups.values():
        named = named.union(group.forbidden, *group.required)
    known = {name for state in states for name in state.traits}
    unknown = {name for name in named if name not in known and not hasattr(traits, name)}
    return f"there is no trait {min(unknown)}" if unknown else ""
