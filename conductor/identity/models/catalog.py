"""Catalog entries that operators add, and unified limits of all services."""

from __future__ import annotations

from django.db import models
from django.db.models import Value
from django.db.models.functions import Coalesce

from conductor.identity.models.ids import new_id
from conductor.identity.models.people import Domain, Project


class Region(models.Model):
    """A region with its own endpoints."""

    id = models.CharField(primary_key=True, max_length=255, default=new_id)
    description = models.TextField(default="")
    parent_region_id = models.CharField(max_length=255, null=True)
    extra = models.JSONField(default=dict)


class RegisteredService(models.Model):
    """A service that an operator registered, beside the built-in ones."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    type = models.CharField(max_length=255)
    name = models.CharField(max_length=255, default="")
    description = models.TextField(default="")
    is_enabled = models.BooleanField(default=True)
    extra = models.JSONField(default=dict)

    class Meta:
        db_table = "identity_service"


class Endpoint(models.Model):
    """Address of a service. `service_id` may be that of a built-in service, which has no row."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    service_id = models.CharField(max_length=64, db_index=True)
    interface = models.CharField(max_length=8)
    region_id = models.CharField(max_length=255, null=True)
    url = models.TextField()
    is_enabled = models.BooleanField(default=True)
    extra = models.JSONField(default=dict)


class ProjectEndpoint(models.Model):
    """One endpoint, built in or added, that the catalog of a project's tokens is restricted to."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="endpoints")
    endpoint_id = models.CharField(max_length=64, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "endpoint_id"], name="project_endpoint_once")]


class EndpointGroup(models.Model):
    """All present and future endpoints of a service, region or interface."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    name = models.CharField(max_length=255, unique=True)
    description = models.TextField(null=True)
    filters = models.JSONField()
    projects: models.ManyToManyField[Project, models.Model] = models.ManyToManyField(
        Project, related_name="endpoint_groups"
    )


class Policy(models.Model):
    """A policy of a service that is not built in, stored as it is."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    blob = models.JSONField()  # text, or an object as some clients send it
    type = models.CharField(max_length=255)
    extra = models.JSONField(default=dict)


class DomainOption(models.Model):
    """One option of a domain's configuration, stored for external tools."""

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="configuration")
    group = models.CharField(max_length=64)
    name = models.CharField(max_length=64)
    value = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "group", "name"], name="domain_option_once")]


class RegisteredLimit(models.Model):
    """The default limit of a service's resource."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    service_id = models.CharField(max_length=64)
    region_id = models.CharField(max_length=255, null=True)
    resource_name = models.CharField(max_length=255)
    default_limit = models.BigIntegerField()
    description = models.TextField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "service_id", Coalesce("region_id", Value("")), "resource_name", name="registered_limit_once"
            )
        ]


class Limit(models.Model):
    """The limit of one project or domain, instead of the registered one."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    registered = models.ForeignKey(RegisteredLimit, on_delete=models.PROTECT, related_name="limits")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="limits")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, related_name="limits")
    resource_limit = models.BigIntegerField()
    description = models.TextField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "registered_id",
                Coalesce("project_id", Value("")),
                Coalesce("domain_id", Value("")),
                name="limit_once",
            )
        ]
