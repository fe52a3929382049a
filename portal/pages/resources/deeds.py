"""The forms that all kinds of resources share: asked once, with the call that they make; then done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from conductor.core.errors import Forbidden
from portal.pages.access import PageRequest, signed_in
from portal.pages.api_calls import Answer, Call, send
from portal.pages.page_lengths import LONG_PAGE
from portal.pages.resources import forms
from portal.pages.resources.catalog import may_do
from portal.pages.resources.model import Asked, Deed, Item, Resource
from portal.pages.resources.views import all_of, item_url, items_of, list_url, resource_of

MOST_AT_ONCE = LONG_PAGE
FILE = "file"
KEPT_STATUS = frozenset({403, 404, 409, 413})


@dataclass(frozen=True)
class Sheet:
    """A form that somebody has before them: for what, with what typed, and what is wrong with it."""

    resource: Resource
    deed: Deed
    items: list[Item]
    values: dict[str, str]
    gone: Sequence[str] = ()  # ids of those among several that are not there any more
    wrong: Mapping[str, str] = field(default_factory=dict)

    @property
    def item(self) -> Item:
        """The one that it is about; empty where one is made."""
        return self.items[0] if self.items else {}

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Complaints in the order of the fields, those about the whole first."""
        order = [one.name for one in self.deed.fields]
        return sorted(self.wrong.items(), key=lambda found: order.index(found[0]) if found[0] in order else -1)


@dataclass(frozen=True)
class Outcome:
    """What became of one of several."""

    name: str
    is_good: bool
    message: str


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def resource_deed(request: PageRequest, resource_id: str, deed_id: str) -> HttpResponse:
    """A form; on POST the deed, or the form again with everything kept and the complaint at its field.

    A script's POST (of htmx) changes nothing: it asks how the call would look.
    """
    resource = resource_of(request, resource_id)
    deed = resource.deed(deed_id)
    if deed is None:
        raise Http404
    if request.method != "POST" and not may_do(request.asker, resource, deed):
        raise Forbidden("What is not offered is no form either.")  # what is sent, the API refuses and keeps on record
    sent = request.POST if request.method == "POST" else request.GET
    picked = _picked(request, resource, deed, sent)
    if picked is None:
        said = f"Pick 1 to {MOST_AT_ONCE} first." if deed.is_bulk else "Pick one of them first."
        messages.add_message(request, messages.INFO, said, extra_tags="waiting")
        return redirect(list_url(resource))
    gone: list[str] = []
    items = items_of(request, resource, picked, gone if len(picked) > 1 else None)
    deed = deed.for_asker(request.asker, items)
    if request.method == "POST" or request.htmx:
        sheet = Sheet(resource, deed, items, forms.values_of(deed, sent), gone)
        return _form(request, sheet) if request.htmx else _do(request, sheet)
    return _form(request, Sheet(resource, deed, items, forms.beginnings(deed, items[0] if items else {}, sent), gone))


def _picked(request: PageRequest, resource: Resource, deed: Deed, sent: QueryDict) -> list[str] | None:
    """The ids that the form is about; None where they are too few or too many.

    Those that match on all pages are found by the list's query once; the form then names them.
    """
    if deed.is_creation:
        return []
    if deed.is_bulk and sent.get("everything"):
        picked = all_of(request, resource, dict(parse_qsl(sent.get("query", ""))))
    else:
        picked = list(dict.fromkeys(sent.getlist("item")))
    return picked if 1 <= len(picked) <= (MOST_AT_ONCE if deed.is_bulk else 1) else None


def _do(request: PageRequest, sheet: Sheet) -> HttpResponse:
    wrong = forms.missing(sheet.deed, sheet.values)
    if wrong:
        return _form(request, replace(sheet, wrong=wrong), status=400)
    if len(sheet.items) + len(sheet.gone) > 1:
        return _outcomes(request, sheet)
    refused = sheet.deed.why_not(sheet.item) if sheet.items and sheet.resource.is_for_operators else ""
    if refused:
        return _form(request, replace(sheet, wrong={"": refused}), status=409)
    asked = replace(_asked(request, sheet.item, sheet.values), file=request.FILES.get(FILE))
    answer = send(request, _call(sheet.deed, asked))
    if answer.is_good:
        return _done(request, sheet, asked, answer)
    place = forms.place_of(sheet.deed, answer)
    status = answer.status if answer.status in KEPT_STATUS else 400 if answer.status < 500 else 503
    said = forms.at_its_field(answer.message) if place else answer.message
    return _form(request, replace(sheet, wrong={place: said}), status=status)


def _done(request: PageRequest, sheet: Sheet, asked: Asked, answer: Answer) -> HttpResponse:
    resource, deed = sheet.resource, sheet.deed
    body = answer.body if isinstance(answer.body, Mapping) else {}
    made: Mapping[str, Any] = body.get(resource.one, body)
    about = made if deed.is_creation and made else asked.item
    name = resource.name_of(about)
    if deed.reveals and made.get(deed.reveals):
        return _told_once(request, sheet, made)
    refused = [
        found.message for found in (send(request, one) for one in deed.also_calls(asked, made)) if not found.is_good
    ]
    for message in refused:
        messages.add_message(request, messages.INFO, message, extra_tags="bad")
    if not refused:
        said, tone = f"{deed.title}: {name or resource.noun}.", "good"
        if deed.flow:
            title = gettext(deed.title)
            said = gettext("%(title)s was requested. This page shows it as soon as it is done.") % {"title": title}
            tone = "waiting"
        messages.add_message(request, messages.INFO, said, extra_tags=tone)
    if deed.is_danger or not about or not resource.id_of(about):
        return redirect(list_url(resource))
    return redirect(f"{item_url(resource, resource.id_of(about))}{'/' + deed.tab if deed.tab else ''}")


def _told_once(request: PageRequest, sheet: Sheet, made: Mapping[str, Any]) -> HttpResponse:
    context = {
        "resource": sheet.resource,
        "deed": sheet.deed,
        "name": sheet.resource.name_of(made),
        "ident": sheet.resource.id_of(made),
        "secret": made[sheet.deed.reveals],
        "list_url": list_url(sheet.resource),
    }
    response = render(request, "resources/secret.html", context)
    patch_cache_control(response, no_store=True)
    return response


def _outcomes(request: PageRequest, sheet: Sheet) -> HttpResponse:
    """A result for each of several."""
    found = []
    for item in sheet.items:
        refused = sheet.deed.why_not(item) if sheet.resource.is_for_operators else ""
        call = _call(sheet.deed, _asked(request, item, sheet.values))
        answer = Answer(409, message=refused) if refused else send(request, call)
        name = sheet.resource.name_of(item) or sheet.resource.id_of(item)
        found.append(Outcome(name, answer.is_good, answer.message))
    found += [Outcome(ident, False, gettext("It is not there any more.")) for ident in sheet.gone]
    good = sum(outcome.is_good for outcome in found)
    context = {
        "resource": sheet.resource,
        "deed": sheet.deed,
        "outcomes": found,
        "good": good,
        "bad": len(found) - good,
        "list_url": list_url(sheet.resource),
    }
    return render(request, "resources/outcomes.html", context)


def _call(deed: Deed, asked: Asked) -> Call:
    """The call of a form, with the reason where the form asks for one."""
    return replace(deed.call(asked), reason=asked.values.get("reason", ""))


def _asked(request: PageRequest, item: Item, values: Mapping[str, str]) -> Asked:
    return Asked(item, values, request.asker.user_id, request.asker.project_id)


def _form(request: PageRequest, sheet: Sheet, status: int = 200) -> HttpResponse:
    resource, deed, values = sheet.resource, sheet.deed, dict(sheet.values)
    choices = forms.first_choices(request, deed, values, sheet.item)
    asked = _asked(request, sheet.item, values)
    names = [
        (resource.id_of(one), resource.name_of(one) or resource.id_of(one), deed.why_not(one)) for one in sheet.items
    ]
    is_single = len(sheet.items) == 1
    context = {
        "resource": resource,
        "deed": deed,
        "items": names,
        "is_open": not names or any(not why_not for _, _, why_not in names),
        "questions": forms.questions(deed, values, choices, sheet.wrong),
        "problems": sheet.problems,
        "call": _call(deed, asked),
        "command": forms.command(deed, asked),
        "action": reverse("resource-deed", args=[resource.id, deed.id]),
        "back_url": item_url(resource, resource.id_of(sheet.item)) if is_single else list_url(resource),
        "list_url": list_url(resource),
        "has_file": any(one.kind == "file" for one in deed.fields),
    }
    return render(request, "resources/_call.html" if request.htmx else "resources/form.html", context, status=status)
