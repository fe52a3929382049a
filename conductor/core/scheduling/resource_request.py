"""Builds the placement query of a request: the flavor's size, its extra specs, the image's properties, in groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import os_resource_classes as classes
import os_traits as traits

from conductor.core.errors import Invalid
from conductor.core.hardware.constraints import HardwareRequirements
from conductor.core.hardware.request import DEDICATED, ISOLATE, MIXED, REQUIRE
from conductor.core.placement.query import UNBOUND, Bounds, CandidateQuery, RequestGroup
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling.guest_features import features_of, persistent_memory

SPREAD = ""  # the group that may be spread over a tree of providers
GROUPED = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)", re.DOTALL)
GROUP_POLICIES = ("none", "isolate")
TRAIT_VALUES = ("required", "forbidden")
# Hints of a group, or of other instances, may need hosts that a bounded result leaves out.
UNBOUNDED_HINTS = ("group", "same_host", "different_host")
MB_IN_GB = 1024
DEFAULT_LIMIT = 1000


def queries_of(
    spec: RequestSpec, bounds: Bounds = UNBOUND, *, is_strict: bool = True, has_fallback: bool = True
) -> tuple[CandidateQuery, ...]:
    """Return the queries to try: one, or two where CPUs are pinned. The second has VCPU in place of PCPU.

    The second query finds hosts that do not count their pinned CPUs separately yet. Without `has_fallback` it is left
    out.
    """
    first = query_of(spec, bounds, is_strict=is_strict)
    if not has_fallback or HardwareRequirements(spec.flavor, spec.image.properties).cpu_policy() != DEDICATED:
        return (first,)
    return first, query_of(spec, bounds, is_strict=is_strict, counts_pinned=False)


def query_of(
    spec: RequestSpec, bounds: Bounds = UNBOUND, *, is_strict: bool = True, counts_pinned: bool = True
) -> CandidateQuery:
    """Return one query. With `counts_pinned` dedicated CPUs are PCPUs, without they are VCPUs as all others.

    Amounts, traits and policies that cannot be read count as not set unless `is_strict`.

    Raises:
        Invalid: an extra spec or a property cannot be read. Ignoring it would misplace the instance.
    """
    requested = _RequestGroups(is_strict)
    requested.read(spec.flavor.extra_specs)
    requested.read_image(spec.image.properties)
    requirements = HardwareRequirements(spec.flavor, spec.image.properties)
    if counts_pinned:
        _ask_pinned(requested, requirements)
    _ask_size(requested, spec)
    for feature in features_of(requirements):
        requested.add_trait(SPREAD, feature.trait, "required")
        requested.group(SPREAD).resources.update(feature.resources)
    requested.group(SPREAD).resources.update(persistent_memory(requirements))
    groups = requested.groups()
    if bounds.member_of or bounds.forbidden_aggregates:
        spread = groups.pop(SPREAD, RequestGroup())
        bound = replace(spread, member_of=bounds.member_of, forbidden_aggregates=bounds.forbidden_aggregates)
        groups = {SPREAD: bound, **groups}
    query = CandidateQuery(
        groups=groups,
        group_policy=requested.group_policy,
        root_required=bounds.root_required,
        root_forbidden=bounds.root_forbidden,
        limit=None if any(hint in spec.scheduler_hints for hint in UNBOUNDED_HINTS) else DEFAULT_LIMIT,
    )
    if is_strict and unfit_of(query):
        raise Invalid(f"Extra specs: {unfit_of(query)}.")
    return query


def unfit_of(query: CandidateQuery) -> str:
    """Return why no placement could read the query, independent of hosts. Empty for a valid one."""
    bare = [suffix for suffix, group in query.groups.items() if suffix and not group.resources]
    if bare:
        return f'group "{bare[0]}" asks for traits alone; give it resources{bare[0]}:CLASS too'
    if sum(1 for suffix in query.groups if suffix) > 1 and not query.group_policy:
        return "several groups need a group_policy, none or isolate"
    pairs = [(frozenset[str]().union(*group.required), group.forbidden) for group in query.groups.values()]
    for required, forbidden in (*pairs, (query.root_required, query.root_forbidden)):
        if "" in required | forbidden:
            return "a trait needs a name; write trait:NAME"
        if required & forbidden:
            return f"trait {min(required & forbidden)} is both required and forbidden"
    return ""


def within_tree(query: CandidateQuery, provider_uuid: str) -> CandidateQuery:
    """Restrict the query to one host's providers."""
    spread = query.groups.get(SPREAD, RequestGroup())
    return replace(query, groups={**query.groups, SPREAD: replace(spread, in_tree=provider_uuid)})


def required_traits(query: CandidateQuery) -> frozenset[str]:
    """Return the traits that at least one of the groups requires."""
    return frozenset(name for group in query.groups.values() for names in group.required for name in names)


def disk_gb(flavor: FlavorSpec, *, is_volume_backed: bool) -> int:
    """Return the disk that the flavor takes of a host, in GB. A root disk on a volume takes none."""
    swap_gb = -(-flavor.swap_mb // MB_IN_GB)
    return flavor.ephemeral_gb + swap_gb + (0 if is_volume_backed else flavor.root_gb)


@dataclass
class _Group:
    resources: dict[str, int] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)

    def done(self) -> RequestGroup | None:
        """Return the group. None for one that requests nothing, as amounts of 0 only cancel those of the flavor."""
        resources = {name: amount for name, amount in self.resources.items() if amount}
        if not (resources or self.required or self.forbidden):
            return None
        wanted = self.required
        if wanted == {""} and resources and not self.forbidden:
            wanted = set()  # a single trait without a name means none
        required = tuple(frozenset({name}) for name in sorted(wanted))
        return RequestGroup(resources, required, frozenset(self.forbidden))


class _RequestGroups:
    """Builder of the groups."""

    def __init__(self, is_strict: bool) -> None:
        self.is_strict = is_strict
        self.group_policy = ""
        self._groups: dict[str, _Group] = {}

    def group(self, suffix: str) -> _Group:
        return self._groups.setdefault(suffix, _Group())

    def has(self, resource_class: str) -> bool:
        return any(resource_class in group.resources for group in self._groups.values())

    def groups(self) -> dict[str, RequestGroup]:
        done = {suffix: group.done() for suffix, group in self._groups.items()}
        return {suffix: group for suffix, group in done.items() if group is not None}

    def read(self, extra_specs: Mapping[str, str]) -> None:
        for key, value in extra_specs.items():
            if key == "group_policy":
                if value in GROUP_POLICIES:
                    self.group_policy = value
                else:
                    self.refuse(key, f'"{value}" is neither "none" nor "isolate"')
                continue
            match = GROUPED.fullmatch(key)
            if match is None:
                continue
            kind, suffix, name = match.groups()
            if kind == "resources":
                self._add_amount(suffix or SPREAD, name, key, value)
            else:
                self.add_trait(suffix or SPREAD, name, value, key=key)

    def read_image(self, properties: Mapping[str, Any]) -> None:
        """Add an image's required traits, its properties `trait:NAME`. An image cannot forbid traits."""
        for key, value in properties.items():
            kind, colon, name = str(key).partition(":")
            if kind != "trait" or not (name or (colon and not self.is_strict)):
                continue
            if str(value) == "required":
                self.group(SPREAD).required.add(name)
            elif self.is_strict:
                raise Invalid(f'Image property {key}: "{value}" is not "required", which is all that an image may say.')

    def add_trait(self, suffix: str, name: str, value: str, *, key: str = "") -> None:
        if value not in TRAIT_VALUES:
            self.refuse(key, f'"{value}" is neither "required" nor "forbidden"')
            return
        group = self.group(suffix)
        (group.required if value == "required" else group.forbidden).add(name)

    def refuse(self, key: str, why: str) -> None:
        if self.is_strict:
            raise Invalid(f"Extra spec {key}: {why}.")

    def _add_amount(self, suffix: str, name: str, key: str, value: str) -> None:
        group = self.group(suffix)
        if not (name.startswith(classes.CUSTOM_NAMESPACE) or name in classes.STANDARDS):
            self.refuse(key, f'"{name}" is no resource class; custom ones begin with {classes.CUSTOM_NAMESPACE}')
            return
        try:
            amount = int(value)
        except ValueError:
            amount = -1
        if amount < 0:
            self.refuse(key, f'"{value}" is not an amount; 0 or more is')
            return
        group.resources[name] = amount


def _ask_pinned(requested: _RequestGroups, requirements: HardwareRequirements) -> None:
    """Request the guest's dedicated CPUs, and its requirements of hardware threads."""
    policy = requirements.cpu_policy()
    pinned = 0
    if policy == DEDICATED:
        pinned = requirements.flavor.vcpus
    elif policy == MIXED:
        pinned = len(requirements.dedicated_cpus() or requirements.realtime_cpus())
        requested.group(SPREAD).resources[classes.VCPU] = requirements.flavor.vcpus - pinned
    if policy in (DEDICATED, MIXED):
        isolates = requirements.emulator_policy() == ISOLATE
        requested.group(SPREAD).resources[classes.PCPU] = pinned + (1 if isolates else 0)
    value = {ISOLATE: "forbidden", REQUIRE: "required"}.get(requirements.thread_policy() or "")
    if value:
        requested.add_trait(SPREAD, traits.HW_CPU_HYPERTHREADING, value)


def _ask_size(requested: _RequestGroups, spec: RequestSpec) -> None:
    """Request the flavor's own size, where extra specs do not override a class."""
    if not (requested.has(classes.VCPU) or requested.has(classes.PCPU)):
        requested.group(SPREAD).resources[classes.VCPU] = spec.flavor.vcpus
    size = {
        classes.MEMORY_MB: spec.flavor.memory_mb,
        classes.DISK_GB: disk_gb(spec.flavor, is_volume_backed=spec.is_volume_backed),
    }
    for name, amount in size.items():
        if not requested.has(name):
            requested.group(SPREAD).resources[name] = amount
