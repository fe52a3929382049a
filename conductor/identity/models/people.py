"""Domains, projects, users and groups."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models

from conductor.identity.models.ids import new_id


class Domain(models.Model):
    """A realm of users, groups and projects."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    name = models.CharField(max_length=64, unique=True)
    description = models.TextField(default="")
    is_enabled = models.BooleanField(default=True)
    tags = models.JSONField(default=list, db_default=[])
    options = models.JSONField(default=dict, db_default={})
    extra = models.JSONField(default=dict, db_default={})


class Project(models.Model):
    """The owner of servers, networks and images: a wall between tenants.

    `path` holds the ids of all that it stands under, from the top, each followed by a slash; empty at the top. It
    never changes, as a project never gets another parent.
    """

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="projects")
    parent = models.ForeignKey("self", on_delete=models.RESTRICT, null=True, related_name="children")
    path = models.CharField(max_length=400, default="", db_default="", db_index=True)
    name = models.CharField(max_length=64)
    description = models.TextField(default="")
    is_enabled = models.BooleanField(default=True)
    options = models.JSONField(default=dict, db_default={})
    extra = models.JSONField(default=dict, db_default={})

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "name"], name="project_name_once_per_domain")]

    @property
    def ancestor_ids(self) -> list[str]:
        """The projects above this one, from the top."""
        return self.path.split("/")[:-1]

    @property
    def parent_or_domain_id(self) -> str:
        """What clients call the parent: a project at the top hangs on its domain."""
        return self.parent_id or self.domain_id


class ProjectTag(models.Model):
    """A word that marks a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=255)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="project_tag_once")]


class UserManager(BaseUserManager["User"]):
    """Finds users by what they type."""

    def get_by_natural_key(self, username: str | None) -> User:
        """The user of that name in the domain `default`, else the only one elsewhere, else `name@domain`.

        Raises DoesNotExist.
        """
        wanted = username or ""
        found = {user.domain_id: user for user in self.filter(username=wanted)[:1000]}
        if "default" in found or len(found) == 1:
            return found.get("default") or next(iter(found.values()))
        name, _, domain_name = wanted.rpartition("@")
        return self.get(username=name, domain__name=domain_name)


class User(AbstractBaseUser):
    """A person or program that signs in."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="users")
    username = models.CharField(max_length=255, db_index=True)
    email = models.EmailField(default="", blank=True)
    description = models.TextField(default="")
    default_project_id = models.CharField(max_length=64, null=True)
    theme = models.CharField(max_length=8, default="system")  # system, light or dark
    preferences = models.JSONField(default=dict, db_default={})  # what else they want of the portal
    is_active = models.BooleanField(default=True)
    options = models.JSONField(default=dict, db_default={})
    extra = models.JSONField(default=dict, db_default={})
    failed_logins = models.PositiveIntegerField(default=0, db_default=0)  # in a row
    failed_at = models.DateTimeField(null=True)

    USERNAME_FIELD = "username"
    objects = UserManager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "username"], name="user_name_once_per_domain")]


class Group(models.Model):
    """Users who share their roles."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="user_groups")
    name = models.CharField(max_length=64)
    description = models.TextField(default="")
    extra = models.JSONField(default=dict)
    members = models.ManyToManyField(User, through="Membership", related_name="user_groups")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "name"], name="group_name_once_per_domain")]


class Membership(models.Model):
    """A user in a group."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "user"], name="member_once")]
