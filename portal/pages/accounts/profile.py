"""Preferences of a user: theme, density, announced changes, time zone, language."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Invalid
from conductor.services.accounts import preferences, sign_in
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, of_oneself

YEAR = 365 * 86_400


@require_http_methods(["GET", "HEAD", "POST"])
@of_oneself
def profile(request: PageRequest) -> HttpResponse:
    """Show the form; on POST save it, or show each error at its field."""
    user_id = request.caller.user_id
    kept = preferences.of(user_id)
    form = {
        "theme": getattr(request.user, "theme", "system"),
        "density": kept.density,
        "state_changes": kept.state_changes,
        "time_zone": kept.time_zone,
        "language": kept.language,
    }
    problems: dict[str, str] = {}
    if request.method == "POST":
        form |= {name: request.POST[name][:64] for name in form if name in request.POST}
        try:
            sign_in.require_theme(form["theme"])
            preferences.change(user_id, {name: form[name] for name in preferences.CHANGEABLE})
            sign_in.remember_theme(user_id, form["theme"])
            translation.activate(form["language"] or translation.get_language_from_request(request))
            leave_note(request, gettext("Saved."), "good")
            return _remembered(redirect("profile"), form["language"])
        except Invalid as error:
            problems = {str(error.details["field"]): error.message}
    context = {
        "form": form,
        "problems": problems,
        "densities": preferences.DENSITIES,
        "state_changes": preferences.STATE_CHANGES,
        "zones": preferences.time_zones(),
        "languages": settings.LANGUAGES,
        "roles": sorted(request.caller.roles),
        "now": datetime.now(UTC),
    }
    return render(request, "accounts/profile.html", context, status=400 if problems else 200)


def _remembered(response: HttpResponse, language: str) -> HttpResponse:
    """Store the language in the browser too, for pages before sign-in and for error pages."""
    name = settings.LANGUAGE_COOKIE_NAME
    if language:
        response.set_cookie(
            name, language, max_age=YEAR, samesite="Lax", httponly=True, secure=settings.LANGUAGE_COOKIE_SECURE
        )
    else:
        response.delete_cookie(name, samesite="Lax")
    return response
