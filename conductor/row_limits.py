"""Limits of rows per owner, for all kinds that the quota APIs do not cover.

Operators set other defaults, and other limits of one project, with `conductor.services.quotas.row_quotas`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Count, QuerySet

from conductor.core import messages
from conductor.core.errors import QuotaExceeded
from conductor.db.transactions import one_at_a_time

UNLIMITED = -1
MOST_REMOVED = 500  # rows in one transaction
# Rows of `api_db.Quota` under this name instead of a project's hold the defaults.
DEFAULT_CLASS = "class:default"


@dataclass(frozen=True)
class Owner:
    """The owner of limited rows: its name in messages, and the look-up of a row's project."""

    name: str
    project: str = ""  # a look-up; empty for rows of a user in all projects


OWNERS: Mapping[str, Owner] = {
    "user_id": Owner("user"),
    "trustor_id": Owner("user"),
    "project_id": Owner("project", "project_id"),
    "image_id": Owner("image", "image__project_id"),
    "volume_id": Owner("volume", "volume__project_id"),
}


@dataclass(frozen=True)
class RowLimit:
    """A limit of `default` rows of `model` (a label of Django's) with the same `column`, unless operators set another
    one.
    """

    model: str
    column: str
    default: int

    @property
    def owner(self) -> Owner:
        return OWNERS[self.column]


LIMITS: Mapping[str, RowLimit] = {
    "application_credentials": RowLimit("identity.ApplicationCredential", "user_id", 500),
    "access_rules": RowLimit("identity.AccessRule", "user_id", 1000),
    "trusts": RowLimit("identity.Trust", "trustor_id", 1000),
    "credentials": RowLimit("identity.Credential", "user_id", 500),
    "image_members": RowLimit("image.ImageMember", "image_id", 128),
    "address_scopes": RowLimit("network.AddressScope", "project_id", 100),
    "qos_policies": RowLimit("network.QosPolicy", "project_id", 100),
    "group_snapshots": RowLimit("volume.GroupSnapshot", "project_id", 100),
    "volume_attachments": RowLimit("volume.VolumeAttachment", "volume_id", 100),
}
OF_PROJECTS = tuple(kind for kind, limit in LIMITS.items() if limit.owner.project)

# Rows of a project or a user, or of what they have, that are limited elsewhere, with the place.
LIMITED_ELSEWHERE: Mapping[str, str] = {
    "api_db.InstanceMapping": "compute quota `instances`",
    "api_db.BuildRequest": "compute quota `instances`",
    "cell_db.Instance": "compute quota `instances`",
    "placement.Consumer": "compute quota `instances`",
    "api_db.KeyPair": "compute quota `key_pairs`",
    "api_db.InstanceGroup": "compute quota `server_groups`",
    "api_db.ConsoleShare": "20 of a server, and those that ended today: services/consoles/shares.py",
    "api_db.SavedView": "30 of a user and page: services/accounts/preferences.py",
    "api_db.SnapshotSchedule": "5 of a server or volume, and 100 ended ones: services/servers/snapshot_schedules.py",
    "api_db.Subscription": "20 of a user in a project: services/notifications/subscriptions.py",
    "api_db.QuotaRequest": "10 open and 100 closed ones of a project: services/quotas/requests.py",
    "image.Image": "image quotas",
    "network.Network": "network quota `network`",
    "network.Subnet": "network quota `subnet`",
    "network.SubnetPool": "network quota `subnetpool`",
    "network.Port": "network quota `port`",
    "network.Router": "network quota `router`",
    "network.FloatingIp": "network quota `floatingip`",
    "network.SecurityGroup": "network quota `security_group`, and its rules `security_group_rule`",
    "network.RbacPolicy": "network quota `rbac_policy`",
    "network.QosBandwidthLimit": "two of a policy",
    "network.LoadBalancer": "network quota `loadbalancer`",
    "network.BalancerListener": "network quota `listener`",
    "network.BalancerPool": "network quota `pool`",
    "network.PoolMember": "network quota `member`",
    "network.HealthMonitor": "network quota `healthmonitor`",
    "network.MonitorPort": "one of a load balancer and a subnet with members",
    "network.AutoTopology": "one of a project",
    "volume.Volume": "volume quotas `volumes` and `gigabytes`",
    "volume.Snapshot": "volume quotas `snapshots` and `gigabytes`",
    "volume.ImageSnapshot": "volume quotas `snapshots` and `gigabytes`",
    "volume.Backup": "volume quotas `backups` and `backup_gigabytes`",
    "volume.VolumeGroup": "volume quota `groups`",
    "volume.Transfer": "one of a volume",
    "api_db.InstanceGroupMember": "compute quota `server_group_members`",
    "cell_db.BlockDevice": "volume quota `volumes`, and compute quota `instances`",
    "network.SecurityGroupRule": "network quota `security_group_rule`",
    "network.AddressAllocation": "5 of a port: network/port_rows.py",
    "identity.SecondFactor": "one of a user",
    "identity.RecoveryCode": "ten of a user, made together",
}

# Rows that no tenant can create freely, with the reason. With the two tables above, every model is in one table.
NOT_MADE_AT_WILL: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "api_db.Budget",
            "api_db.FlavorAccess",
            "api_db.Quota",
            "api_db.UserQuota",
            "api_db.TriageSnooze",
            "identity.Limit",
            "identity.ProjectEndpoint",
            "identity.ProjectTag",
            "image.Namespace",
            "network.NetworkQuota",
            "volume.TypeAccess",
            "api_db.Aggregate",
            "api_db.AggregateHost",
            "api_db.Announcement",
            "api_db.CellMapping",
            "api_db.Flavor",
            "api_db.HostEnrollment",
            "api_db.HostKey",
            "api_db.PluginChoice",
            "api_db.PluginProposal",
            "cell_db.Drain",
            "identity.DomainOption",
            "identity.Endpoint",
            "identity.EndpointGroup",
            "identity.ImpliedRole",
            "identity.Policy",
            "identity.RegisteredLimit",
            "identity.Region",
            "identity.Role",
            "identity.RegisteredService",
            "image.Definition",
            "volume.GroupType",
            "volume.QosSpec",
            "volume.VolumeQuotaClass",
            "volume.VolumeService",
            "volume.VolumeType",
        ),
        "made by operators",
    ),
    **dict.fromkeys(
        ("identity.Domain", "identity.Group", "identity.Project", "identity.User"),
        "made by operators, and by managers of a domain, who are no tenants",
    ),
    "identity.ProvidedRole": "one of each role that an identity provider's answer gives",
    **dict.fromkeys(
        (
            "api_db.ConductorKey",
            "api_db.Finding",
            "api_db.HostMapping",
            "api_db.HostSnapshot",
            "api_db.PluginConformance",
            "api_db.PluginMetric",
            "api_db.PluginNote",
            "api_db.PluginQuarantine",
            "cell_db.ComputeNode",
            "cell_db.ConsoleAddress",
            "cell_db.GuestCount",
            "cell_db.ReceivedMessage",
            "cell_db.Service",
            "identity.RightsVersion",
            "journal.AuditChain",
            "journal.PeriodicLease",
            "journal.NotificationPlace",
            "placement.ChangeCounter",
            "placement.HostHardware",
            "placement.ProviderInventory",
            "placement.ProviderAggregate",
            "placement.ProviderTrait",
            "placement.ResourceClass",
            "placement.ResourceProvider",
            "placement.Trait",
            "auth.Group",
            "auth.Permission",
            "contenttypes.ContentType",
        ),
        "made by conductors and hosts, or by Django",
    ),
    **dict.fromkeys(("api_db.RequestSpecRecord", "cell_db.ConsoleLog"), "one of a server"),
    "network.FreedAddress": "one of each address that was allocated, and forgotten when it is not needed",
    **dict.fromkeys(
        ("api_db.UsageEntry", "network.ShareEntry"),
        "one of each change of a limited row, until the next one that is created adds them up",
    ),
    **dict.fromkeys(("placement.Allocation", "placement.HardwareClaim"), "what a server holds of a host"),
    **dict.fromkeys(
        (
            "journal.ForeignFence",
            "journal.LeaseGrant",
            "journal.LockWait",
            "journal.OutboxMessage",
            "journal.ResourceLock",
            "journal.StepRecord",
        ),
        "part of a workflow, and kept as long",
    ),
    "sessions.Session": "ends by itself; signing in has limits of its own",
    "identity.SignInRecord": "ends by itself within hours",
    "api_db.ClientRequest": "the answer to a request, kept for a day",
    **dict.fromkeys(
        ("identity.GroupMembership", "identity.RoleAssignment"),
        "one of each pair, made by managers of users that exist",
    ),
    "identity.ProviderAccount": "made by an identity provider's answer, one of a user and provider",
    "identity.Token": "ends by itself; signing in has limits of its own",
    "api_db.ConsoleToken": "ends by itself within minutes",
    "image.ImageTask": "one of an import, for two days",
    **dict.fromkeys(
        (
            "api_db.Notice",
            "api_db.SchedulingDecision",
            "volume.VolumeMessage",
            "journal.WorkflowRun",
            "journal.Event",
            "journal.AuditRecord",
            "journal.NotificationDelivery",
        ),
        "a record of what happened, kept for a time",
    ),
    **dict.fromkeys(
        ("cell_db.InstanceFault", "cell_db.Migration"),
        "a record of a workflow of a server, kept with the server",
    ),
}


def defaults() -> dict[str, int]:
    """Return the default limit of each kind. -1 is no limit."""
    return limits("")


def limits(project_id: str) -> dict[str, int]:
    """Return the limits of a project, by kind."""
    rows = apps.get_model("api_db.Quota")._default_manager.filter(resource__in=LIMITS)
    rows = rows.filter(project_id__in=(DEFAULT_CLASS, project_id))
    by_name: dict[str, dict[str, int]] = {}
    for name, resource, limit in rows.values_list("project_id", "resource", "limit"):
        by_name.setdefault(name, {})[resource] = limit
    built_in = {kind: limit.default for kind, limit in LIMITS.items()}
    return {**built_in, **by_name.get(DEFAULT_CLASS, {}), **by_name.get(project_id, {})}


def in_use(kind: str, project_id: str, user_id: str) -> int:
    """Return how many rows of a kind count: those of the user, of the project, or of its part with most."""
    limit = LIMITS[kind]
    mine = {limit.owner.project: project_id} if limit.owner.project else {limit.column: user_id}
    rows = apps.get_model(limit.model)._default_manager.filter(**mine).values(limit.column)
    counted = rows.annotate(rows=Count("pk")).order_by("-rows").values_list("rows", flat=True)
    return counted.first() or 0


def require(kind: str, owner_id: object, *, project_id: str = "", wanted: int = 1, **details: str) -> None:
    """Raise QuotaExceeded, with `details`, when `wanted` more rows of a kind of LIMITS do not fit.

    Inside the write transaction that creates them, before it locks rows: until its end no other transaction creates
    such
    rows for the same owner. `project_id` is the project whose limit counts, where the owner is part of a project.
    """
    limit = LIMITS[kind]
    one_at_a_time(DEFAULT_DB_ALIAS, f"rows:{limit.model}:{owner_id}")
    most = limits(str(owner_id) if limit.column == "project_id" else project_id)[kind]
    there = apps.get_model(limit.model)._default_manager.filter(**{limit.column: owner_id}).count()
    if most != UNLIMITED and there + wanted > most:
        words = kind.replace("_", " ")
        message = messages.message("quota.rows", what=words, owner=limit.owner.name, used=there, most=most)
        raise QuotaExceeded(message, **details)


def keep_newest(rows: QuerySet[Any], most: int) -> None:
    """Delete all of these rows except the newest: for closed ones, whose history is in the audit log.

    Call it inside the write transaction that adds another one.
    """
    rows.filter(pk__in=list(rows.order_by("-pk").values_list("pk", flat=True)[most : most + MOST_REMOVED])).delete()
