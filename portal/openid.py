"""Speaks to the OpenID provider: where it answers, the way there, and what its answer proves."""

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
# A signature that the provider alone can make: "none" and what is signed with a shared secret prove nothing.
ALGORITHMS = frozenset(f"{kind}{bits}" for kind in ("RS", "ES", "PS") for bits in (256, 384, 512)) | {"EdDSA"}
PLAIN = re.compile(r"[a-z_]{1,60}")

log = logging.getLogger(__name__)


class NoAnswer(Exception):
    """The provider does not answer, or says of itself what cannot be."""


class NotBegunHere(Exception):
    """Somebody comes back who was not sent, was sent too long ago, or has come back already."""


class SaidNo(Exception):
    """The provider did not sign the person in; it says why with a word."""


class NotProven(Exception):
    """What the provider answered proves nothing."""


@dataclass(frozen=True)
class Proof:
    """Who it is, in the provider's claims, and where one signs out of it."""

    claims: Mapping[str, Any]
    sign_out: str


def is_on() -> bool:
    """Whether the operator has named a provider."""
    return bool(settings.NOVELLA_OIDC_ISSUER)


def way_there(request: HttpRequest, back_to: str) -> HttpResponse:
    """To the provider, with a state, a nonce and a challenge that the session keeps. Raises NoAnswer."""
    provider = _provider()
    response: HttpResponse = provider.authorize_redirect(request, back_to)
    return response


def proof(request: HttpRequest) -> Proof:
    """What the answer proves. Raises NoAnswer, NotBegunHere, SaidNo and NotProven; each answer is taken once."""
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
        raise SaidNo(error.error if PLAIN.fullmatch(error.error or "") else "error") from None
    except requests.RequestException as error:
        raise NoAnswer(type(error).__name__) from None
    except (AuthlibBaseError, JoseError, ValueError, KeyError, TypeError) as error:
        raise NotProven(type(error).__name__) from None
    return Proof(claims, str(provider.server_metadata.get("end_session_endpoint") or ""))


def sign_out_address(sign_out: str, back_to: str) -> str:
    """Where the provider forgets its own session of the person, and leads back."""
    words = urlencode({"client_id": settings.NOVELLA_OIDC_CLIENT_ID, "post_logout_redirect_uri": back_to})
    return f"{sign_out}{'&' if '?' in sign_out else '?'}{words}"


def _more(provider: Any, token: Mapping[str, Any], claims: dict[str, Any]) -> dict[str, Any]:
    """Many providers keep the id token short, and tell the rest on asking; of the same person, or of nobody."""
    told = provider.userinfo(token=token)
    if told.get("sub") != claims.get("sub"):
        raise NotProven("claims of somebody else")
    return {**told, **claims}


def _provider() -> Any:
    """What the provider says of itself, asked anew each time: nothing to forget when its keys or addresses change."""
    import requests  # only where an operator has named a provider: what speaks to it is large
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
        told = provider.load_server_metadata()
    except (requests.RequestException, ValueError, TypeError) as error:
        raise NoAnswer(type(error).__name__) from None
    if told.get("issuer") != issuer or not all(isinstance(told.get(name), str) for name in NEEDED):
        raise NoAnswer("another issuer, or an address is missing")
    offered = told.get("id_token_signing_alg_values_supported") or ["RS256"]
    told["id_token_signing_alg_values_supported"] = [name for name in offered if name in ALGORITHMS]
    told.pop("jwks", None)  # keys come from where the provider keeps them, not from what stands here
    return provider
