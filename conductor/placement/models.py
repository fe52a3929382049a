"""Providers, what they have, and who holds how much of it."""

from __future__ import annotations

import uuid

from django.db import models


class ResourceProvider(models.Model):
    """Has inventory: a compute node, or a part of one. `generation` rises with every change that clients may miss.

    Providers with one root are a tree; a root is its own. Rows from before there were trees have no root: they are
    roots too.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255)
    generation = models.BigIntegerField(default=0)
    change_number = models.BigIntegerField(default=0, db_index=True)  # global order of changes, for followers
    traits = models.JSONField(default=list)  # in one piece for followers; ProviderTrait is for those who search
    reported_traits = models.JSONField(default=list)  # those of them that its host said it has; others are operators'
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children")
    root = models.ForeignKey("self", on_delete=models.DO_NOTHING, null=True, related_name="tree")  # `parent` protects

    class Meta:
        # Not of the field: that would bring a second index for patterns, which nobody asks for and each change pays.
        constraints = [models.UniqueConstraint(fields=["name"], name="one_provider_per_name")]


class ChangeCounter(models.Model):
    """One row: the newest change number given out, and the one of the newest removal of a provider.

    Raising it locks it until the commit, so numbers become visible in order and a follower misses none. Where the
    `epoch` is another one than a follower knows, the numbers began anew and all is to be read again.
    """

    epoch = models.UUIDField(default=uuid.uuid4)
    number = models.BigIntegerField(default=0)
    removed_number = models.BigIntegerField(default=0)


class ResourceClass(models.Model):
    """The name of a countable thing that no standard names: CUSTOM_…"""

    name = models.CharField(max_length=255, unique=True)


class Trait(models.Model):
    """The name of a quality that no standard names: CUSTOM_…"""

    name = models.CharField(max_length=255, unique=True)


class ProviderTrait(models.Model):
    """A provider has a quality: what `ResourceProvider.traits` says, for who asks by quality."""

    provider = models.ForeignKey(ResourceProvider, on_delete=models.CASCADE, related_name="trait_links")
    name = models.CharField(max_length=255, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["provider", "name"], name="trait_once_per_provider")]


class ProviderAggregate(models.Model):
    """A provider is in an aggregate; whether there is one of that uuid elsewhere is not asked."""

    provider = models.ForeignKey(ResourceProvider, on_delete=models.CASCADE, related_name="aggregate_links")
    aggregate_uuid = models.UUIDField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "aggregate_uuid"], name="provider_once_per_aggregate")
        ]


class Inventory(models.Model):
    """Amount of one resource class at a provider; capacity = (total - reserved) * allocation_ratio."""

    # Found by the constraint below, which begins with it.
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
        constraints = [
            models.UniqueConstraint(fields=["provider", "resource_class"], name="one_inventory_per_class"),
            models.CheckConstraint(condition=models.Q(used__gte=0), name="no_negative_use"),
        ]


class Consumer(models.Model):
    """Who holds: an instance, or a migration for what its instance held at the source. Without a type, anybody."""

    uuid = models.UUIDField(unique=True)
    project_id = models.CharField(max_length=64)
    user_id = models.CharField(max_length=64)
    generation = models.BigIntegerField(default=0)
    consumer_type = models.CharField(max_length=255, null=True)

    class Meta:
        # Not of the field: that would bring a second one for patterns, which nobody asks for.
        indexes = [models.Index(fields=["project_id"], name="consumers_by_project")]


class Allocation(models.Model):
    """Amount that a consumer holds of a provider's resource class.

    Both are rows that the writer has locked or made in the same transaction, as has whoever removes one of them. So
    the database need not look for them again, six times for a claim: that took it a quarter of a claim's time.
    """

    # Found by the constraint below, which begins with it.
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
    """The inside of a host as it last reported it: NUMA cells and PCI devices, without who has them."""

    provider = models.OneToOneField(ResourceProvider, on_delete=models.CASCADE, related_name="hardware")
    cells = models.JSONField(default=list)
    devices = models.JSONField(default=list)


class HardwareClaim(models.Model):
    """What a consumer has of the inside of a host. It comes, moves and goes with the consumer's allocations."""

    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE, related_name="hardware_claims")
    provider = models.ForeignKey(ResourceProvider, on_delete=models.CASCADE, related_name="hardware_claims")
    grant = models.JSONField()  # cells with pinned CPUs and pages, addresses of devices

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["consumer", "provider"], name="one_hardware_claim_per_consumer_and_host")
        ]
