"""The caller's own application credentials, created and deleted by a session of the portal."""

from __future__ import annotations

from conductor.core.context import RequestContext
from conductor.identity import application_credentials, tokens
from conductor.identity.application_credentials import ApplicationCredentialCreate
from conductor.identity.listing import IdentityListQuery
from conductor.identity.models import ApplicationCredential


def find(context: RequestContext, query: IdentityListQuery) -> tuple[list[ApplicationCredential], bool]:
    """Return a page by name, and whether there are more."""
    return application_credentials.find(context.user_id, query)


def get(context: RequestContext, credential_id: str) -> ApplicationCredential:
    """Return one. Raises NotFound."""
    return application_credentials.get(context.user_id, credential_id)


def create(context: RequestContext, requested: ApplicationCredentialCreate) -> tuple[ApplicationCredential, str]:
    """Create one for the session's project; return it with its secret, which is shown only here.

    Raises as `conductor.identity.application_credentials.create` does.
    """
    return application_credentials.create(tokens.of_session(context), requested)


def delete(context: RequestContext, credential_id: str) -> None:
    """Delete one. Raises NotFound."""
    application_credentials.delete(tokens.of_session(context), context.user_id, credential_id)
