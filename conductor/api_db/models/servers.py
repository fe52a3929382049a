"""Flavors, key pairs, groups, aggregates and quotas: what a server is launched with and counted against."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models.functions import Now


class Flavor(models.Model):
    """A flavor: MB of memory and swap, GB of disk."""

    flavor_id = models.CharField(max_length=255, unique=True)
    name = models.CharField(max_length=255, unique=True)
    vcpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    root_gb = models.PositiveIntegerField(default=0)
    ephemeral_gb = models.PositiveIntegerField(default=0)
    swap_mb = models.PositiveIntegerField(default=0)
    is_public = models.BooleanField(default=True)
    is_disabled = models.BooleanField(default=False)
    rxtx_factor = models.FloatField(default=1.0)
    description = models.TextField(null=True)
    extra_specs = models.JSONField(default=dict)
    created_at = models.DateTimeField()


class FlavorAccess(models.Model):
    """A project that may use a flavor which is not public."""

    flavor = models.ForeignKey(Flavor, on_delete=models.CASCADE, related_name="access")
    project_id = models.CharField(max_length=64, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["flavor", "project_id"], name="flavor_access_once")]


class KeyPair(models.Model):
    """The public half of a user's key."""

    user_id = models.CharField(max_length=64, db_index=True)
    name = models.CharField(max_length=255)
    key_type = models.CharField(max_length=8, default="ssh")
    public_key = models.TextField()
    fingerprint = models.CharField(max_length=64)
    delegated_by = models.CharField(max_length=96, default="")  # the origin of its authority: identity.delegation
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user_id", "name"], name="key_name_once_per_user")]


class InstanceGroup(models.Model):
    """An affinity policy over its members."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    name = models.CharField(max_length=255)
    policy = models.CharField(max_length=32)
    rules = models.JSONField(default=dict)


class InstanceGroupMember(models.Model):
    """An instance in a group, and the host that was claimed for it ("" while there is none).

    `leaving_host` is set while it moves: it may still return there.
    """

    group = models.ForeignKey(InstanceGroup, on_delete=models.CASCADE, related_name="members")
    instance_uuid = models.UUIDField(unique=True)
    host = models.CharField(max_length=255, default="")
    leaving_host = models.CharField(max_length=255, default="", db_default="")


class Aggregate(models.Model):
    """A named group of hosts. The metadata key `availability_zone` makes it a zone."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, unique=True)
    metadata = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(null=True)


class AggregateHost(models.Model):
    """A host in an aggregate."""

    aggregate = models.ForeignKey(Aggregate, on_delete=models.CASCADE, related_name="hosts")
    host = models.CharField(max_length=255, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["aggregate", "host"], name="host_once_per_aggregate")]


class Quota(models.Model):
    """A limit that differs from the default; -1 is unlimited. The project `class:default` holds the defaults."""

    project_id = models.CharField(max_length=64, db_index=True)
    resource = models.CharField(max_length=64)  # instances, cores, ram, key_pairs, …
    limit = models.IntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project_id", "resource"], name="one_limit_per_resource")]


class UserQuota(models.Model):
    """The part of a project's limit that one of its users may take."""

    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    resource = models.CharField(max_length=64)
    limit = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_id", "user_id", "resource"], name="one_limit_per_user_and_resource"
            )
        ]


class UsageEntry(models.Model):
    """A change of what a user's instances use; the sum of all entries is what they use now.

    Triggers of InstanceMapping insert them, see `migrations/_by_hand.py`; `conductor.db.ledgers` compacts them.
    """

    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    instances = models.IntegerField()
    cores = models.IntegerField()
    ram = models.BigIntegerField()  # MB

    class Meta:
        indexes = [models.Index(fields=["project_id", "user_id"], name="usage_of_project")]


class QuotaRequest(models.Model):
    """A request for higher limits; it is decided once. `wanted` and `had` are limits by resource."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    user_name = models.CharField(max_length=255, default="")
    wanted = models.JSONField(default=dict)
    had = models.JSONField(default=dict)
    reason = models.CharField(max_length=255)
    state = models.CharField(max_length=16, default="open")  # "open", "approved", "refused", "withdrawn"
    answer = models.CharField(max_length=255, default="")
    decided_by = models.CharField(max_length=255, default="")  # the name, as it was then
    created_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["project_id", "created_at"], name="quota_request_of_project"),
            models.Index(fields=["state", "created_at"], name="quota_request_by_state"),
        ]
