"""One's own password: a form that asks for the old one."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Forbidden, Invalid, NotAuthenticated, TooOften
from conductor.services import own_passwords, second_factors
from portal.pages.access import PageRequest, of_oneself

LONGEST_CODE = 64


@sensitive_post_parameters("original", "password", "again", "code")
@require_http_methods(["GET", "HEAD", "POST"])
@of_oneself
def own_password(request: PageRequest) -> HttpResponse:
    """The form; on POST the change, which leaves only this browser signed in, or what is wrong at its field."""
    assert request.user.is_authenticated  # read now: after the change the session proves nobody, until it is renewed
    has_password = request.user.has_usable_password()
    problems = _change(request) if request.method == "POST" else {}
    if request.method == "POST" and not problems:
        said = gettext("Your password is changed. You are signed out everywhere else.")
        messages.add_message(request, messages.INFO, said, extra_tags="good")
        return redirect("profile")
    needs_code = second_factors.is_on(request.asker.user_id)
    context = {"problems": problems, "has_password": has_password, "needs_code": needs_code}
    response = render(request, "account/password.html", context, status=400 if problems else 200)
    patch_cache_control(response, no_store=True)
    return response


def _change(request: PageRequest) -> dict[str, str]:
    """What is wrong, by field; "" for what is about none of them."""
    original, password, again = (request.POST.get(name, "") for name in ("original", "password", "again"))
    if password != again:
        return {"again": gettext("It is not the same as the new password.")}
    try:
        own_passwords.require_acceptable(request.asker, password)
        user = own_passwords.change(request.asker, original, password, code=request.POST.get("code", "")[:LONGEST_CODE])
    except NotAuthenticated:
        if second_factors.is_on(request.asker.user_id):
            return {"original": gettext("The password or the code is wrong, or the code was used already.")}
        return {"original": gettext("That is not your password, or too many wrong ones were typed just now.")}
    except Invalid as error:
        return {"password": error.message}
    except (Forbidden, TooOften) as error:
        return {"": error.message}
    update_session_auth_hash(request, user)
    return {}
