"""Overlays of the fleet's topology: hosts of a group or project, hosts that fit a flavor, recent placements."""

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
from conductor.core.phrases import Phrase, phrase, phrases
from conductor.core.request_spec import FlavorSpec, RequestSpec
from conductor.core.scheduling.replay import replay
from conductor.db.transactions import database_now
from conductor.scheduler import hypotheses
from conductor.services.servers import flavors
from conductor.services.servers import groups as server_groups
from conductor.services.servers.flavors import FlavorQuery
from conductor.services.workflows import lists

RECENT_SECONDS = 600
MOST_DECISIONS = 5000
MOST_CHOICES = 200


@dataclass(frozen=True)
class Overlay:
    """An overlay. `hosts` maps the hosts concerned to a number: servers, or how many more would fit."""

    kind: str
    title: str
    sentence: str
    unit: str
    hosts: Mapping[str, int]


@dataclass(frozen=True)
class OverlayOption:
    """An overlay to choose: `ref` is its name in a URL, such as flavor:2."""

    ref: str
    words: str


def choices(context: RequestContext) -> dict[str, list[OverlayOption]]:
    """Return the available overlays by kind, for operators."""
    _only_operators(context)
    sizes = flavors.list_page(context, FlavorQuery(is_public=None, limit=MOST_CHOICES)).items
    groups = server_groups.list_groups(context, all_projects=True, limit=MOST_CHOICES)
    owners = InstanceMapping.objects.filter(is_deleted=False).values_list("project_id", flat=True).distinct()
    names = lists.project_names(context, owners.order_by("project_id")[:MOST_CHOICES])
    return {
        "Time": [OverlayOption("recent", phrase("Placed within 10 minutes"))],
        "Where would it fit": [OverlayOption(f"flavor:{one.spec.flavor_id}", one.spec.name) for one in sizes],
        "Servers of a project": [
            OverlayOption(f"project:{key}", name) for key, name in sorted(names.items(), key=lambda pair: pair[1])
        ],
        "Servers of a group": [OverlayOption(f"group:{one.uuid}", one.name) for one in groups],
    }


def overlay(context: RequestContext, ref: str) -> Overlay:
    """Return the overlay named `ref`. Raises Invalid for an unknown kind, NotFound for an unknown object."""
    _only_operators(context)
    kind, _, ident = ref.partition(":")
    make = _KINDS.get(kind)
    if make is None:
        raise Invalid(
            phrase("Unknown overlay %(kind)s. Use one of %(choices)s.", kind=kind[:60], choices=", ".join(_KINDS)),
            field="overlay",
        )
    return make(context, ident)


def _of_flavor(context: RequestContext, ident: str) -> Overlay:
    flavor = flavors.get(context, ident).spec
    requested = hypotheses.now(RequestSpec(context.project_id, context.user_id, flavor))
    again = replay(requested.table, requested.spec, hypotheses.pipeline())
    room = _rooms(requested.table, flavor)
    found: Counter[str] = Counter()
    for row in np.flatnonzero(again.misses == 0).tolist():
        found[requested.table.states[row].host] += max(1, int(room[row]))
    sentence = phrase(
        "%(some)s of %(all)s hosts would take %(flavor)s now, without image or hints.",
        some=len(found),
        all=len(requested.table),
        flavor=flavor.name,
    )
    return Overlay("flavor", phrase("Where %(flavor)s fits", flavor=flavor.name), sentence, "more", found)


def _rooms(table: HostTable, flavor: FlavorSpec) -> Column:
    """Return how many servers of a flavor fit on each host, by VCPU, MEMORY_MB and DISK_GB."""
    free = {"VCPU": table.free_vcpus, "MEMORY_MB": table.free_memory_mb, "DISK_GB": table.free_disk_gb}
    room: Column = np.full(len(table), np.inf)
    for name, need in flavor.resources().items():
        room = np.minimum(room, np.floor(free[name] / need))
    return np.where(np.isfinite(room), room, 1.0)


def _of_group(context: RequestContext, ident: str) -> Overlay:
    group = server_groups.get(context, ident)
    found = _where(Q(uuid__in=group.member_uuids)) if group.member_uuids else {}
    sentence = phrase(
        "%(servers)s of %(group)s on %(hosts)s; its policy is %(policy)s.",
        **_amounts(found),
        group=group.name,
        policy=group.policy,
    )
    return Overlay("group", phrase("Group %(group)s", group=group.name), sentence, "servers", found)


def _of_project(context: RequestContext, ident: str) -> Overlay:
    name = lists.project_names(context, [ident]).get(ident)
    if name is None:
        raise NotFound(phrase("Project %(project)s could not be found.", project=ident[:60]))
    found = _where(Q(project_id=ident))
    sentence = phrase("%(servers)s of %(project)s on %(hosts)s.", **_amounts(found), project=name)
    return Overlay("project", phrase("Project %(project)s", project=name), sentence, "servers", found)


def _recent(context: RequestContext, ident: str) -> Overlay:
    found_hosts = SchedulingDecision.objects.filter(is_successful=True, is_rebuild=False)
    made = found_hosts.filter(created_at__gte=database_now(-RECENT_SECONDS))
    newest = made.order_by("-pk").values_list("selections", flat=True)[:MOST_DECISIONS]
    found: Counter[str] = Counter(one[0]["host"] for selections in newest for one in selections if one)
    sentence = phrase("%(servers)s placed on %(hosts)s within 10 minutes.", **_amounts(found))
    return Overlay("recent", phrase("Placed within 10 minutes"), sentence, "servers", found)


def _where(wanted: Q) -> dict[str, int]:
    """Return how many of these instances each host has."""

    def ask(alias: str) -> Sequence[tuple[str, int]]:
        rows = Instance.objects.using(alias).alive().filter(wanted, host__isnull=False)
        return list(rows.values_list("host").annotate(count=Count("pk")).order_by("host"))

    gathered = scatter_gather(ask, cell_aliases())
    return dict(row for rows in gathered.answers.values() for row in rows)


def _amounts(found: Mapping[str, int]) -> dict[str, Phrase]:
    return {
        "servers": phrases("%(count)s server", "%(count)s servers", sum(found.values())),
        "hosts": phrases("%(count)s host", "%(count)s hosts", len(found)),
    }


def _only_operators(context: RequestContext) -> None:
    if not context.is_admin:
        raise Forbidden(phrase("Only operators can see the fleet."))


_KINDS: Mapping[str, Callable[[RequestContext, str], Overlay]] = {
    "flavor": _of_flavor,
    "group": _of_group,
    "project": _of_project,
    "recent": _recent,
}
