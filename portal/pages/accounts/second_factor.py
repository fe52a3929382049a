"""Authenticator: setup, new recovery codes, and turning it off."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_cache_control
from django.utils.safestring import mark_safe
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Conflict, Invalid
from conductor.services.accounts import second_factors
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, of_oneself
from portal.session_callers import keep_signed_in

LONGEST_CODE = 64


@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
@of_oneself
def second_factor(request: PageRequest) -> HttpResponse:
    """Show the form for setup, or for renewal and turning off. Each needs a code of the authenticator."""
    problem, codes = "", []
    if request.method == "POST":
        try:
            codes = _do(request, request.POST.get("do", ""))
        except (Invalid, Conflict) as error:
            problem = error.message
        else:
            if not codes:
                return redirect("second-factor")
    response = render(
        request, "accounts/second_factor.html", _context(request, problem, codes), status=_status(problem)
    )
    patch_cache_control(response, no_store=True)
    return response


def _do(request: PageRequest, wanted: str) -> list[str]:
    """Carry out the action; returns new recovery codes, if any. Raises Invalid or Conflict."""
    user_id, code = request.caller.user_id, request.POST.get("code", "")[:LONGEST_CODE]
    if wanted == "confirm":
        codes = second_factors.confirm(user_id, code)
        keep_signed_in(request.session, second_factors.owner(user_id))
        return codes
    if wanted == "renew":
        return second_factors.renew_codes(user_id, code)
    if wanted == "turn-off":
        second_factors.turn_off(user_id, code)
        leave_note(request, "You can sign in with your password alone again.", "good")
        return []
    if wanted == "another-key":
        second_factors.enrolment(user_id, is_new=True)
        return []
    raise Invalid("Select an action: confirm, renew, turn off or change key.", field="do")


def _context(request: PageRequest, problem: str, codes: list[str]) -> dict[str, Any]:
    user_id = request.caller.user_id
    context: dict[str, Any] = {"is_on": second_factors.is_on(user_id), "problem": problem, "codes": codes}
    if context["is_on"]:
        return {**context, "codes_left": second_factors.codes_left(user_id)}
    offered = second_factors.enrolment(user_id)
    import segno  # imported only for the setup

    square = segno.make(offered.address, error="m").svg_inline(scale=4, dark="#000", light="#fff", omitsize=True)
    return {**context, "key": offered.key, "address": offered.address, "square": mark_safe(square)}


def _status(problem: str) -> int:
    return 400 if problem else 200
