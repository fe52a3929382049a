"""Forms of all kinds of resources: each shows the API call that it makes, asks once, and then sends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext, ngettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Forbidden
from portal.pages.notes import leave_note
from portal.pages.page_lengths import LONG_PAGE
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.resource_pages.catalog import may_do
from portal.pages.resource_pages.views import all_of, item_url, items_of, list_url, resource_of, whole_url
from portal.pages.resources import forms, service_calls
from portal.pages.resources.model import ActionResult, Call, FollowUp, Item, Resource, ResourceAction, SubmittedForm
from portal.pages.resources.service_calls import ServiceOperation

MOST_AT_ONCE = LONG_PAGE
FILE = "file"
KEPT_STATUS = frozenset({403, 404, 409, 413})


@dataclass(frozen=True)
class Sheet:
    """State of a form: its action and resources, the values, and the errors."""

    resource: Resource
    action: ResourceAction
    items: list[Item]
    values: dict[str, str]
    gone: Sequence[str] = ()  # ids of selected resources that do not exist any more
    wrong: Mapping[str, str] = field(default_factory=dict)

    @property
    def item(self) -> Item:
        """The resource; empty for a creation."""
        return self.items[0] if self.items else {}

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Errors in the order of the fields, those about the whole form first."""
        order = [one.name for one in self.action.fields]
        return sorted(self.wrong.items(), key=lambda found: order.index(found[0]) if found[0] in order else -1)


@dataclass(frozen=True)
class ItemResult:
    """The result for one of several resources."""

    name: str
    is_good: bool
    message: str


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def resource_action(request: PageRequest, resource_id: str, action_id: str) -> HttpResponse:
    """Show the form; on POST carry out the action, or show the form with all values and errors.

    A POST of a script (htmx) changes nothing: it returns the call for the current values.
    """
    resource = resource_of(request, resource_id)
    action = resource.action(action_id)
    if action is None:
        raise Http404
    if request.method != "POST" and not may_do(request.caller, resource, action):
        raise Forbidden("This action isn't available.")  # the API refuses and audits a POST
    sent = request.POST if request.method == "POST" else request.GET
    picked = _picked(request, resource, action, sent)
    if picked is None:
        sentence = gettext("Select at least one item.")
        if action.is_bulk:
            sentence = gettext("Select 1 to %(most)s items first.") % {"most": MOST_AT_ONCE}
        leave_note(request, sentence, "waiting")
        return redirect(list_url(resource))
    gone: list[str] = []
    items = items_of(request, resource, picked, gone if len(picked) > 1 else None)
    action = action.for_caller(request.caller, items)
    if request.method == "POST" or request.htmx:
        sheet = Sheet(resource, action, items, forms.values_of(action, sent), gone)
        return _form(request, sheet) if request.htmx else _do(request, sheet)
    return _form(
        request, Sheet(resource, action, items, forms.beginnings(action, items[0] if items else {}, sent), gone)
    )


def _picked(request: PageRequest, resource: Resource, action: ResourceAction, sent: QueryDict) -> list[str] | None:
    """Return the ids of the selected resources; None for too few or too many.

    A selection of all pages is resolved by the list's query once; the form then has the ids.
    """
    if action.is_creation:
        return []
    if action.is_bulk and sent.get("everything"):
        picked = all_of(request, resource, dict(parse_qsl(sent.get("query", ""))))
    else:
        picked = list(dict.fromkeys(sent.getlist("item")))
    return picked if 1 <= len(picked) <= (MOST_AT_ONCE if action.is_bulk else 1) else None


def _do(request: PageRequest, sheet: Sheet) -> HttpResponse:
    wrong = forms.missing(sheet.action, sheet.values)
    if wrong:
        return _form(request, replace(sheet, wrong=wrong), status=400)
    if len(sheet.items) + len(sheet.gone) > 1:
        return _outcomes(request, sheet)
    refused = sheet.action.why_not(sheet.item) if sheet.items and sheet.resource.is_for_operators else ""
    if refused:
        return _form(request, replace(sheet, wrong={"": refused}), status=409)
    requested = replace(_asked(request, sheet.item, sheet.values), file=request.FILES.get(FILE))
    answer = _carry_out(request, sheet, requested)
    if answer.is_good:
        return _done(request, sheet, requested, answer)
    place = forms.place_of(sheet.action, answer)
    status = answer.status if answer.status in KEPT_STATUS else 400 if answer.status < 500 else 503
    sentence = forms.at_its_field(answer.message) if place else answer.message
    return _form(request, replace(sheet, wrong={place: sentence}), status=status)


def _carry_out(request: PageRequest, sheet: Sheet, form: SubmittedForm) -> ActionResult:
    return service_calls.execute(request.caller, sheet.resource, sheet.action, form, _call(sheet.action, form))


def _follow_up(request: PageRequest, sheet: Sheet, one: FollowUp) -> ActionResult:
    operation = ServiceOperation(one.service or sheet.action.service or sheet.resource.service, one.rule, one.call)
    return service_calls.change(request.caller, operation, one.execute)


def _done(request: PageRequest, sheet: Sheet, form: SubmittedForm, answer: ActionResult) -> HttpResponse:
    resource, action = sheet.resource, sheet.action
    made: Item = answer.body[resource.one] if answer.body else {}
    about = made if action.is_creation and made else form.item
    name = resource.name_of(about)
    if action.reveals and made.get(action.reveals):
        return _reveal_once(request, sheet, made)
    refused = [
        found.message
        for found in (_follow_up(request, sheet, one) for one in action.follow_ups(form, made))
        if not found.is_good
    ]
    for message in refused:
        leave_note(request, message, "bad")
    if not refused:
        title, tone = gettext(action.title), "good"
        about_it = name or ngettext(resource.noun, f"{resource.noun}s", 1)
        sentence = gettext("%(title)s completed: %(name)s.") % {"title": title, "name": about_it}
        if action.flow:
            sentence = gettext("%(title)s: request accepted. This page updates when it is done.") % {"title": title}
            tone = "waiting"
        leave_note(request, sentence, tone)
    if resource.whole[0] and (action.is_danger or action.is_creation):
        return redirect(whole_url(resource, about))
    if action.is_danger or not about or not resource.id_of(about):
        return redirect(list_url(resource))
    return redirect(f"{item_url(resource, resource.id_of(about))}{'/' + action.tab if action.tab else ''}")


def _reveal_once(request: PageRequest, sheet: Sheet, made: Mapping[str, Any]) -> HttpResponse:
    context = {
        "resource": sheet.resource,
        "action": sheet.action,
        "name": sheet.resource.name_of(made),
        "ident": sheet.resource.id_of(made),
        "secret": made[sheet.action.reveals],
        "list_url": list_url(sheet.resource),
    }
    response = render(request, "resource_pages/secret.html", context)
    patch_cache_control(response, no_store=True)
    return response


def _outcomes(request: PageRequest, sheet: Sheet) -> HttpResponse:
    """Carry out the action on several resources, and show a result for each."""
    found = []
    for item in sheet.items:
        refused = sheet.action.why_not(item) if sheet.resource.is_for_operators else ""
        requested = _asked(request, item, sheet.values)
        answer = ActionResult(409, message=refused) if refused else _carry_out(request, sheet, requested)
        name = sheet.resource.name_of(item) or sheet.resource.id_of(item)
        found.append(ItemResult(name, answer.is_good, answer.message))
    found += [ItemResult(ident, False, gettext("It no longer exists.")) for ident in sheet.gone]
    good = sum(outcome.is_good for outcome in found)
    context = {
        "resource": sheet.resource,
        "action": sheet.action,
        "outcomes": found,
        "good": good,
        "bad": len(found) - good,
        "list_url": list_url(sheet.resource),
    }
    return render(request, "resource_pages/outcomes.html", context)


def _call(action: ResourceAction, form: SubmittedForm) -> Call:
    """Return the call of a form, with the reason if the form asks for one."""
    return replace(action.call(form), reason=form.values.get("reason", ""))


def _asked(request: PageRequest, item: Item, values: Mapping[str, str]) -> SubmittedForm:
    return SubmittedForm(item, values, request.caller.user_id)


def _form(request: PageRequest, sheet: Sheet, status: int = 200) -> HttpResponse:
    resource, action, values = sheet.resource, sheet.action, dict(sheet.values)
    choices = forms.first_choices(request, action, values, sheet.item)
    requested = _asked(request, sheet.item, values)
    names = [
        (resource.id_of(one), resource.name_of(one) or resource.id_of(one), action.why_not(one)) for one in sheet.items
    ]
    is_single = len(sheet.items) == 1
    back_url = item_url(resource, resource.id_of(sheet.item)) if is_single else whole_url(resource, values)
    context = {
        "resource": resource,
        "action": action,
        "items": names,
        "is_open": not names or any(not why_not for _, _, why_not in names),
        "questions": forms.questions(action, values, choices, sheet.wrong),
        "problems": sheet.problems,
        "call": _call(action, requested),
        "command": forms.command(action, requested),
        "submit_url": reverse("resource-action", args=[resource.id, action.id]),
        "back_url": back_url,
        "list_url": list_url(resource),
        "has_file": any(one.kind == "file" for one in action.fields),
    }
    return render(
        request, "resource_pages/_call.html" if request.htmx else "resource_pages/form.html", context, status=status
    )
