"""Who signs in with an OpenID provider, and which roles they have from what it says of them."""

from __future__ import annotations

from django.db import models

from conductor.identity.models.ids import new_id
from conductor.identity.models.people import User
from conductor.identity.models.role import RoleAssignment


class ProviderAccount(models.Model):
    """Somebody as a provider knows them: its issuer and subject never change, names may."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="provider_accounts")
    created_at = models.DateTimeField()
    signed_in_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="provider_account_once")]


class ProvidedRole(models.Model):
    """An assignment that a provider's word has given, and that goes when it does not say so any more."""

    account = models.ForeignKey(ProviderAccount, on_delete=models.CASCADE, related_name="provided_roles")
    assignment = models.OneToOneField(RoleAssignment, on_delete=models.CASCADE, related_name="provided")
