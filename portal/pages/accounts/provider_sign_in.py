"""Sign-in with an OpenID provider: the redirect, the return, and the errors."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NovellaError
from conductor.services.accounts import provider_sign_in
from portal import openid
from portal.pages.accounts import accounts
from portal.pages.permissions import safe_next
from portal.request_ids import remote_address_of, request_id_of

WAY_SECONDS = 600  # time limit for signing in at the provider
BEGUN_KEY = "provider_begun"

log = logging.getLogger(__name__)


@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider; the session keeps the page to open afterwards."""
    if not openid.is_on():
        raise Http404
    request.session[BEGUN_KEY] = {"next": safe_next(request), "project": request.GET.get("project", "")[:64]}
    if not request.session.get(SESSION_KEY):
        request.session.set_expiry(WAY_SECONDS)  # anonymous so far, so a short lifetime is enough
    try:
        return _unkept(
            openid.redirect_to_provider(request, request.build_absolute_uri(reverse("sign-in-provider-answer")))
        )
    except openid.ProviderUnavailable as error:
        return _refused(request, error, safe_next(request))


@require_safe
def answer(request: HttpRequest) -> HttpResponse:
    """Handle the provider's answer: sign in the user whom it verifies."""
    if not openid.is_on():
        raise Http404
    begun = request.session.pop(BEGUN_KEY, None) or {}
    try:
        proof = openid.verified_claims(request)
        user = provider_sign_in.enter(
            proof.claims,
            claim=settings.NOVELLA_OIDC_CLAIM,
            rules=settings.NOVELLA_OIDC_ROLES,
            context=RequestContext("", "", request_id_of(request), remote_address=remote_address_of(request)),
        )
    except (
        openid.ProviderUnavailable,
        openid.NotBegunHere,
        openid.SignInRefused,
        openid.NotProven,
        NovellaError,
    ) as error:
        return _refused(request, error, begun.get("next", ""))
    request.session.set_expiry(None)
    response = accounts.admit(
        request, user, begun.get("next") or reverse("home"), project_id=begun.get("project", ""), method="provider"
    )
    if proof.sign_out:
        request.session[accounts.SIGN_OUT_KEY] = proof.sign_out
    return _unkept(response)


Words = Callable[[], tuple[str, str]]


def _no_answer() -> tuple[str, str]:
    return (
        gettext("%(provider)s doesn't respond"),
        gettext("Try again later. If you have a password for this cloud, sign in with it."),
    )


def _not_begun_here() -> tuple[str, str]:
    return (
        gettext("The sign-in was started in another browser, or it took too long"),
        gettext("You aren't signed in. Start again."),
    )


def _declined() -> tuple[str, str]:
    return (
        gettext("Sign-in with %(provider)s failed"),
        gettext("Try again, or ask your administrator for access to this cloud."),
    )


def _not_proven() -> tuple[str, str]:
    return (
        gettext("The response of %(provider)s couldn't be verified"),
        gettext("You aren't signed in. Give your administrator the request ID so that they can check the log."),
    )


def _name_taken() -> tuple[str, str]:
    return (
        gettext("Another account already has your name"),
        gettext("You aren't signed in. Ask your administrator to rename one of the two accounts."),
    )


def _disabled() -> tuple[str, str]:
    return gettext("Your account is disabled"), gettext("Ask your administrator to enable it.")


ANSWERS: dict[type[Exception], tuple[int, Words]] = {
    openid.ProviderUnavailable: (503, _no_answer),
    openid.NotBegunHere: (400, _not_begun_here),
    openid.SignInRefused: (403, _declined),
    openid.NotProven: (502, _not_proven),
    Invalid: (502, _not_proven),
    Conflict: (409, _name_taken),
    Forbidden: (403, _disabled),
}


def _refused(request: HttpRequest, error: Exception, wanted: str) -> HttpResponse:
    """Show the sign-in page with the error. The log has the kind of error, without secrets."""
    status, words = ANSWERS.get(type(error), (502, _not_proven))
    log.warning("sign-in with the provider: %s (%s) request=%s", type(error).__name__, error, request_id_of(request))
    problem, advice = (text % {"provider": settings.NOVELLA_OIDC_NAME} for text in words())
    context = {"problem": problem, "advice": advice, "request_id": request_id_of(request), "next": wanted}
    return accounts.form(request, context, status=status)


def _unkept(response: HttpResponse) -> HttpResponse:
    patch_cache_control(response, no_store=True)
    return response
