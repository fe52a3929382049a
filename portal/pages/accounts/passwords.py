"""Change of one's own password, which asks for the old one."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Forbidden, Invalid, NotAuthenticated, TooManyRequests
from conductor.services.accounts import passwords, second_factors
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, of_oneself
from portal.session_callers import keep_signed_in

LONGEST_CODE = 64


@sensitive_post_parameters("original", "password", "again", "code")
@require_http_methods(["GET", "HEAD", "POST"])
@of_oneself
def own_password(request: PageRequest) -> HttpResponse:
    """Show the form; on POST change the password and sign out other browsers, or show errors at their fields."""
    assert request.user.is_authenticated  # read now: after the change the session is invalid until it is renewed
    has_password = request.user.has_usable_password()
    problems = _change(request) if request.method == "POST" else {}
    if request.method == "POST" and not problems:
        sentence = gettext("Password changed. You are signed out in all other browsers.")
        leave_note(request, sentence, "good")
        return redirect("profile")
    needs_code = second_factors.is_on(request.caller.user_id)
    context = {"problems": problems, "has_password": has_password, "needs_code": needs_code}
    response = render(request, "accounts/password.html", context, status=400 if problems else 200)
    patch_cache_control(response, no_store=True)
    return response


def _change(request: PageRequest) -> dict[str, str]:
    """Return the errors by field; "" for errors that are not about one field."""
    original, password, again = (request.POST.get(name, "") for name in ("original", "password", "again"))
    if password != again:
        return {"again": gettext("The passwords don't match.")}
    try:
        passwords.require_acceptable(request.caller, password)
        user = passwords.change(request.caller, original, password, code=request.POST.get("code", "")[:LONGEST_CODE])
    except NotAuthenticated:
        if second_factors.is_on(request.caller.user_id):
            return {"original": gettext("The password or the code is wrong, or the code was already used.")}
        return {"original": gettext("Wrong password, or too many failed attempts. Try again later.")}
    except Invalid as error:
        return {"password": error.message}
    except (Forbidden, TooManyRequests) as error:
        return {"": error.message}
    keep_signed_in(request.session, user)
    return {}
