"""Providers, what they have, and who holds how much of it."""

from __future__ import annotations

import uuid

from django.db import models


class ResourceProvider(models.Model):
    """Has inventory: a compute node. `generation` rises with every change of inventory, traits or allocations."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, unique=True)
    generation = models.BigIntegerField(default=0)
    change_number = models.BigIntegerField(default=0, db_index=True)  # global order of changes, for followers
    traits = models.JSONField(default=list)


class ChangeCounter(models.Model):
    """One row: the newest change number given out, and the one of the newest removal of a provider.

    Raising it locks it until the commit, so numbers become visible in order and a follower misses none. Where the
    `epoch` is another one than a follower knows, the numbers began anew and all is to be read again.
    """

    epoch = models.UUIDField(default=uuid.uuid4)
    number = models.BigIntegerField(default=0)
    removed_number = models.BigIntegerField(default=0)


class Inventory(models.Model):
    """Amount of one resource class at a provider; capacity = (total - reserved) * allocation_ratio."""

    provider = models.ForeignKey(ResourceProvider, on_delete=models.CASCADE, related_name="inventories")
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
    """Who holds: an instance, or a migration for what its instance held at the source."""

    uuid = models.UUIDField(unique=True)
    project_id = models.CharField(max_length=64, db_index=True)
    user_id = models.CharField(max_length=64)
    generation = models.BigIntegerField(default=0)


class Allocation(models.Model):
    """Amount that a consumer holds of a provider's resource class."""

    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE, related_name="allocations")
    provider = models.ForeignKey(ResourceProvider, on_delete=models.PROTECT, related_name="allocations")
    resource_class = models.CharField(max_length=255)
    amount = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["consumer", "provider", "resource_class"], name="one_allocation_per_consumer_and_class"
            )
        ]
