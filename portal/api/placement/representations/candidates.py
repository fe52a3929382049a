"""Allocation candidates: parses the query of all versions, and shows the result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.http import QueryDict

from conductor.core.errors import Invalid
from conductor.core.placement.candidates import Candidates, ProviderNode
from conductor.core.placement.query import CandidateQuery, RequestGroup
from portal.api.microversions import Microversion
from portal.api.placement.faults import BAD_VALUE, DUPLICATE_KEY, MISSING_VALUE
from portal.api.placement.representations import queries
from portal.api.placement.representations.queries import AggregateQuery, TraitQuery
from portal.api.placement.schemas.candidates import NAMED_GROUP, NUMBERED_GROUP

SAME_SUBTREE = "1.36"
NESTED = "1.29"
_WORDS = "resources|required|member_of|in_tree"
_NUMBERED = re.compile(rf"\A({_WORDS})({NUMBERED_GROUP})?\Z")
_NAMED = re.compile(rf"\A({_WORDS})({NAMED_GROUP})?\Z")


def parse(params: QueryDict, version: Microversion) -> CandidateQuery:
    """Parse the query. Raises Invalid naming the parameter that is wrong, or that contradicts another."""
    groups = {suffix: _group(params, suffix, version) for suffix in _suffixes(params, version)}
    subtrees = _same_subtrees(params.getlist("same_subtree"))
    if version.covers(SAME_SUBTREE):
        _refuse_unbound(groups, subtrees)
    else:
        _refuse_orphans(groups)
    _refuse_contradictions(groups)
    policy = next(iter(params.getlist("group_policy")), "")
    if not policy and sum(1 for suffix in groups if suffix) > 1:
        raise Invalid(
            "The group_policy parameter is required with more than one group that has a suffix: none or isolate.",
            field="group_policy",
        )
    root = _root_required(params.getlist("root_required"), version)
    return CandidateQuery(
        groups=groups,
        group_policy=policy,
        root_required=frozenset(name for names in root.required for name in names),
        root_forbidden=root.forbidden,
        same_subtrees=subtrees,
        limit=int(params.getlist("limit")[0]) if "limit" in params else None,
    )


def _suffixes(params: QueryDict, version: Microversion) -> list[str]:
    form = _NAMED if version.covers("1.33") else _NUMBERED
    matches = (form.match(key) for key in params)
    return list(dict.fromkeys(match[2] or "" for match in matches if match))


def _group(params: QueryDict, suffix: str, version: Microversion) -> RequestGroup:
    texts = params.getlist(f"resources{suffix}")
    amounts = queries.resources(texts[-1], f"resources{suffix}") if texts else {}
    required = params.getlist(f"required{suffix}")
    wanted = queries.traits(required, version, f"required{suffix}") if required else TraitQuery()
    member_of = params.getlist(f"member_of{suffix}")
    aggregates = queries.aggregates(member_of, version, f"member_of{suffix}") if member_of else AggregateQuery()
    trees = params.getlist(f"in_tree{suffix}")
    return RequestGroup(
        resources=amounts,
        required=wanted.required,
        forbidden=wanted.forbidden,
        member_of=aggregates.member_of,
        forbidden_aggregates=aggregates.forbidden,
        in_tree=queries.in_tree(trees[-1], f"in_tree{suffix}") if trees else "",
    )


def _same_subtrees(values: Iterable[str]) -> tuple[frozenset[str], ...]:
    subtrees = tuple(frozenset(part.strip() for part in value.split(",")) for value in values)
    if any("" in subtree for subtree in subtrees):
        raise Invalid(
            "same_subtree names groups by their suffix; the empty string (unsuffixed group) has none.",
            field="same_subtree",
            code=BAD_VALUE,
        )
    return subtrees


def _refuse_unbound(groups: Mapping[str, RequestGroup], subtrees: tuple[frozenset[str], ...]) -> None:
    """Raises Invalid for a group without resources, unless same_subtree binds it to other groups."""
    bare = {suffix for suffix, group in groups.items() if not group.resources}
    if len(bare) == len(groups):
        raise Invalid("There must be at least one resources parameter.", field="resources", code=MISSING_VALUE)
    bound = frozenset().union(*subtrees)
    for what, wrong in (
        ("groups without resources must be named in it", bare - bound),
        ("it names groups that are not in the query", bound - groups.keys()),
    ):
        if wrong:
            raise Invalid(f"same_subtree: {what}: {_listed(wrong)}.", field="same_subtree", code=BAD_VALUE)


def _refuse_orphans(groups: Mapping[str, RequestGroup]) -> None:
    if not groups:
        raise Invalid("There must be at least one resources parameter.", field="resources")
    bare = {suffix: group for suffix, group in groups.items() if not group.resources}
    wrong = [f"required{suffix}" for suffix, group in bare.items() if group.required or group.forbidden]
    wrong += [f"member_of{suffix}" for suffix, group in bare.items() if group.member_of or group.forbidden_aggregates]
    wrong += [f"in_tree{suffix}" for suffix, group in bare.items() if group.in_tree]
    if wrong:
        raise Invalid(f"Each group must ask for resources; these belong to none: {_listed(wrong)}.", field=wrong[0])


def _refuse_contradictions(groups: Mapping[str, RequestGroup]) -> None:
    for suffix, group in groups.items():
        if any(names <= group.forbidden for names in group.required):
            key = f"required{suffix}"
            names = sorted(group.forbidden & frozenset().union(*group.required))
            raise Invalid(f"{key}: traits are both required and forbidden: {_listed(names)}.", field=key)


def _root_required(values: list[str], version: Microversion) -> TraitQuery:
    if not values:
        return TraitQuery()
    if len(values) > 1:
        raise Invalid("root_required can be given once only.", field="root_required", code=DUPLICATE_KEY)
    if values[0].startswith("in:"):
        raise Invalid("root_required knows no in:; name traits that must all be there.", field="root_required")
    wanted = queries.traits(values, version, "root_required")
    both = wanted.forbidden & frozenset().union(*wanted.required)
    if both:
        raise Invalid(
            f"root_required: traits are both required and forbidden: {_listed(both)}.",
            field="root_required",
            code=BAD_VALUE,
        )
    return wanted


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(name[:80] for name in names))


def show(found: Candidates, requested: CandidateQuery, version: Microversion) -> dict[str, Any]:
    """Return the candidates in the format of the version."""
    classes = {name for group in requested.groups.values() for name in group.resources}
    return {
        "allocation_requests": [_request(request, version) for request in found.requests],
        "provider_summaries": {uuid: _summary(node, classes, version) for uuid, node in found.summaries.items()},
    }


def _request(request: Any, version: Microversion) -> dict[str, Any]:
    held = request.resources_by_provider
    if not version.covers("1.12"):
        return {
            "allocations": [
                {"resource_provider": {"uuid": uuid}, "resources": dict(amounts)} for uuid, amounts in held.items()
            ]
        }
    shown: dict[str, Any] = {"allocations": {uuid: {"resources": dict(amounts)} for uuid, amounts in held.items()}}
    if version.covers("1.34"):
        shown["mappings"] = {suffix: list(uuids) for suffix, uuids in request.mappings.items()}
    return shown


def _summary(node: ProviderNode, classes: set[str], version: Microversion) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "resources": {
            name: {"capacity": int(amount.capacity), "used": amount.used}
            for name, amount in node.amounts.items()
            if version.covers("1.27") or name in classes
        }
    }
    if version.covers("1.17"):
        shown["traits"] = sorted(node.traits, key=lambda name: (name.startswith("CUSTOM_"), name))
    if version.covers(NESTED):
        shown |= {"parent_provider_uuid": node.parent_uuid, "root_provider_uuid": node.root_uuid}
    return shown
