"""Networks, subnets, and ports with their addresses."""

from __future__ import annotations

import uuid

from django.db import models


class Tagged(models.Model):
    """Mixin of taggable rows. `tag_text` holds the tags with a separator around each (see tags.py)."""

    tag_text = models.TextField(default="", db_default="")

    class Meta:
        abstract = True


class QosPolicy(models.Model):
    """Limits of the bandwidth of ports, on their own or by their networks."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255)
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    is_shared = models.BooleanField(default=False)
    revision_number = models.PositiveIntegerField(default=0)  # of its rules, too
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class QosBandwidthLimit(models.Model):
    """The limit of one direction, as the guest sees it. A burst of 0 leaves it to the network."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    policy = models.ForeignKey(QosPolicy, on_delete=models.CASCADE, related_name="limits")
    direction = models.CharField(max_length=8, default="egress")  # egress, ingress
    max_kbps = models.PositiveIntegerField()
    max_burst_kbps = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["policy", "direction"], name="limit_once_per_direction")]


class Network(Tagged):
    """A layer-2 segment of a project, or of all projects when shared.

    `is_default` marks the external network that automatic topologies use; `provider_type` and the following fields
    are the physical network that an administrator mapped it to.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    is_shared = models.BooleanField(default=False)
    is_external = models.BooleanField(default=False)
    is_admin_up = models.BooleanField(default=True)
    mtu = models.PositiveIntegerField(default=1442)
    is_default = models.BooleanField(default=False, db_default=False)
    is_port_security_enabled = models.BooleanField(default=True, db_default=True)
    provider_type = models.CharField(max_length=32, default="", db_default="")
    physical_network = models.CharField(max_length=64, default="", db_default="")
    segmentation_id = models.PositiveIntegerField(null=True)
    dns_domain = models.CharField(max_length=255, default="", db_default="")  # with a dot at its end
    qos_policy = models.ForeignKey(QosPolicy, on_delete=models.PROTECT, null=True, related_name="+")
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
    """Address space for subnets. `default_quota` bounds how many addresses one project may take."""

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
    # As AddressAllocation.number: below it, all addresses of the pools are allocated, or in FreedAddress. A transaction
    # raises it only in the epoch in which it read the addresses.
    lowest_gap = models.CharField(max_length=32, default="")
    gap_epoch = models.PositiveIntegerField(default=0)
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
    """One kind of traffic that a group lets through. `rule_key` spells what it matches, so that it exists once.

    `remote_ip_prefix` is the text that the client sent.
    """

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
    """A port of a network.

    `is_plugged` is set while a guest has the port, and `device_index` then is its place among the guest's ports.
    Before, while a workflow is about to plug the port, it is `ports.NOT_PLUGGED_YET`.
    `binding_host` is that guest's host, empty while it is on no host; `migrating_to` is the host that the guest is
    moving to while it runs. `is_made_by_compute` marks a port that was created for a guest: it is deleted with the
    guest. `guest_hostname` is the guest's, as far as DNS can have it.
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
    migrating_to = models.CharField(max_length=255, default="", db_default="")
    is_made_by_compute = models.BooleanField(default=False)
    is_plugged = models.BooleanField(default=False, db_default=False)
    device_tag = models.CharField(max_length=60, null=True)  # its name in the guest's metadata
    is_port_security_enabled = models.BooleanField(default=True, db_default=True)
    vnic_type = models.CharField(max_length=32, default="normal", db_default="normal")
    binding_profile = models.JSONField(null=True)
    address_pairs = models.JSONField(null=True)  # [{"ip_address", "mac_address"}]
    dhcp_options = models.JSONField(null=True)  # [{"opt_name", "opt_value", "ip_version"}]
    dns_name = models.CharField(max_length=255, default="", db_default="")
    guest_hostname = models.CharField(max_length=255, default="", db_default="")
    qos_policy = models.ForeignKey(QosPolicy, on_delete=models.PROTECT, null=True, related_name="+")
    security_groups = models.ManyToManyField(SecurityGroup, related_name="ports")
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class AddressAllocation(models.Model):
    """One address of a port: the constraint makes a double allocation impossible."""

    subnet = models.ForeignKey(Subnet, on_delete=models.PROTECT, related_name="addresses")
    port = models.ForeignKey(Port, on_delete=models.CASCADE, related_name="addresses")
    ip_address = models.CharField(max_length=64)
    # The address as 32 hexadecimal digits, in the order of addresses; "" where guests derive theirs.
    number = models.CharField(max_length=32, default="")
    guest = models.CharField(max_length=64, default="")  # the port's project, where the subnet is another one's

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subnet", "ip_address"], name="address_once_per_subnet")]
        indexes = [models.Index(fields=["subnet", "number"], name="addresses_in_order")]


class FreedAddress(models.Model):
    """An address of a subnet that was allocated before and is free now; only those below the subnet's gap are needed.

    Triggers of AddressAllocation insert and delete these rows, see `migrations/_by_hand.py`.
    """

    subnet = models.ForeignKey(Subnet, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False)
    number = models.CharField(max_length=32)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subnet", "number"], name="freed_once")]


class ShareEntry(models.Model):
    """A change of how many addresses a project has of another one's subnet; the sum of all entries is what it has now.

    Triggers of AddressAllocation insert them, see `migrations/_by_hand.py`; `conductor.db.ledgers` compacts them.
    """

    subnet = models.ForeignKey(Subnet, on_delete=models.CASCADE, related_name="+", db_constraint=False, db_index=False)
    project_id = models.CharField(max_length=64)
    addresses = models.IntegerField()

    class Meta:
        indexes = [models.Index(fields=["subnet", "project_id"], name="share_of_project")]


class Router(Tagged):
    """Connects subnets with each other and with an external network.

    Its interfaces are ports whose `device_id` is its uuid. Only routers.py deletes its gateway's port.
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
    """An address of an external network that is routed to a port of a project.

    `outer_port` has the address. floating_ips.py disassociates `port` before that is deleted: no cascade has to
    search here for every deleted port.
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
    """A project's limit of a resource, where it is not the default; -1 is unlimited."""

    project_id = models.CharField(max_length=64)
    resource = models.CharField(max_length=64)
    limit = models.IntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project_id", "resource"], name="network_quota_once")]


class RbacPolicy(models.Model):
    """Sharing of a network with one project, or with all ("*")."""

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
    """The automatically created network of a project."""

    project_id = models.CharField(max_length=64, unique=True)
    network = models.ForeignKey(Network, on_delete=models.CASCADE, related_name="+")
    router = models.ForeignKey(Router, on_delete=models.CASCADE, related_name="+")


class LoadBalancer(Tagged):
    """An address (VIP) whose connections OVN spreads over the members of pools.

    `vip_port` has the address; one with `is_vip_port_made` is deleted with the load balancer. Every change of the load
    balancer or of its parts raises its revision; `projected_revision` is the one that OVN has, None before the first.
    """

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, default="")
    project_id = models.CharField(max_length=64, db_index=True)
    is_admin_up = models.BooleanField(default=True)
    vip_port = models.OneToOneField(Port, on_delete=models.DO_NOTHING, related_name="+")
    vip_address = models.CharField(max_length=64)
    is_vip_port_made = models.BooleanField(default=True)
    projected_revision = models.PositiveIntegerField(null=True)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class BalancerPart(Tagged):
    """Base of a load balancer's listeners, pools, members and health monitors."""

    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    name = models.CharField(max_length=255, default="")
    description = models.CharField(max_length=255, default="")
    is_admin_up = models.BooleanField(default=True)
    revision_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        abstract = True


class BalancerPool(BalancerPart):
    """Members that share the connections of listeners. It has a protocol, and so have its listeners."""

    balancer = models.ForeignKey(LoadBalancer, on_delete=models.CASCADE, related_name="pools")
    protocol = models.CharField(max_length=8)  # TCP, UDP


class BalancerListener(BalancerPart):
    """A port of a load balancer's address."""

    balancer = models.ForeignKey(LoadBalancer, on_delete=models.CASCADE, related_name="listeners")
    protocol = models.CharField(max_length=8)  # TCP, UDP
    protocol_port = models.PositiveIntegerField()
    default_pool = models.ForeignKey(BalancerPool, on_delete=models.SET_NULL, null=True, related_name="listeners")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["balancer", "protocol", "protocol_port"], name="listener_once_per_port")
        ]


class PoolMember(BalancerPart):
    """An address and port that answer connections. `subnet_uuid` is the subnet of the address."""

    pool = models.ForeignKey(BalancerPool, on_delete=models.CASCADE, related_name="members")
    address = models.CharField(max_length=64)
    protocol_port = models.PositiveIntegerField()
    subnet_uuid = models.UUIDField()
    operating_status = models.CharField(max_length=16, default="NO_MONITOR")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pool", "address", "protocol_port"], name="member_once_per_address")
        ]


class HealthMonitor(BalancerPart):
    """The checks of a pool's members by OVN; times are in seconds."""

    pool = models.OneToOneField(BalancerPool, on_delete=models.CASCADE, related_name="health_monitor")
    type = models.CharField(max_length=16)  # TCP, UDP-CONNECT
    delay = models.PositiveIntegerField()
    timeout = models.PositiveIntegerField()
    max_retries = models.PositiveIntegerField()  # successes until a member is used
    max_retries_down = models.PositiveIntegerField(default=3)  # failures until it is not


class MonitorPort(models.Model):
    """A port with the address from which OVN checks the members of a load balancer on one subnet."""

    balancer = models.ForeignKey(LoadBalancer, on_delete=models.CASCADE, related_name="monitor_ports")
    port = models.OneToOneField(Port, on_delete=models.DO_NOTHING, related_name="+")
    subnet_uuid = models.UUIDField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["balancer", "subnet_uuid"], name="monitor_port_once_per_subnet")]
