"""Networks, subnets and ports with the addresses that they hold."""

from __future__ import annotations

import uuid

from django.db import models


class Network(models.Model):
    """A layer-2 segment of a project, or of everybody when shared."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    is_shared = models.BooleanField(default=False)
    is_external = models.BooleanField(default=False)
    is_admin_up = models.BooleanField(default=True)
    mtu = models.PositiveIntegerField(default=1450)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class SubnetPool(models.Model):
    """Address space that subnets are cut from."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255)
    project_id = models.CharField(max_length=64)
    is_shared = models.BooleanField(default=False)
    prefixes = models.JSONField()  # ["10.64.0.0/16"]
    default_prefix_length = models.PositiveIntegerField(default=24)


class Subnet(models.Model):
    """Addresses of a network."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    network = models.ForeignKey(Network, on_delete=models.CASCADE, related_name="subnets")
    pool = models.ForeignKey(SubnetPool, on_delete=models.PROTECT, null=True, related_name="subnets")
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    ip_version = models.PositiveSmallIntegerField(default=4)
    cidr = models.CharField(max_length=64)
    gateway_ip = models.CharField(max_length=64, null=True)
    allocation_pools = models.JSONField(default=list)  # [{"start", "end"}]
    is_dhcp_enabled = models.BooleanField(default=True)
    dns_nameservers = models.JSONField(default=list)
    host_routes = models.JSONField(default=list)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class SecurityGroup(models.Model):
    """A named list of rules of one project. Every project has one called `default`."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255)
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    is_stateful = models.BooleanField(default=True)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_id"], condition=models.Q(name="default"), name="one_default_group_per_project"
            )
        ]


class SecurityGroupRule(models.Model):
    """One kind of traffic that a group lets through. `rule_key` spells what it matches, so that it exists once."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    group = models.ForeignKey(SecurityGroup, on_delete=models.CASCADE, related_name="rules")
    remote_group = models.ForeignKey(SecurityGroup, on_delete=models.CASCADE, null=True, related_name="+")
    direction = models.CharField(max_length=8)  # ingress, egress
    ethertype = models.CharField(max_length=8, default="IPv4")
    protocol = models.CharField(max_length=40, null=True)
    port_range_min = models.PositiveIntegerField(null=True)
    port_range_max = models.PositiveIntegerField(null=True)
    remote_ip_prefix = models.CharField(max_length=64, null=True)
    description = models.CharField(max_length=255, default="")
    rule_key = models.CharField(max_length=255)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "rule_key"], name="rule_once_per_group")]


class Port(models.Model):
    """A plug on a network.

    `is_plugged` is set while a guest has the port, and `device_index` then is its place among the guest's ports.
    `binding_host` is where that guest is, empty while it is on no host. `is_made_by_compute` marks a port that was
    made for a guest: the guest's end must remove it.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="ports")
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    mac_address = models.CharField(max_length=17, unique=True)
    status = models.CharField(max_length=16, default="DOWN")
    is_admin_up = models.BooleanField(default=True)
    device_id = models.CharField(max_length=255, default="", db_index=True)
    device_owner = models.CharField(max_length=255, default="")
    device_index = models.PositiveSmallIntegerField(default=0)
    binding_host = models.CharField(max_length=255, default="")
    is_made_by_compute = models.BooleanField(default=False)
    is_plugged = models.BooleanField(default=False, db_default=False)
    device_tag = models.CharField(max_length=60, null=True)  # what its server calls it
    security_groups = models.ManyToManyField(SecurityGroup, related_name="ports")
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class AddressAllocation(models.Model):
    """One address held by a port: the constraint makes a double allocation impossible."""

    subnet = models.ForeignKey(Subnet, on_delete=models.PROTECT, related_name="addresses")
    port = models.ForeignKey(Port, on_delete=models.CASCADE, related_name="addresses")
    ip_address = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subnet", "ip_address"], name="address_once_per_subnet")]
