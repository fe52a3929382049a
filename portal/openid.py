"""Client of the OpenID provider: redirects to it, and verifies its answers."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse

DISCOVERY = "/.well-known/openid-configuration"
NEEDED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
ANSWER_SECONDS = 5
LEEWAY_SECONDS = 60
# Algorithms whose signatures only the provider can make: "none" and shared secrets prove nothing.
ALGORITHMS = frozenset(f"{kind}{bits}" for kind in ("RS", "ES", "PS") for bits in (256, 384, 512)) | {"EdDSA"}
PLAIN = re.compile(r"[a-z_]{1,60}")

log = logging.getLogger(__name__)


class ProviderUnavailable(Exception):
    """The provider does not answer, or its metadata is invalid."""


class NotBegunHere(Exception):
    """The sign-in was not begun in this session, has expired, or was completed before."""


class SignInRefused(Exception):
    """The provider did not sign the user in; it gives an error code."""


class NotProven(Exception):
    """The provider's answer cannot be verified."""


@dataclass(frozen=True)
class VerifiedClaims:
    """The verified claims of a user, and the provider's sign-out address."""

    claims: Mapping[str, Any]
    sign_out: str


def is_on() -> bool:
    """Whether the operator has configured a provider."""
    return bool(settings.NOVELLA_OIDC_ISSUER)


def redirect_to_provider(request: HttpRequest, back_to: str) -> HttpResponse:
    """Redirect to the provider, with state, nonce and challenge in the session. Raises ProviderUnavailable."""
    provider = _provider()
    response: HttpResponse = provider.authorize_redirect(request, back_to)
    return response


def verified_claims(request: HttpRequest) -> VerifiedClaims:
    """Verify the provider's answer, once. Raises ProviderUnavailable, NotBegunHere, SignInRefused and NotProven."""
    if request.GET.get("iss", settings.NOVELLA_OIDC_ISSUER) != settings.NOVELLA_OIDC_ISSUER:
        raise NotProven("another issuer answers")
    import requests  # as in `_provider`
    from authlib.common.errors import AuthlibBaseError
    from authlib.integrations.base_client import MismatchingStateError, OAuthError
    from joserfc.errors import JoseError

    provider = _provider()
    try:
        token = provider.authorize_access_token(
            request,
            leeway=LEEWAY_SECONDS,
            claims_options={
                "iss": {"essential": True, "value": settings.NOVELLA_OIDC_ISSUER},
                "aud": {"essential": True, "value": settings.NOVELLA_OIDC_CLIENT_ID},
            },
        )
        claims = dict(token.get("userinfo") or {})
        if not claims:
            raise NotProven("no id token")
        if settings.NOVELLA_OIDC_CLAIM not in claims and provider.server_metadata.get("userinfo_endpoint"):
            claims = _more(provider, token, claims)
    except MismatchingStateError:
        raise NotBegunHere from None
    except OAuthError as error:
        raise SignInRefused(error.error if PLAIN.fullmatch(error.error or "") else "error") from None
    except requests.RequestException as error:
        raise ProviderUnavailable(type(error).__name__) from None
    except (AuthlibBaseError, JoseError, ValueError, KeyError, TypeError) as error:
        raise NotProven(type(error).__name__) from None
    return VerifiedClaims(claims, str(provider.server_metadata.get("end_session_endpoint") or ""))


def sign_out_address(sign_out: str, back_to: str) -> str:
    """Return the address where the provider ends its own session, and redirects back."""
    words = urlencode({"client_id": settings.NOVELLA_OIDC_CLIENT_ID, "post_logout_redirect_uri": back_to})
    return f"{sign_out}{'&' if '?' in sign_out else '?'}{words}"


def _more(provider: Any, token: Mapping[str, Any], claims: dict[str, Any]) -> dict[str, Any]:
    """Add the claims of the userinfo endpoint, as many providers keep the id token short.

    Raises NotProven for another user.
    """
    reported = provider.userinfo(token=token)
    if reported.get("sub") != claims.get("sub"):
        raise NotProven("claims of another user")
    return {**reported, **claims}


def _provider() -> Any:
    """Return the client with the provider's current metadata, without a cache that could become outdated."""
    import requests  # imported only with a configured provider: the libraries are large
    from authlib.integrations.django_client import OAuth

    issuer = settings.NOVELLA_OIDC_ISSUER
    provider = OAuth().register(
        "provider",
        client_id=settings.NOVELLA_OIDC_CLIENT_ID,
        client_secret=settings.NOVELLA_OIDC_CLIENT_SECRET or None,
        server_metadata_url=issuer.rstrip("/") + DISCOVERY,
        client_kwargs={
            "scope": " ".join(settings.NOVELLA_OIDC_SCOPES),
            "code_challenge_method": "S256",
            "default_timeout": ANSWER_SECONDS,
        },
    )
    try:
        reported = provider.load_server_metadata()
    except (requests.RequestException, ValueError, TypeError) as error:
        raise ProviderUnavailable(type(error).__name__) from None
    if reported.get("issuer") != issuer or not all(isinstance(reported.get(name), str) for name in NEEDED):
        raise ProviderUnavailable("another issuer, or an address is missing")
    offered = reported.get("id_token_signing_alg_values_supported") or ["RS256"]
    reported["id_token_signing_alg_values_supported"] = [name for name in offered if name in ALGORITHMS]
    reported.pop("jwks", None)  # keys come from the provider's own address, not from the metadata
    return provider
