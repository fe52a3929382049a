"""Users, projects, roles and tokens."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models


def new_id() -> str:
    """32 hex digits: the form of user, project and role ids."""
    return uuid.uuid4().hex


class Domain(models.Model):
    """A realm of users and projects."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    name = models.CharField(max_length=64, unique=True)
    description = models.TextField(default="")
    is_enabled = models.BooleanField(default=True)


class Project(models.Model):
    """The owner of servers, networks and images: a wall between tenants."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="projects")
    name = models.CharField(max_length=64)
    description = models.TextField(default="")
    is_enabled = models.BooleanField(default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "name"], name="project_name_once_per_domain")]


class UserManager(BaseUserManager["User"]):
    """Finds users by login name."""


class User(AbstractBaseUser):
    """A person or program that signs in. `username` is the login name of the portal (unique over all domains)."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="users")
    username = models.CharField(max_length=255, unique=True)
    email = models.EmailField(default="", blank=True)
    description = models.TextField(default="")
    default_project_id = models.CharField(max_length=64, null=True)
    theme = models.CharField(max_length=8, default="system")  # system, light or dark
    is_active = models.BooleanField(default=True)

    USERNAME_FIELD = "username"
    objects = UserManager()


class Role(models.Model):
    """admin, manager, member, reader or service, and what an operator adds."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    name = models.CharField(max_length=64, unique=True)


class RoleAssignment(models.Model):
    """A user's role on a project."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="role_assignments")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="role_assignments")
    role = models.ForeignKey(Role, on_delete=models.PROTECT, related_name="assignments")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "project", "role"], name="one_assignment")]


class Token(models.Model):
    """A token by the digest of its secret: a stolen database opens nothing."""

    digest = models.CharField(primary_key=True, max_length=64)  # sha256 of the token's text, hex
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="tokens")
    methods = models.JSONField(default=list)
    audit_id = models.CharField(max_length=32)
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
