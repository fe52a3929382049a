"""What may be laid over the picture of the fleet: where a group or project lives, where a flavor fits, what is new."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models import Count, Q

from conductor.api_db.models import InstanceMapping, SchedulingDecision
from conductor.cell_db.models import Instance
from conductor.cells.lookup import cell_aliases
from conductor.cells.scatter_gather import scatter_gather
from conductor.core.context import RequestContext
from conductor.core.errors import Forbidden, Invalid, NotFound
from conductor.core.host_state import Column, HostTable
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling.replay import replay
from conductor.scheduler import hypotheses
from conductor.services import flavors, flow_lists, instance_groups
from conductor.services.flavors import FlavorQuery
from conductor.transactions import database_now

RECENT_SECONDS = 600
MOST_DECISIONS = 5000
MOST_CHOICES = 200


@dataclass(frozen=True)
class Overlay:
    """`hosts` are those that it is about, each with a number: servers, or how many more would fit."""

    kind: str
    title: str
    sentence: str
    unit: str
    hosts: Mapping[str, int]


@dataclass(frozen=True)
class OverlayChoice:
    """One overlay that can be asked for: `ref` is its name in an address, such as flavor:2."""

    ref: str
    words: str


def choices(context: RequestContext) -> dict[str, list[OverlayChoice]]:
    """What can be laid over the fleet, by kind, for operators."""
    _only_operators(context)
    sizes = flavors.list_page(context, FlavorQuery(is_public=None, limit=MOST_CHOICES)).items
    groups = instance_groups.list_groups(context, all_projects=True, limit=MOST_CHOICES)
    owners = InstanceMapping.objects.filter(is_deleted=False).values_list("project_id", flat=True).distinct()
    names = flow_lists.project_names(context, owners.order_by("project_id")[:MOST_CHOICES])
    return {
        "Time": [OverlayChoice("recent", "Placed within 10 minutes")],
        "Where would it fit": [OverlayChoice(f"flavor:{one.spec.flavor_id}", one.spec.name) for one in sizes],
        "Servers of a project": [
            OverlayChoice(f"project:{key}", name) for key, name in sorted(names.items(), key=lambda pair: pair[1])
        ],
        "Servers of a group": [OverlayChoice(f"group:{one.uuid}", one.name) for one in groups],
    }


def overlay(context: RequestContext, ref: str) -> Overlay:
    """The overlay of that name. Raises Invalid for another kind, NotFound for one that is about nothing."""
    _only_operators(context)
    kind, _, ident = ref.partition(":")
    make = _KINDS.get(kind)
    if make is None:
        raise Invalid(f"Unknown overlay {kind[:60]}; it is one of {', '.join(_KINDS)}.", field="overlay")
    return make(context, ident)


def _of_flavor(context: RequestContext, ident: str) -> Overlay:
    flavor = flavors.get(context, ident).spec
    asked = hypotheses.now(RequestSpec(context.project_id, context.user_id, flavor))
    again = replay(asked.table, asked.spec, hypotheses.pipeline())
    room = _rooms(asked.table, flavor)
    found: Counter[str] = Counter()
    for row in np.flatnonzero(again.misses == 0).tolist():
        found[asked.table.states[row].host] += max(1, int(room[row]))
    sentence = f"{len(found)} of {len(asked.table)} hosts would take {flavor.name} now, without image or hints."
    return Overlay("flavor", f"Where {flavor.name} fits", sentence, "more", found)


def _rooms(table: HostTable, flavor: FlavorSpec) -> Column:
    """How many of a flavor each host has room for, by its three usual sizes."""
    free = {"VCPU": table.free_vcpus, "MEMORY_MB": table.free_memory_mb, "DISK_GB": table.free_disk_gb}
    room: Column = np.full(len(table), np.inf)
    for name, need in flavor.resources().items():
        room = np.minimum(room, np.floor(free[name] / need))
    return np.where(np.isfinite(room), room, 1.0)


def _of_group(context: RequestContext, ident: str) -> Overlay:
    group = instance_groups.get(context, ident)
    found = _where(Q(uuid__in=group.member_uuids)) if group.member_uuids else {}
    sentence = f"{_servers(sum(found.values()))} of {group.name} on {_hosts(len(found))}; its rule is {group.policy}."
    return Overlay("group", f"Group {group.name}", sentence, "servers", found)


def _of_project(context: RequestContext, ident: str) -> Overlay:
    name = flow_lists.project_names(context, [ident]).get(ident)
    if name is None:
        raise NotFound(f"Project {ident[:60]} could not be found.")
    found = _where(Q(project_id=ident))
    sentence = f"{_servers(sum(found.values()))} of {name} on {_hosts(len(found))}."
    return Overlay("project", f"Project {name}", sentence, "servers", found)


def _recent(context: RequestContext, ident: str) -> Overlay:
    made = SchedulingDecision.objects.filter(is_successful=True, created_at__gte=database_now(-RECENT_SECONDS))
    newest = made.order_by("-pk").values_list("selections", flat=True)[:MOST_DECISIONS]
    found: Counter[str] = Counter(one[0]["host"] for selections in newest for one in selections if one)
    sentence = f"{_servers(sum(found.values()))} placed on {_hosts(len(found))} within 10 minutes."
    return Overlay("recent", "Placed within 10 minutes", sentence, "servers", found)


def _where(wanted: Q) -> dict[str, int]:
    """How many of these instances each host has."""

    def ask(alias: str) -> Sequence[tuple[str, int]]:
        rows = Instance.objects.using(alias).alive().filter(wanted, host__isnull=False)
        return list(rows.values_list("host").annotate(count=Count("pk")).order_by("host"))

    gathered = scatter_gather(ask, cell_aliases())
    return dict(row for rows in gathered.answers.values() for row in rows)


def _servers(count: int) -> str:
    return f"{count} server{'' if count == 1 else 's'}"


def _hosts(count: int) -> str:
    return f"{count} host{'' if count == 1 else 's'}"


def _only_operators(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden("The fleet is for operators.")


_KINDS: Mapping[str, Callable[[RequestContext, str], Overlay]] = {
    "flavor": _of_flavor,
    "group": _of_group,
    "project": _of_project,
    "recent": _recent,
}
