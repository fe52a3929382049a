"""Signing in with an OpenID provider: the way there, the way back, and what is said when it does not work out."""

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
from conductor.services import provider_sign_in
from portal import openid
from portal.pages import accounts
from portal.pages.access import safe_next
from portal.request_ids import remote_address_of, request_id_of

WAY_SECONDS = 600  # how long somebody may take at the provider
BEGUN_KEY = "provider_begun"

log = logging.getLogger(__name__)


@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """To the provider; where to go afterwards waits here."""
    if not openid.is_on():
        raise Http404
    request.session[BEGUN_KEY] = {"next": safe_next(request), "project": request.GET.get("project", "")[:64]}
    if not request.session.get(SESSION_KEY):
        request.session.set_expiry(WAY_SECONDS)  # nobody's yet: it is not worth keeping
    try:
        return _unkept(openid.way_there(request, request.build_absolute_uri(reverse("sign-in-provider-answer"))))
    except openid.NoAnswer as error:
        return _refused(request, error, safe_next(request))


@require_safe
def answer(request: HttpRequest) -> HttpResponse:
    """Back from the provider. Whoever it proves to be comes in, as after a password."""
    if not openid.is_on():
        raise Http404
    begun = request.session.pop(BEGUN_KEY, None) or {}
    try:
        proof = openid.proof(request)
        user = provider_sign_in.enter(
            proof.claims,
            claim=settings.NOVELLA_OIDC_CLAIM,
            rules=settings.NOVELLA_OIDC_ROLES,
            context=RequestContext("", "", request_id_of(request), remote_address=remote_address_of(request)),
        )
    except (openid.NoAnswer, openid.NotBegunHere, openid.SaidNo, openid.NotProven, NovellaError) as error:
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
        gettext("%(provider)s does not answer"),
        gettext("Try again in a while. Whoever has a password here can sign in with it."),
    )


def _not_begun_here() -> tuple[str, str]:
    return (
        gettext("This sign-in was not begun in this browser, or it took too long"),
        gettext("Nobody was signed in. Begin again."),
    )


def _said_no() -> tuple[str, str]:
    return (
        gettext("%(provider)s did not sign you in"),
        gettext("Try again, or ask whoever runs it whether you may use this cloud."),
    )


def _not_proven() -> tuple[str, str]:
    return (
        gettext("The answer of %(provider)s does not prove who you are"),
        gettext("Nobody was signed in. Ask whoever runs this cloud to look into its log, with the request id."),
    )


def _name_taken() -> tuple[str, str]:
    return (
        gettext("Your name belongs to another account here"),
        gettext("Nobody was signed in. Ask whoever runs this cloud to rename one of the two."),
    )


def _disabled() -> tuple[str, str]:
    return gettext("Your account is disabled here"), gettext("Ask whoever runs this cloud to enable it.")


ANSWERS: dict[type[Exception], tuple[int, Words]] = {
    openid.NoAnswer: (503, _no_answer),
    openid.NotBegunHere: (400, _not_begun_here),
    openid.SaidNo: (403, _said_no),
    openid.NotProven: (502, _not_proven),
    Invalid: (502, _not_proven),
    Conflict: (409, _name_taken),
    Forbidden: (403, _disabled),
}


def _refused(request: HttpRequest, error: Exception, wanted: str) -> HttpResponse:
    """The sign-in page again, with what was wrong; the log knows of what kind it was, and nothing that is secret."""
    status, words = ANSWERS.get(type(error), (502, _not_proven))
    log.warning("sign-in with the provider: %s (%s) request=%s", type(error).__name__, error, request_id_of(request))
    problem, advice = (text % {"provider": settings.NOVELLA_OIDC_NAME} for text in words())
    context = {"problem": problem, "advice": advice, "request_id": request_id_of(request), "next": wanted}
    return accounts.form(request, context, status=status)


def _unkept(response: HttpResponse) -> HttpResponse:
    patch_cache_control(response, no_store=True)
    return response
