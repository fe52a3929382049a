"""Roles, their implications, and their assignments."""

from __future__ import annotations

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Coalesce

from conductor.identity.models.ids import new_id
from conductor.identity.models.people import Domain, Group, Project, User


class Role(models.Model):
    """One of admin, manager, member, reader and service, or one that an operator adds.

    A role of one domain is never in a token: it only stands for the roles that it implies.
    """

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    name = models.CharField(max_length=255)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, related_name="roles")
    description = models.TextField(null=True)
    options = models.JSONField(default=dict, db_default={})
    extra = models.JSONField(default=dict, db_default={})

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name"], condition=Q(domain=None), name="role_name_once"),
            models.UniqueConstraint(fields=["domain", "name"], name="role_name_once_per_domain"),
        ]


class ImpliedRole(models.Model):
    """Rule: a holder of `prior` has `implied` too."""

    prior = models.ForeignKey(Role, on_delete=models.CASCADE, related_name="implications")
    implied = models.ForeignKey(Role, on_delete=models.CASCADE, related_name="implied_by")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["prior", "implied"], name="implication_once")]


def _or_nothing(field: str) -> Coalesce:
    return Coalesce(field, Value(""))


class RoleAssignment(models.Model):
    """A user's or group's role on a project, a domain or the system: exactly one of each.

    An inherited one applies to all projects below its project or domain, and not to that itself.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="role_assignments")
    group = models.ForeignKey(Group, on_delete=models.CASCADE, null=True, related_name="role_assignments")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="role_assignments")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, related_name="role_assignments")
    is_on_system = models.BooleanField(default=False, db_default=False)
    is_inherited = models.BooleanField(default=False, db_default=False)
    role = models.ForeignKey(Role, on_delete=models.PROTECT, related_name="assignments")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                _or_nothing("user_id"),
                _or_nothing("group_id"),
                _or_nothing("project_id"),
                _or_nothing("domain_id"),
                "role_id",
                "is_inherited",
                name="assignment_once",
            )
        ]
