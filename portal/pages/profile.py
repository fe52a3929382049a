"""What somebody wants of the portal: theme, density, spoken changes, time zone, language."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Invalid
from conductor.services import preferences, sign_in
from portal.pages.access import PageRequest, of_oneself

YEAR = 365 * 86_400


@require_http_methods(["GET", "HEAD", "POST"])
@of_oneself
def profile(request: PageRequest) -> HttpResponse:
    """The form; on POST it is kept, or shown again with what is wrong at its field."""
    user_id = request.asker.user_id
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
            if form["theme"] not in sign_in.THEMES:
                raise Invalid(f"The theme is one of {', '.join(sign_in.THEMES)}.", field="theme")
            preferences.change(user_id, {name: form[name] for name in preferences.CHANGEABLE})
            sign_in.remember_theme(user_id, form["theme"])
            translation.activate(form["language"] or translation.get_language_from_request(request))
            messages.add_message(request, messages.INFO, gettext("Kept."), extra_tags="good")
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
        "roles": sorted(request.asker.roles),
        "now": datetime.now(UTC),
    }
    return render(request, "account/profile.html", context, status=400 if problems else 200)


def _remembered(response: HttpResponse, language: str) -> HttpResponse:
    """This browser's pages before the sign-in, and its errors, are in the language too."""
    name = settings.LANGUAGE_COOKIE_NAME
    if language:
        response.set_cookie(
            name, language, max_age=YEAR, samesite="Lax", httponly=True, secure=settings.LANGUAGE_COOKIE_SECURE
        )
    else:
        response.delete_cookie(name, samesite="Lax")
    return response
