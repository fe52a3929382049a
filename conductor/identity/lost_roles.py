"""Deletes application credentials when their user loses one of their roles."""

from __future__ import annotations

from collections.abc import Collection

from conductor.identity import effective
from conductor.identity.models import ApplicationCredential


def end_credentials(user_ids: Collection[str] | None = None) -> None:
    """Delete application credentials that have a role which their user no longer has: those of these users, or all.

    Call it in the transaction that takes rights away. A role that is given back later must not revive a secret that the
    user may have forgotten, or that was the reason to take the role away.
    """
    held = ApplicationCredential.objects.select_related("project__domain").prefetch_related("roles")
    for credential in held if user_ids is None else held.filter(user_id__in=user_ids):
        left = {role.id for role in effective.roles_on(credential.user_id, project=credential.project)}
        if not {role.id for role in credential.roles.all()} <= left:
            credential.delete()
