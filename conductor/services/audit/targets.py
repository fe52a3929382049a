"""Audit targets besides servers: a project's resources by kind, id and name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from conductor.api_db.models import InstanceGroup, InstanceMapping, KeyPair
from conductor.cells.lookup import API_ALIAS
from conductor.core.context import RequestContext
from conductor.core.identifiers import uuid_or_none
from conductor.identity.models import AccessRule, ApplicationCredential, Credential, Trust
from conductor.image.models import Image
from conductor.journal.models import WorkflowRun
from conductor.network.models import (
    AddressScope,
    BalancerListener,
    BalancerPool,
    FloatingIp,
    HealthMonitor,
    LoadBalancer,
    Network,
    Port,
    QosPolicy,
    RbacPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
    SubnetPool,
)
from conductor.volume.models import Backup, GroupSnapshot, Snapshot, Transfer, Volume, VolumeAttachment, VolumeGroup

KEY_PAIR = "key_pair"
EC2 = "ec2_credential"
SERVER = "server"


@dataclass(frozen=True)
class AuditTarget:
    """One resource. A key pair belongs to its user, and its name is its id."""

    kind: str
    id: str
    name: str
    project_id: str


@dataclass(frozen=True)
class Table:
    """Storage of a kind: its model, and the columns of its id, its name (or another label) and its project.

    `keys` turns the ids of a request into values of the id column. Without a project, the caller's is used.
    """

    model: Any
    name: str | Combinable = "name"
    project_id: str | Combinable = "project_id"
    is_there: Q = Q()
    id: str = "uuid"
    keys: Callable[[Iterable[str]], Iterable[Any]] = lambda ids: [found for one in ids if (found := uuid_or_none(one))]

    def rows(self, ids: Iterable[str]) -> Any:
        """Return the existing rows with these ids."""
        return self.model.objects.filter(self.is_there, **{f"{self.id}__in": self.keys(ids)})


def _of_identity(model: Any, name: str, project_id: str | Combinable = "project_id") -> Table:
    """Return the table of an identity resource, whose ids are words."""
    return Table(model, name, project_id, id="id", keys=list)


def _digests(access_keys: Iterable[str]) -> list[str]:
    return [hashlib.sha256(one.encode()).hexdigest() for one in access_keys]


TABLES: Mapping[str, Table] = {
    "network": Table(Network),
    "subnet": Table(Subnet),
    "port": Table(Port),
    "router": Table(Router),
    "floating_ip": Table(FloatingIp, name="address"),
    "load_balancer": Table(LoadBalancer),
    "listener": Table(BalancerListener, project_id="balancer__project_id"),
    "pool": Table(BalancerPool, project_id="balancer__project_id"),
    "health_monitor": Table(HealthMonitor, project_id="pool__balancer__project_id"),
    "security_group": Table(SecurityGroup),
    "security_group_rule": Table(SecurityGroupRule, name="group__name", project_id="group__project_id"),
    "volume": Table(Volume),
    "snapshot": Table(Snapshot),
    "image": Table(Image, is_there=Q(deleted_at=None)),
    "server_group": Table(InstanceGroup),
    "backup": Table(Backup),
    "volume_group": Table(VolumeGroup),
    "group_snapshot": Table(GroupSnapshot),
    "volume_transfer": Table(Transfer, "volume__name", Coalesce("destination_project_id", "source_project_id")),
    "volume_attachment": Table(VolumeAttachment, "volume__name", "volume__project_id"),
    "subnet_pool": Table(SubnetPool),
    "address_scope": Table(AddressScope),
    "qos_policy": Table(QosPolicy),
    "rbac_policy": Table(RbacPolicy, "network__name"),
    "application_credential": _of_identity(ApplicationCredential, "name"),
    "access_rule": _of_identity(AccessRule, "path", Value("")),
    "credential": _of_identity(Credential, "type"),
    EC2: Table(Credential, "user__username", id="id", keys=_digests),
    "trust": _of_identity(Trust, "trustee__username"),
    SERVER: Table(InstanceMapping, Value(""), id="instance_uuid"),
}
KINDS = (*TABLES, KEY_PAIR)
# Workflows on these kinds are recorded as the workflow; its line on the activity page shows its state.
FLOWS: Mapping[str, tuple[str, ...]] = {
    "volume": ("create_volume", "revert_volume", "reimage_volume", "upload_volume"),
    "snapshot": ("create_snapshot",),
    "backup": ("backup_volume", "restore_backup"),
}


def find(context: RequestContext, kind: str, ids: Iterable[str]) -> list[AuditTarget]:
    """Return the targets that exist, in one query, of any project."""
    if kind == KEY_PAIR:
        return [AuditTarget(kind, one, one, context.project_id) for one in ids]
    table = TABLES[kind]
    found = table.rows(ids).values_list(table.id, table.name, table.project_id)
    return [AuditTarget(kind, str(ident), name or "", project_id or "") for ident, name, project_id in found]


def still_there(context: RequestContext, wanted: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return which of these kinds and ids still exist, with one query per kind. Of key pairs, only the caller's own
    count.
    """
    ids: dict[str, set[str]] = {}
    for kind, ident in wanted:
        ids.setdefault(kind, set()).add(ident)
    return {(kind, one) for kind, some in ids.items() for one in _there(context, kind, some)}


def is_under_workflow(context: RequestContext, subject: AuditTarget) -> bool:
    """Whether the request has opened a workflow that carries out the change."""
    flows = FLOWS.get(subject.kind)
    if not flows:
        return False
    runs = WorkflowRun.objects.using(API_ALIAS).filter(request_id=context.request_id, flow__in=flows)
    return any(subject.id in inputs.values() for inputs in runs.values_list("inputs", flat=True))


def _there(context: RequestContext, kind: str, ids: set[str]) -> set[str]:
    if kind == KEY_PAIR:
        return set(KeyPair.objects.filter(user_id=context.user_id, name__in=ids).values_list("name", flat=True))
    if kind not in TABLES:
        return set()
    table = TABLES[kind]
    return {str(ident) for ident in table.rows(ids).values_list(table.id, flat=True)}
