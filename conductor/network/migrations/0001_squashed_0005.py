import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("network", "0001_initial"),
        ("network", "0002_expand_add_security_groups"),
        ("network", "0003_expand_add_is_plugged"),
        ("network", "0004_expand_add_device_tag"),
        ("network", "0005_expand_add_routers"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AddressScope",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("ip_version", models.PositiveSmallIntegerField(default=4)),
                ("is_shared", models.BooleanField(default=False)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("updated_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Network",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tag_text", models.TextField(db_default="", default="")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(default="", max_length=255)),
                ("description", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("is_shared", models.BooleanField(default=False)),
                ("is_external", models.BooleanField(default=False)),
                ("is_admin_up", models.BooleanField(default=True)),
                ("mtu", models.PositiveIntegerField(default=1450)),
                ("is_default", models.BooleanField(db_default=False, default=False)),
                ("is_port_security_enabled", models.BooleanField(db_default=True, default=True)),
                ("provider_type", models.CharField(db_default="", default="", max_length=32)),
                ("physical_network", models.CharField(db_default="", default="", max_length=64)),
                ("segmentation_id", models.PositiveIntegerField(null=True)),
                ("availability_zone_hints", models.JSONField(null=True)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="NetworkQuota",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("project_id", models.CharField(max_length=64)),
                ("resource", models.CharField(max_length=64)),
                ("limit", models.IntegerField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("project_id", "resource"), name="network_quota_once")],
            },
        ),
        migrations.CreateModel(
            name="Port",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tag_text", models.TextField(db_default="", default="")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(default="", max_length=255)),
                ("description", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("mac_address", models.CharField(max_length=17, unique=True)),
                ("status", models.CharField(default="DOWN", max_length=16)),
                ("is_admin_up", models.BooleanField(default=True)),
                ("device_id", models.CharField(db_index=True, default="", max_length=255)),
                ("device_owner", models.CharField(default="", max_length=255)),
                ("device_index", models.PositiveSmallIntegerField(default=0)),
                ("binding_host", models.CharField(default="", max_length=255)),
                ("is_made_by_compute", models.BooleanField(default=False)),
                ("is_plugged", models.BooleanField(db_default=False, default=False)),
                ("device_tag", models.CharField(max_length=60, null=True)),
                ("is_port_security_enabled", models.BooleanField(db_default=True, default=True)),
                ("vnic_type", models.CharField(db_default="normal", default="normal", max_length=32)),
                ("binding_profile", models.JSONField(null=True)),
                ("address_pairs", models.JSONField(null=True)),
                ("dhcp_options", models.JSONField(null=True)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "network",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="ports", to="network.network"
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Router",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tag_text", models.TextField(db_default="", default="")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(default="", max_length=255)),
                ("description", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("is_admin_up", models.BooleanField(default=True)),
                ("is_snat_enabled", models.BooleanField(default=True)),
                ("routes", models.JSONField(default=list)),
                ("availability_zone_hints", models.JSONField(default=list)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "gateway_port",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="network.port"
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="AutoTopology",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("project_id", models.CharField(max_length=64, unique=True)),
                (
                    "network",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="network.network"
                    ),
                ),
                (
                    "router",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="network.router"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SecurityGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tag_text", models.TextField(db_default="", default="")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=255)),
                ("description", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("is_stateful", models.BooleanField(default=True)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("name", "default")),
                        fields=("project_id",),
                        name="one_default_group_per_project",
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="port",
            name="security_groups",
            field=models.ManyToManyField(related_name="ports", to="network.securitygroup"),
        ),
        migrations.CreateModel(
            name="SubnetPool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tag_text", models.TextField(db_default="", default="")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=255)),
                ("project_id", models.CharField(max_length=64)),
                ("is_shared", models.BooleanField(default=False)),
                ("prefixes", models.JSONField()),
                ("default_prefix_length", models.PositiveIntegerField(default=24)),
                ("min_prefix_length", models.PositiveIntegerField(db_default=8, default=8)),
                ("max_prefix_length", models.PositiveIntegerField(db_default=32, default=32)),
                ("default_quota", models.PositiveIntegerField(null=True)),
                ("is_default", models.BooleanField(db_default=False, default=False)),
                ("description", models.CharField(db_default="", default="", max_length=255)),
                ("revision_number", models.PositiveIntegerField(db_default=0, default=0)),
                ("created_at", models.DateTimeField(null=True)),
                ("updated_at", models.DateTimeField(null=True)),
                (
                    "address_scope",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="pools",
                        to="network.addressscope",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Subnet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tag_text", models.TextField(db_default="", default="")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(default="", max_length=255)),
                ("description", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("ip_version", models.PositiveSmallIntegerField(default=4)),
                ("cidr", models.CharField(max_length=64)),
                ("gateway_ip", models.CharField(max_length=64, null=True)),
                ("allocation_pools", models.JSONField(default=list)),
                ("is_dhcp_enabled", models.BooleanField(default=True)),
                ("dns_nameservers", models.JSONField(default=list)),
                ("host_routes", models.JSONField(default=list)),
                ("ipv6_address_mode", models.CharField(max_length=20, null=True)),
                ("ipv6_ra_mode", models.CharField(max_length=20, null=True)),
                ("service_types", models.JSONField(null=True)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "network",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="subnets", to="network.network"
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="subnets",
                        to="network.subnetpool",
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="RbacPolicy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("action", models.CharField(max_length=32)),
                ("target_project", models.CharField(db_index=True, max_length=64)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("updated_at", models.DateTimeField()),
                (
                    "network",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rbac_policies", to="network.network"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("network", "action", "target_project"), name="rbac_policy_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="FloatingIp",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tag_text", models.TextField(db_default="", default="")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("description", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("address", models.CharField(max_length=64)),
                ("fixed_ip_address", models.CharField(max_length=64, null=True)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "network",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="floating_ips", to="network.network"
                    ),
                ),
                (
                    "outer_port",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="network.port"
                    ),
                ),
                (
                    "port",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="network.port"
                    ),
                ),
                (
                    "router",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="floating_ips",
                        to="network.router",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("network", "port", "fixed_ip_address"), name="floating_ip_once_per_address"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SecurityGroupRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("direction", models.CharField(max_length=8)),
                ("ethertype", models.CharField(default="IPv4", max_length=8)),
                ("protocol", models.CharField(max_length=40, null=True)),
                ("port_range_min", models.PositiveIntegerField(null=True)),
                ("port_range_max", models.PositiveIntegerField(null=True)),
                ("remote_ip_prefix", models.CharField(max_length=64, null=True)),
                ("description", models.CharField(default="", max_length=255)),
                ("rule_key", models.CharField(max_length=255)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rules", to="network.securitygroup"
                    ),
                ),
                (
                    "remote_group",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="network.securitygroup",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("group", "rule_key"), name="rule_once_per_group")],
            },
        ),
        migrations.CreateModel(
            name="AddressAllocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("ip_address", models.CharField(max_length=64)),
                (
                    "port",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="addresses", to="network.port"
                    ),
                ),
                (
                    "subnet",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="addresses", to="network.subnet"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("subnet", "ip_address"), name="address_once_per_subnet")
                ],
            },
        ),
    ]
