"""Users of OpenID providers, and the roles that follow from the provider's claims."""

from __future__ import annotations

from django.db import models

from conductor.identity.models.ids import new_id
from conductor.identity.models.people import User
from conductor.identity.models.role import RoleAssignment


class ProviderAccount(models.Model):
    """A user as a provider knows them: its issuer and subject never change, names may."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="provider_accounts")
    created_at = models.DateTimeField()
    signed_in_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="provider_account_once")]


class ProvidedRole(models.Model):
    """An assignment from a provider's claim; it is removed when the claim no longer has it."""

    account = models.ForeignKey(ProviderAccount, on_delete=models.CASCADE, related_name="provided_roles")
    assignment = models.OneToOneField(RoleAssignment, on_delete=models.CASCADE, related_name="provided")
