"""Resource providers, inventories, consumers and allocations."""

from __future__ import annotations

import uuid

from django.db import models


class ResourceProvider(models.Model):
    """A provider of resources: a compute node, or a part of one.

    `generation` rises with every change that clients may miss.
    Providers with one root are a tree; a root is its own root. Rows of older releases have no root: they are roots too.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255)
    generation = models.BigIntegerField(default=0)
    change_number = models.BigIntegerField(default=0, db_index=True)  # global order of changes, for followers
    traits = models.JSONField(default=list)  # all in one value, for followers; ProviderTrait is for searches
    reported_traits = models.JSONField(default=list)  # those that the host reported; others are operators'
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children")
    root = models.ForeignKey("self", on_delete=models.DO_NOTHING, null=True, related_name="tree")  # `parent` protects

    class Meta:
        # Not on the field: that would add a second index for patterns, which no query uses and each change pays for.
        constraints = [models.UniqueConstraint(fields=["name"], name="one_provider_per_name")]


class ChangeCounter(models.Model):
    """One row: the newest change number, and that of the newest removal of a provider.

    Raising it locks it until the commit, so numbers become visible in order and a follower misses none. Where the
    `epoch` differs from the follower's, the numbers began anew and all must be read again.
    """

    epoch = models.UUIDField(default=uuid.uuid4)
    number = models.BigIntegerField(default=0)
    removed_number = models.BigIntegerField(default=0)


class ResourceClass(models.Model):
    """A custom resource class, CUSTOM_…"""

    name = models.CharField(max_length=255, unique=True)


class Trait(models.Model):
    """A custom trait, CUSTOM_…"""

    name = models.CharField(max_length=255, unique=True)


class ProviderTrait(models.Model):
    """A trait of a provider, like an element of `ResourceProvider.traits`, for searches by trait."""

    provider = models.ForeignKey(ResourceProvider, on_delete=models.CASCADE, related_name="trait_links")
    name = models.CharField(max_length=255, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["provider", "name"], name="trait_once_per_provider")]


class ProviderAggregate(models.Model):
    """Membership of a provider in an aggregate; the uuid need not exist elsewhere."""

    provider = models.ForeignKey(ResourceProvider, on_delete=models.CASCADE, related_name="aggregate_links")
    aggregate_uuid = models.UUIDField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "aggregate_uuid"], name="provider_once_per_aggregate")
        ]


class ProviderInventory(models.Model):
    """Amount of one resource class at a provider; capacity = (total - reserved) * allocation_ratio."""

    # The constraint below begins with it, and serves as its index.
    provider = models.ForeignKey(ResourceProvider, on_delete=models.CASCADE, related_name="inventories", db_index=False)
    resource_class = models.CharField(max_length=255)
    total = models.BigIntegerField()
    reserved = models.BigIntegerField(default=0)
    min_unit = models.BigIntegerField(default=1)
    max_unit = models.BigIntegerField(default=2**31 - 1)
    step_size = models.BigIntegerField(default=1)
    allocation_ratio = models.FloatField(default=1.0)
    used = models.BigIntegerField(default=0)  # sum of allocations, kept in the claim's own transaction

    class Meta:
        db_table = "placement_inventory"
        constraints = [
            models.UniqueConstraint(fields=["provider", "resource_class"], name="one_inventory_per_class"),
            models.CheckConstraint(condition=models.Q(used__gte=0), name="no_negative_use"),
        ]


class Consumer(models.Model):
    """An instance, or a migration for the instance's allocations at the source. Without a type, any other client."""

    uuid = models.UUIDField(unique=True)
    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    generation = models.BigIntegerField(default=0)
    consumer_type = models.CharField(max_length=255, null=True)

    class Meta:
        # Not on the field: that would add a second index for patterns, which no query uses.
        indexes = [models.Index(fields=["project_id"], name="consumers_by_project")]


class Allocation(models.Model):
    """Amount that a consumer holds of a provider's resource class.

    Writers, and deleters of either row, have locked or created both in the same transaction. So foreign keys are not
    checked by the database: six checks took a quarter of a claim's time.
    """

    # The constraint below begins with it, and serves as its index.
    consumer = models.ForeignKey(
        Consumer, on_delete=models.CASCADE, related_name="allocations", db_index=False, db_constraint=False
    )
    provider = models.ForeignKey(
        ResourceProvider, on_delete=models.PROTECT, related_name="allocations", db_constraint=False
    )
    resource_class = models.CharField(max_length=255)
    amount = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["consumer", "provider", "resource_class"], name="one_allocation_per_consumer_and_class"
            )
        ]


class HostHardware(models.Model):
    """A host's hardware as last reported: NUMA cells and PCI devices, without their users."""

    provider = models.OneToOneField(ResourceProvider, on_delete=models.CASCADE, related_name="hardware")
    cells = models.JSONField(default=list)
    devices = models.JSONField(default=list)


class HardwareClaim(models.Model):
    """A consumer's hardware of a host. It is created, moved and deleted with the consumer's allocations."""

    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE, related_name="hardware_claims")
    provider = models.ForeignKey(ResourceProvider, on_delete=models.CASCADE, related_name="hardware_claims")
    grant = models.JSONField()  # cells with pinned CPUs and pages, addresses of devices

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["consumer", "provider"], name="one_hardware_claim_per_consumer_and_host")
        ]
