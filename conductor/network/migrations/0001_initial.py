import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Network",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(default="", max_length=255)),
                ("description", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("is_shared", models.BooleanField(default=False)),
                ("is_external", models.BooleanField(default=False)),
                ("is_admin_up", models.BooleanField(default=True)),
                ("mtu", models.PositiveIntegerField(default=1450)),
                ("revision_number", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="SubnetPool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(max_length=255)),
                ("project_id", models.CharField(max_length=64)),
                ("is_shared", models.BooleanField(default=False)),
                ("prefixes", models.JSONField()),
                ("default_prefix_length", models.PositiveIntegerField(default=24)),
            ],
        ),
        migrations.CreateModel(
            name="Port",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("uuid", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("name", models.CharField(default="", max_length=255)),
                ("description", models.CharField(default="", max_length=255)),
                ("project_id", models.CharField(db_index=True, max_length=64)),
                ("mac_address", models.CharField(max_length=17, unique=True)),
                ("status", models.CharField(default="DOWN", max_length=16)),
                ("is_admin_up", models.BooleanField(default=True)),
                ("device_id", models.CharField(db_index=True, default="", max_length=255)),
                ("device_owner", models.CharField(default="", max_length=255)),
                ("binding_host", models.CharField(default="", max_length=255)),
                ("is_made_by_compute", models.BooleanField(default=False)),
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
        ),
        migrations.CreateModel(
            name="Subnet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
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
