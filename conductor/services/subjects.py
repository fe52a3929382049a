"""What the audit log tells of besides servers: the things of a project, by kind, id and the name that each bears."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from conductor.api_db.models import InstanceGroup, KeyPair
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.identifiers import uuid_or_none
from conductor.image.models import Image
from conductor.journal.models import WorkflowRun
from conductor.network.models import FloatingIp, Network, Port, Router, SecurityGroup, SecurityGroupRule, Subnet
from conductor.volume.models import Snapshot, Volume

KEY_PAIR = "key_pair"


@dataclass(frozen=True)
class Subject:
    """One thing. A key pair is its user's, and its name is its id."""

    kind: str
    id: str
    name: str
    project_id: str


@dataclass(frozen=True)
class Table:
    """Where a kind is kept, and in which columns its name and its project are."""

    model: Any
    name: str = "name"
    project_id: str = "project_id"
    is_there: Q = Q()


TABLES: Mapping[str, Table] = {
    "network": Table(Network),
    "subnet": Table(Subnet),
    "port": Table(Port),
    "router": Table(Router),
    "floating_ip": Table(FloatingIp, name="address"),
    "security_group": Table(SecurityGroup),
    "security_group_rule": Table(SecurityGroupRule, name="group__name", project_id="group__project_id"),
    "volume": Table(Volume),
    "snapshot": Table(Snapshot),
    "image": Table(Image, is_there=Q(deleted_at=None)),
    "server_group": Table(InstanceGroup),
}
KINDS = (*TABLES, KEY_PAIR)
# What workflows do to these is told as the workflow: its line on the page of activity has the state that it is in.
FLOWS: Mapping[str, tuple[str, ...]] = {
    "volume": ("create_volume", "revert_volume", "reimage_volume", "upload_volume"),
    "snapshot": ("create_snapshot",),
}


def find(context: RequestContext, kind: str, ids: Iterable[str]) -> list[Subject]:
    """Those that are there, in one query; whose they are is not asked."""
    if kind == KEY_PAIR:
        return [Subject(kind, one, one, context.project_id) for one in ids]
    table = TABLES[kind]
    rows = table.model.objects.filter(table.is_there, uuid__in=_uuids(ids))
    found = rows.values_list("uuid", table.name, table.project_id)
    return [Subject(kind, str(uuid), name or "", project_id) for uuid, name, project_id in found]


def still_there(context: RequestContext, wanted: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of these kinds and ids still are; one query for each kind among them. Of key pairs, the asker's own."""
    ids: dict[str, set[str]] = {}
    for kind, ident in wanted:
        ids.setdefault(kind, set()).add(ident)
    return {(kind, one) for kind, some in ids.items() for one in _there(context, kind, some)}


def is_under_workflow(context: RequestContext, subject: Subject) -> bool:
    """Whether the request has opened a workflow that carries the change out."""
    runs = WorkflowRun.objects.using(API_ALIAS).filter(request_id=context.request_id, flow__in=FLOWS[subject.kind])
    return any(subject.id in inputs.values() for inputs in runs.values_list("inputs", flat=True))


def _there(context: RequestContext, kind: str, ids: set[str]) -> set[str]:
    if kind == KEY_PAIR:
        return set(KeyPair.objects.filter(user_id=context.user_id, name__in=ids).values_list("name", flat=True))
    if kind not in TABLES:
        return set()
    table = TABLES[kind]
    rows = table.model.objects.filter(table.is_there, uuid__in=_uuids(ids))
    return {str(uuid) for uuid in rows.values_list("uuid", flat=True)}


def _uuids(ids: Iterable[str]) -> list[UUID]:
    return [found for one in ids if (found := uuid_or_none(one))]
