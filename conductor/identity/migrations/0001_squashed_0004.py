import django.db.models.deletion
import django.db.models.functions.comparison
from django.conf import settings
from django.db import migrations, models

import conductor.identity.models.ids


class Migration(migrations.Migration):
    replaces = [
        ("identity", "0001_initial"),
        ("identity", "0002_expand_add_identity_v3"),
        ("identity", "0003_expand_add_preferences"),
        ("identity", "0004_expand_add_second_factors"),
    ]

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("username", models.CharField(db_index=True, max_length=255)),
                ("email", models.EmailField(blank=True, default="", max_length=254)),
                ("description", models.TextField(default="")),
                ("default_project_id", models.CharField(max_length=64, null=True)),
                ("theme", models.CharField(default="system", max_length=8)),
                ("preferences", models.JSONField(db_default={}, default=dict)),
                ("is_active", models.BooleanField(default=True)),
                ("options", models.JSONField(db_default={}, default=dict)),
                ("extra", models.JSONField(db_default={}, default=dict)),
                ("failed_logins", models.PositiveIntegerField(db_default=0, default=0)),
                ("failed_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Domain",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=64, unique=True)),
                ("description", models.TextField(default="")),
                ("is_enabled", models.BooleanField(default=True)),
                ("tags", models.JSONField(db_default=[], default=list)),
                ("options", models.JSONField(db_default={}, default=dict)),
                ("extra", models.JSONField(db_default={}, default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("service_id", models.CharField(db_index=True, max_length=64)),
                ("interface", models.CharField(max_length=8)),
                ("region_id", models.CharField(max_length=255, null=True)),
                ("url", models.TextField()),
                ("is_enabled", models.BooleanField(default=True)),
                ("extra", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="Region",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=255, primary_key=True, serialize=False
                    ),
                ),
                ("description", models.TextField(default="")),
                ("parent_region_id", models.CharField(max_length=255, null=True)),
                ("extra", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="RightsVersion",
            fields=[
                ("id", models.PositiveSmallIntegerField(primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Service",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("type", models.CharField(max_length=255)),
                ("name", models.CharField(default="", max_length=255)),
                ("description", models.TextField(default="")),
                ("is_enabled", models.BooleanField(default=True)),
                ("extra", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="SecondFactor",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="second_factor",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("encrypted_key", models.TextField()),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("last_step", models.BigIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failed_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="AccessRule",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("service", models.CharField(max_length=64)),
                ("path", models.CharField(max_length=128)),
                ("method", models.CharField(max_length=16)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="access_rules",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="user",
            name="domain",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="users", to="identity.domain"
            ),
        ),
        migrations.CreateModel(
            name="Group",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=64)),
                ("description", models.TextField(default="")),
                ("extra", models.JSONField(default=dict)),
                (
                    "domain",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="user_groups", to="identity.domain"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="memberships", to="identity.group"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="group",
            name="members",
            field=models.ManyToManyField(
                related_name="user_groups", through="identity.Membership", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.CreateModel(
            name="Project",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("path", models.CharField(db_default="", db_index=True, default="", max_length=400)),
                ("name", models.CharField(max_length=64)),
                ("description", models.TextField(default="")),
                ("is_enabled", models.BooleanField(default=True)),
                ("options", models.JSONField(db_default={}, default=dict)),
                ("extra", models.JSONField(db_default={}, default=dict)),
                (
                    "domain",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="projects", to="identity.domain"
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="children",
                        to="identity.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Credential",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("type", models.CharField(max_length=255)),
                ("encrypted_blob", models.TextField()),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="credentials",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="credentials",
                        to="identity.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ProjectTag",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tags", to="identity.project"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RecoveryCode",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="recovery_codes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RegisteredLimit",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("service_id", models.CharField(max_length=64)),
                ("region_id", models.CharField(max_length=255, null=True)),
                ("resource_name", models.CharField(max_length=255)),
                ("default_limit", models.BigIntegerField()),
                ("description", models.TextField(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        models.F("service_id"),
                        django.db.models.functions.comparison.Coalesce("region_id", models.Value("")),
                        models.F("resource_name"),
                        name="registered_limit_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Limit",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("resource_limit", models.BigIntegerField()),
                ("description", models.TextField(null=True)),
                (
                    "domain",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="limits",
                        to="identity.domain",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="limits",
                        to="identity.project",
                    ),
                ),
                (
                    "registered",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="limits",
                        to="identity.registeredlimit",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Role",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=255)),
                ("description", models.TextField(db_default="", default="")),
                ("options", models.JSONField(db_default={}, default=dict)),
                ("extra", models.JSONField(db_default={}, default=dict)),
                (
                    "domain",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="roles",
                        to="identity.domain",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ImpliedRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "implied",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="implied_by", to="identity.role"
                    ),
                ),
                (
                    "prior",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="implications", to="identity.role"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ApplicationCredential",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=255)),
                ("description", models.TextField(default="")),
                ("secret_hash", models.CharField(max_length=128)),
                ("is_unrestricted", models.BooleanField(default=False)),
                ("expires_at", models.DateTimeField(null=True)),
                (
                    "access_rules",
                    models.ManyToManyField(related_name="application_credentials", to="identity.accessrule"),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="application_credentials",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="application_credentials",
                        to="identity.project",
                    ),
                ),
                ("roles", models.ManyToManyField(related_name="+", to="identity.role")),
            ],
        ),
        migrations.CreateModel(
            name="RoleAssignment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("is_on_system", models.BooleanField(db_default=False, default=False)),
                ("is_inherited", models.BooleanField(db_default=False, default=False)),
                (
                    "domain",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_assignments",
                        to="identity.domain",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_assignments",
                        to="identity.group",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_assignments",
                        to="identity.project",
                    ),
                ),
                (
                    "role",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="assignments", to="identity.role"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_assignments",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Trust",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=conductor.identity.models.ids.new_id, max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("is_impersonation", models.BooleanField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("remaining_uses", models.PositiveIntegerField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trusts",
                        to="identity.project",
                    ),
                ),
                ("roles", models.ManyToManyField(related_name="+", to="identity.role")),
                (
                    "trustee",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trusts_received",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "trustor",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trusts_given",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Token",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("is_on_system", models.BooleanField(db_default=False, default=False)),
                ("methods", models.JSONField(default=list)),
                ("audit_id", models.CharField(max_length=32)),
                ("parent_audit_id", models.CharField(db_default="", default="", max_length=32)),
                ("issued_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
                (
                    "application_credential",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to="identity.applicationcredential",
                    ),
                ),
                (
                    "domain",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to="identity.domain",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to="identity.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "trust",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to="identity.trust",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="accessrule",
            constraint=models.UniqueConstraint(
                fields=("user", "service", "path", "method"), name="access_rule_once_per_user"
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.UniqueConstraint(fields=("domain", "username"), name="user_name_once_per_domain"),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(fields=("group", "user"), name="member_once"),
        ),
        migrations.AddConstraint(
            model_name="group",
            constraint=models.UniqueConstraint(fields=("domain", "name"), name="group_name_once_per_domain"),
        ),
        migrations.AddConstraint(
            model_name="project",
            constraint=models.UniqueConstraint(fields=("domain", "name"), name="project_name_once_per_domain"),
        ),
        migrations.AddConstraint(
            model_name="projecttag",
            constraint=models.UniqueConstraint(fields=("project", "name"), name="project_tag_once"),
        ),
        migrations.AddConstraint(
            model_name="recoverycode",
            constraint=models.UniqueConstraint(fields=("user", "digest"), name="recovery_code_once_per_user"),
        ),
        migrations.AddConstraint(
            model_name="limit",
            constraint=models.UniqueConstraint(
                models.F("registered_id"),
                django.db.models.functions.comparison.Coalesce("project_id", models.Value("")),
                django.db.models.functions.comparison.Coalesce("domain_id", models.Value("")),
                name="limit_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="role",
            constraint=models.UniqueConstraint(
                condition=models.Q(("domain", None)), fields=("name",), name="role_name_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="role",
            constraint=models.UniqueConstraint(fields=("domain", "name"), name="role_name_once_per_domain"),
        ),
        migrations.AddConstraint(
            model_name="impliedrole",
            constraint=models.UniqueConstraint(fields=("prior", "implied"), name="implication_once"),
        ),
        migrations.AddConstraint(
            model_name="applicationcredential",
            constraint=models.UniqueConstraint(fields=("user", "name"), name="app_credential_name_once_per_user"),
        ),
        migrations.AddConstraint(
            model_name="roleassignment",
            constraint=models.UniqueConstraint(
                django.db.models.functions.comparison.Coalesce("user_id", models.Value("")),
                django.db.models.functions.comparison.Coalesce("group_id", models.Value("")),
                django.db.models.functions.comparison.Coalesce("project_id", models.Value("")),
                django.db.models.functions.comparison.Coalesce("domain_id", models.Value("")),
                models.F("role_id"),
                models.F("is_inherited"),
                name="assignment_once",
            ),
        ),
    ]
