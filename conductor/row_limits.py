"""How many rows of each kind one owner may have: the one table for kinds that the quota APIs do not name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS

from conductor.core.errors import QuotaExceeded
from conductor.transactions import one_at_a_time


@dataclass(frozen=True)
class RowLimit:
    """At most `most` rows of `model` (a label of Django's) that share their column `owner`."""

    model: str
    owner: str
    most: int

    @property
    def words(self) -> str:
        """What the owner is called in a message."""
        return {"user_id": "user", "trustor_id": "user", "project_id": "project", "image_id": "image"}[self.owner]


LIMITS: Mapping[str, RowLimit] = {
    "application credentials": RowLimit("identity.ApplicationCredential", "user_id", 500),
    "access rules": RowLimit("identity.AccessRule", "user_id", 1000),
    "trusts": RowLimit("identity.Trust", "trustor_id", 1000),
    "credentials": RowLimit("identity.Credential", "user_id", 500),
    "OAuth request tokens": RowLimit("identity.RequestToken", "project_id", 500),
    "OAuth access tokens": RowLimit("identity.AccessToken", "user_id", 500),
    "image members": RowLimit("image.ImageMember", "image_id", 128),
    "address scopes": RowLimit("network.AddressScope", "project_id", 100),
    "group snapshots": RowLimit("volume.GroupSnapshot", "project_id", 100),
}

# Rows that belong to a project or a user and are limited elsewhere, with where.
LIMITED_ELSEWHERE: Mapping[str, str] = {
    "api_db.InstanceMapping": "compute quota `instances`",
    "api_db.BuildRequest": "compute quota `instances`",
    "cell_db.Instance": "compute quota `instances`",
    "placement.Consumer": "compute quota `instances`",
    "api_db.KeyPair": "compute quota `key_pairs`",
    "api_db.InstanceGroup": "compute quota `server_groups`",
    "api_db.ConsoleShare": "20 of a server: services/console_shares.py",
    "api_db.SavedView": "30 of a user and page: services/saved_views.py",
    "api_db.SnapshotSchedule": "5 of a server or volume: services/snapshot_schedules.py",
    "api_db.Subscription": "services/notifications/subscriptions.py",
    "api_db.QuotaRequest": "10 open ones of a project: services/quota_requests.py",
    "image.Image": "image quotas",
    "network.Network": "network quota `network`",
    "network.Subnet": "network quota `subnet`",
    "network.SubnetPool": "network quota `subnetpool`",
    "network.Port": "network quota `port`",
    "network.Router": "network quota `router`",
    "network.FloatingIp": "network quota `floatingip`",
    "network.SecurityGroup": "network quota `security_group`, and its rules `security_group_rule`",
    "network.RbacPolicy": "network quota `rbac_policy`",
    "network.AutoTopology": "one of a project",
    "volume.Volume": "volume quotas `volumes` and `gigabytes`",
    "volume.Snapshot": "volume quotas `snapshots` and `gigabytes`",
    "volume.Backup": "volume quotas `backups` and `backup_gigabytes`",
    "volume.VolumeGroup": "volume quota `groups`",
    "identity.SecondFactor": "one of a user",
    "identity.RecoveryCode": "ten of a user, made together",
}

# Rows that belong to a project or a user and that no tenant makes at will, with why.
NOT_MADE_AT_WILL: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("api_db.Budget", "api_db.FlavorAccess", "api_db.Quota", "api_db.UserQuota", "api_db.TriageSnooze"),
            *("identity.Limit", "identity.ProjectEndpoint", "identity.ProjectTag", "image.Namespace"),
            *("network.NetworkQuota", "volume.TypeAccess"),
        ),
        "made by operators",
    ),
    **dict.fromkeys(
        ("identity.Membership", "identity.RoleAssignment"),
        "one of each pair, made by managers of users that exist",
    ),
    "identity.ProviderAccount": "made by an identity provider's answer, one of a user and provider",
    "identity.Token": "ends by itself; signing in has limits of its own",
    "api_db.ConsoleToken": "ends by itself within minutes",
    "image.ImageTask": "one of an import, for two days",
    **dict.fromkeys(
        ("api_db.Notice", "api_db.SchedulingDecision", "volume.Message", "cell_db.Migration"),
        "a record of what happened, kept for a time",
    ),
    **dict.fromkeys(
        ("journal.WorkflowRun", "journal.Event", "journal.AuditRecord"),
        "a record of what happened, kept for a time",
    ),
}


def require(kind: str, owner_id: object, *, wanted: int = 1, **details: str) -> None:
    """Raises QuotaExceeded, with `details`, when `wanted` more of a kind of LIMITS do not fit.

    Inside the write transaction that makes them, before it holds rows: until its end no other transaction makes such
    rows for the same owner.
    """
    limit = LIMITS[kind]
    one_at_a_time(DEFAULT_DB_ALIAS, f"rows:{limit.model}:{owner_id}")
    there = apps.get_model(limit.model)._default_manager.filter(**{limit.owner: owner_id}).count()
    if there + wanted > limit.most:
        message = f"Quota exceeded, too many {kind}: the {limit.words} has {there} of {limit.most}. Delete some first."
        raise QuotaExceeded(message, **details)
