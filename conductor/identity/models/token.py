"""Tokens, application credentials, trusts and other credentials."""

from __future__ import annotations

from django.db import models

from conductor.identity.models.ids import new_id
from conductor.identity.models.people import Domain, Project, User
from conductor.identity.models.role import Role


class AccessRule(models.Model):
    """One kind of request that an application credential may make."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="access_rules")
    service = models.CharField(max_length=64)
    path = models.CharField(max_length=128)
    method = models.CharField(max_length=16)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "service", "path", "method"], name="access_rule_once_per_user")
        ]


class ApplicationCredential(models.Model):
    """A secret with which a program acts as a user on one project, with some of the user's roles."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="application_credentials")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="application_credentials")
    name = models.CharField(max_length=255)
    description = models.TextField(default="")
    secret_hash = models.CharField(max_length=128)
    is_unrestricted = models.BooleanField(default=False)  # may create and delete credentials and trusts
    expires_at = models.DateTimeField(null=True)
    roles = models.ManyToManyField(Role, related_name="+")
    access_rules = models.ManyToManyField(AccessRule, related_name="application_credentials")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="app_credential_name_once_per_user")]


class Trust(models.Model):
    """A user (the trustor) lets another user (the trustee) act on a project, with some roles."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    trustor = models.ForeignKey(User, on_delete=models.CASCADE, related_name="trusts_given")
    trustee = models.ForeignKey(User, on_delete=models.CASCADE, related_name="trusts_received")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="trusts")
    is_impersonation = models.BooleanField()  # whether the trustee appears as the trustor
    roles = models.ManyToManyField(Role, related_name="+")
    expires_at = models.DateTimeField(null=True)
    remaining_uses = models.PositiveIntegerField(null=True)

    @property
    def actor(self) -> User:
        """The user that tokens of the trust act as."""
        return self.trustor if self.is_impersonation else self.trustee


class Token(models.Model):
    """A token, stored by the digest of its secret: a stolen database opens no session."""

    digest = models.CharField(primary_key=True, max_length=64)  # sha256 of the token's text, hex
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="tokens")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, related_name="tokens")
    is_on_system = models.BooleanField(default=False, db_default=False)
    application_credential = models.ForeignKey(
        ApplicationCredential, on_delete=models.CASCADE, null=True, related_name="tokens"
    )
    trust = models.ForeignKey(Trust, on_delete=models.CASCADE, null=True, related_name="tokens")
    methods = models.JSONField(default=list)
    audit_id = models.CharField(max_length=32)
    parent_audit_id = models.CharField(max_length=32, default="", db_default="")  # of the login that it stems from
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)


class RightsVersion(models.Model):
    """One row: a number that changes with every change that may alter what a token grants."""

    id = models.PositiveSmallIntegerField(primary_key=True)
    number = models.BigIntegerField()


class Credential(models.Model):
    """An encrypted secret for other programs: an EC2 key pair, a certificate."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="credentials")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="credentials")
    type = models.CharField(max_length=255)
    encrypted_blob = models.TextField()
