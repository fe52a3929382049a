"""Domains, projects, users and groups, and what belongs to one user: accounts elsewhere, second factors, sign-ins."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models
from django.utils.crypto import salted_hmac

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
    """The owner of servers, networks and images: the unit of isolation between tenants.

    `path` holds the ids of all its ancestors, from the top, each followed by a slash; empty at the top. It
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
        """The ids of the ancestors, from the top."""
        return self.path.split("/")[:-1]

    @property
    def parent_or_domain_id(self) -> str:
        """The parent's id as clients see it: the domain's for a project at the top."""
        return self.parent_id or self.domain_id


class ProjectTag(models.Model):
    """A tag of a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=255)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="project_tag_once")]


class UserManager(BaseUserManager["User"]):
    """Finds users by the name that they type."""

    def get_by_natural_key(self, username: str | None) -> User:
        """Return the user of that name in the domain `default`, else the only one elsewhere, else `name@domain`.

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
    preferences = models.JSONField(default=dict, db_default={})  # other preferences in the portal
    is_active = models.BooleanField(default=True)
    options = models.JSONField(default=dict, db_default={})
    extra = models.JSONField(default=dict, db_default={})
    failed_logins = models.PositiveIntegerField(default=0, db_default=0)  # consecutive failures
    failed_at = models.DateTimeField(null=True)
    session_epoch = models.PositiveIntegerField(default=0, db_default=0)  # sessions of an earlier epoch have ended

    USERNAME_FIELD = "username"
    objects = UserManager()

    def get_session_auth_hash(self) -> str:
        """Return the digest that a session keeps as its proof: another password or epoch ends the session."""
        return self._session_digest(settings.SECRET_KEY)

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        """Yield the digests with earlier secret keys."""
        yield from map(self._session_digest, settings.SECRET_KEY_FALLBACKS)

    def _session_digest(self, secret: str | bytes) -> str:
        proof = f"{self.session_epoch}\0{self.password}"
        return salted_hmac("novella.session", proof, secret=secret, algorithm="sha256").hexdigest()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "username"], name="user_name_once_per_domain")]


class Group(models.Model):
    """Users with common roles."""

    id = models.CharField(primary_key=True, max_length=64, default=new_id)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="user_groups")
    name = models.CharField(max_length=64)
    description = models.TextField(default="")
    extra = models.JSONField(default=dict)
    members = models.ManyToManyField(User, through="GroupMembership", related_name="user_groups")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["domain", "name"], name="group_name_once_per_domain")]


class GroupMembership(models.Model):
    """Membership of a user in a group."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        db_table = "identity_membership"
        constraints = [models.UniqueConstraint(fields=["group", "user"], name="member_once")]


class SecondFactor(models.Model):
    """The key of an authenticator, encrypted. It counts from `confirmed_at` on.

    `last_step` is the time step of the newest accepted code: no code is accepted twice.
    """

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="second_factor")
    encrypted_key = models.TextField()
    confirmed_at = models.DateTimeField(null=True)
    last_step = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)  # consecutive wrong codes
    failed_at = models.DateTimeField(null=True)


class RecoveryCode(models.Model):
    """A code that replaces the authenticator once; only its digest is stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="recovery_code_once_per_user")]


class SignInRecord(models.Model):
    """A token bucket of failures, or an address that is known for an account: see `sign_in_limits`.

    A bucket is full again at `ends_at`; a known address is forgotten then. The key is a digest of what it is about.
    """

    key = models.CharField(primary_key=True, max_length=64)
    ends_at = models.DateTimeField(db_index=True)
