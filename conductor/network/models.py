"""Networks, subnets and ports with the addresses that they hold."""

from __future__ import annotations

import uuid

from django.db import models


class Tagged(models.Model):
    """What people can label. `tag_text` holds the tags with a separator around each (see tags.py)."""

    tag_text = models.TextField(default="", db_default="")

    class Meta:
        abstract = True


class Network(Tagged):
    """A layer-2 segment of a project, or of everybody when shared.

    `is_default` marks the external network that automatic topologies use; `provider_type` and what follows it say
    what an administrator laid it onto.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    is_shared = models.BooleanField(default=False)
    is_external = models.BooleanField(default=False)
    is_admin_up = models.BooleanField(default=True)
    mtu = models.PositiveIntegerField(default=1450)
    is_default = models.BooleanField(default=False, db_default=False)
    is_port_security_enabled = models.BooleanField(default=True, db_default=True)
    provider_type = models.CharField(max_length=32, default="", db_default="")
    physical_network = models.CharField(max_length=64, default="", db_default="")
    segmentation_id = models.PositiveIntegerField(null=True)
    availability_zone_hints = models.JSONField(null=True)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class AddressScope(models.Model):
    """Pools of one scope never overlap."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    ip_version = models.PositiveSmallIntegerField(default=4)
    is_shared = models.BooleanField(default=False)
    revision_number = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField()


class SubnetPool(Tagged):
    """Address space that subnets are cut from. `default_quota` bounds how many addresses one project may take."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255)
    project_id = models.CharField(max_length=64)
    is_shared = models.BooleanField(default=False)
    prefixes = models.JSONField()  # ["10.64.0.0/16"]
    default_prefix_length = models.PositiveIntegerField(default=24)
    min_prefix_length = models.PositiveIntegerField(default=8, db_default=8)
    max_prefix_length = models.PositiveIntegerField(default=32, db_default=32)
    default_quota = models.PositiveIntegerField(null=True)
    is_default = models.BooleanField(default=False, db_default=False)
    description = models.CharField(max_length=255, default="", db_default="")
    address_scope = models.ForeignKey(AddressScope, on_delete=models.PROTECT, null=True, related_name="pools")
    revision_number = models.PositiveIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(null=True)


class Subnet(Tagged):
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
    ipv6_address_mode = models.CharField(max_length=20, null=True)
    ipv6_ra_mode = models.CharField(max_length=20, null=True)
    service_types = models.JSONField(null=True)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class SecurityGroup(Tagged):
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


class Port(Tagged):
    """A plug on a network.

    `is_plugged` is set while a guest has the port, and `device_index` then is its place among the guest's ports.
    Before, while a workflow is about to plug the port, it is `ports.NOT_PLUGGED_YET`.
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
    is_port_security_enabled = models.BooleanField(default=True, db_default=True)
    vnic_type = models.CharField(max_length=32, default="normal", db_default="normal")
    binding_profile = models.JSONField(null=True)
    address_pairs = models.JSONField(null=True)  # [{"ip_address", "mac_address"}]
    dhcp_options = models.JSONField(null=True)  # [{"opt_name", "opt_value", "ip_version"}]
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


class Router(Tagged):
    """Joins subnets with each other and with an external network.

    Its interfaces are ports whose `device_id` is its uuid. Nothing but routers.py deletes its gateway's port.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    is_admin_up = models.BooleanField(default=True)
    gateway_port = models.ForeignKey(Port, on_delete=models.DO_NOTHING, null=True, related_name="+")
    is_snat_enabled = models.BooleanField(default=True)
    routes = models.JSONField(default=list)  # [{"destination", "nexthop"}]
    availability_zone_hints = models.JSONField(default=list)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class FloatingIp(Tagged):
    """An address of an external network that leads to a port of a project.

    `outer_port` holds the address. `port`, the one that it leads to, is let go by floating_ips.py before it is
    deleted: no cascade looks here for every port that goes.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    network = models.ForeignKey(Network, on_delete=models.PROTECT, related_name="floating_ips")
    outer_port = models.ForeignKey(Port, on_delete=models.DO_NOTHING, related_name="+")
    address = models.CharField(max_length=64)
    port = models.ForeignKey(Port, on_delete=models.DO_NOTHING, null=True, related_name="+")
    fixed_ip_address = models.CharField(max_length=64, null=True)
    router = models.ForeignKey(Router, on_delete=models.PROTECT, null=True, related_name="floating_ips")
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["network", "port", "fixed_ip_address"], name="floating_ip_once_per_address")
        ]


class NetworkQuota(models.Model):
    """How many of a resource a project may have, where that is not the default; -1 for any number."""

    project_id = models.CharField(max_length=64)
    resource = models.CharField(max_length=64)
    limit = models.IntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project_id", "resource"], name="network_quota_once")]


class RbacPolicy(models.Model):
    """A network that is shared with one project, or with all ("*")."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project_id = models.CharField(max_length=64, db_index=True)
    network = models.ForeignKey(Network, on_delete=models.CASCADE, related_name="rbac_policies")
    action = models.CharField(max_length=32)  # access_as_shared, access_as_external
    target_project = models.CharField(max_length=64, db_index=True)
    revision_number = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["network", "action", "target_project"], name="rbac_policy_once")]


class AutoTopology(models.Model):
    """The network that was made for a project that asked for any."""

    project_id = models.CharField(max_length=64, unique=True)
    network = models.ForeignKey(Network, on_delete=models.CASCADE, related_name="+")
    router = models.ForeignKey(Router, on_delete=models.CASCADE, related_name="+")
