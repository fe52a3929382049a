"""OAuth 1.0: programs (consumers) that users let act for them on one project. Secrets are encrypted: they sign."""

from __future__ import annotations

from django.db import models

from conductor.identity.models.ids import new_id
from conductor.identity.models.people import Project, User
from conductor.identity.models.role import Role


class Consumer(models.Model):
    """A program that may ask users for access."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    description = models.TextField(null=True)
    encrypted_secret = models.TextField()
    extra = models.JSONField(default=dict)


class RequestToken(models.Model):
    """A consumer asks for access to a project; who authorises it is told a verifier, and the consumer by them."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE, related_name="request_tokens")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="+")  # who authorised it
    roles = models.ManyToManyField(Role, related_name="+")
    encrypted_secret = models.TextField()
    verifier_hash = models.CharField(max_length=64, default="")
    expires_at = models.DateTimeField(db_index=True)


class AccessToken(models.Model):
    """A consumer acts as a user on a project, with some of the user's roles."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE, related_name="access_tokens")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="access_tokens")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    roles = models.ManyToManyField(Role, related_name="+")
    encrypted_secret = models.TextField()
    expires_at = models.DateTimeField(db_index=True)


class Nonce(models.Model):
    """A signed request that was taken: the same one is not taken again."""

    digest = models.CharField(primary_key=True, max_length=64)
    expires_at = models.DateTimeField(db_index=True)
