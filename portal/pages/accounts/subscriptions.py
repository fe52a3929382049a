"""Subscriptions to notifications: the list with a form for a new one, and a page with the log of deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST

from conductor.core.errors import Conflict, Forbidden, Invalid, NovellaError, StaleRevision, Unavailable
from conductor.services.notifications import deliveries, mails, subscriptions
from conductor.services.notifications.subscriptions import CreatedSubscription, SubscriptionRequest, SubscriptionView
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, signed_in
from portal.pages.status_badges import StatusBadge

# Common selections of events, by the form's value; "chosen" takes the text field beside it.
KINDS: Mapping[str, tuple[str, ...]] = {
    "errors": ("*.error",),
    "ends": ("*.end", "*.error"),
    "all": ("*",),
    "chosen": (),
}
BADGES = {
    deliveries.DELIVERED: StatusBadge("good", "delivered"),
    deliveries.FAILED: StatusBadge("bad", "failed"),
    deliveries.ASKED: StatusBadge("waiting", "queued"),
}
STATUS: tuple[tuple[type[NovellaError], int], ...] = (
    (StaleRevision, 412),
    (Conflict, 409),
    (Forbidden, 403),
    (Invalid, 400),
)
WAYS: Mapping[str, str] = {
    subscriptions.WEBHOOK: "Webhook",
    subscriptions.CHAT: "Chat",
    subscriptions.EMAIL: "My email address",
    subscriptions.BELL: "My portal notifications",
}
BEGUN: Mapping[str, str] = {
    subscriptions.CHAT: "{name} now notifies your chat.",
    subscriptions.EMAIL: "{name} now notifies you by email.",
    subscriptions.BELL: "{name} now notifies you in the portal.",
}
REFUSALS = tuple(kind for kind, _ in STATUS)
MOST_DELIVERIES = 50


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def subscription_list(request: PageRequest) -> HttpResponse:
    """List the caller's subscriptions; on POST create one, whose key is shown this once."""
    if request.method != "POST":
        return _list(request)
    try:
        made = subscriptions.subscribe(request.caller, _requested(request, is_new=True))
    except REFUSALS as error:
        return _list(request, error)
    if made.secret:
        return _secret(request, made)
    _say(request, gettext(BEGUN[made.view.channel]).format(name=made.view.name))
    return redirect("subscription", made.view.uuid)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def subscription(request: PageRequest, subscription_uuid: str) -> HttpResponse:
    """Show a subscription with its log; on POST change it, unless it was changed since the form was rendered."""
    view = subscriptions.get(request.caller, subscription_uuid)
    if request.method != "POST":
        return _page(request, view)
    try:
        subscriptions.change(request.caller, subscription_uuid, _requested(request), _revision(request))
    except REFUSALS as error:
        return _page(request, subscriptions.get(request.caller, subscription_uuid), error)
    _say(request, gettext("Subscription saved."))
    return redirect("subscription", subscription_uuid)


@require_POST
@signed_in
def act(request: PageRequest, subscription_uuid: str, action_id: str) -> HttpResponse:
    """Test it, send a message again, replace its key, or delete it."""
    view = subscriptions.get(request.caller, subscription_uuid)
    try:
        if action_id == "secret":
            return _secret(request, subscriptions.renew_secret(request.caller, view.uuid, _revision(request)))
        if action_id == "delete":
            subscriptions.unsubscribe(request.caller, view.uuid, _revision(request))
            _say(request, gettext("Subscription {name} deleted.").format(name=view.name))
            return redirect("subscriptions")
        if action_id == "test":
            deliveries.test(request.caller, view.uuid)
        else:
            deliveries.send_again(request.caller, view.uuid, request.POST.get("delivery", ""))
    except REFUSALS as error:
        return _page(request, view, error)
    _say(request, gettext("The test is sent within a few seconds."))
    return redirect("subscription", view.uuid)


def _say(request: PageRequest, text: str) -> None:
    leave_note(request, text, "good")


def _list(request: PageRequest, error: NovellaError | None = None) -> HttpResponse:
    found = subscriptions.list_of(request.caller)
    context = {
        "rows": [(one, _badge(one)) for one in found],
        "most": subscriptions.MOST,
        "channels": _channels(request),
        **_form(request, error, None),
    }
    return render(request, "accounts/subscriptions.html", context, status=_status(error))


def _channels(request: PageRequest) -> list[tuple[str, str, str]]:
    """Return the channels with their names, and why one is not available."""
    no_mail = ""
    try:
        mails.address_of(request.caller.user_id)
    except Unavailable as error:
        no_mail = error.message
    return [(channel, words, no_mail if channel == subscriptions.EMAIL else "") for channel, words in WAYS.items()]


def _page(request: PageRequest, view: SubscriptionView, error: NovellaError | None = None) -> HttpResponse:
    page = deliveries.list_of(request.caller, view.uuid, MOST_DELIVERIES)
    context = {
        "one": view,
        "badge": _badge(view),
        "deliveries": [(one, BADGES[one.outcome]) for one in page.items],
        "has_more": page.has_more,
        "missing_cells": page.missing_cells,
        **_form(request, error, view),
    }
    return render(request, "accounts/subscription.html", context, status=_status(error))


def _secret(request: PageRequest, made: CreatedSubscription) -> HttpResponse:
    response = render(request, "accounts/subscription_secret.html", {"one": made.view, "secret": made.secret})
    patch_cache_control(response, no_store=True)
    return response


def _form(request: PageRequest, error: NovellaError | None, view: SubscriptionView | None) -> dict[str, Any]:
    """Return the submitted values of the fields, else the current ones."""
    events = view.events if view else ["*.error"]
    kind = next((word for word, patterns in KINDS.items() if list(patterns) == events), "chosen")
    form = {
        "name": view.name if view else "",
        "channel": view.channel if view else subscriptions.WEBHOOK,
        "url": "",
        "kind": kind,
        "events": " ".join(events) if kind == "chosen" else "",
        "servers": " ".join(view.servers) if view else "",
        "cloud_wide": "yes" if view and view.is_cloud_wide else "",
        "enabled": "yes" if view is None or view.is_enabled else "",
    }
    if error is not None and "name" in request.POST:
        form = {name: request.POST.get(name, "")[:2000] for name in form}
    field = str(error.details.get("field", "")).partition("[")[0] if error else ""
    return {"form": form, "kinds": KINDS, "problem": error.message if error else "", "wrong": field}


def _requested(request: PageRequest, *, is_new: bool = False) -> SubscriptionRequest:
    """Return the request of the form. An address that was left empty stays as it is."""
    sent = request.POST
    patterns = KINDS[sent["kind"]] if sent.get("kind") in KINDS else ()
    channel = sent.get("channel") if is_new else None
    return SubscriptionRequest(
        name=sent.get("name", ""),
        channel=channel,
        url=sent.get("url", "").strip() or None if channel != subscriptions.BELL else None,
        events=patterns or sent.get("events", "").replace(",", " ").split(),
        servers=sent.get("servers", "").replace(",", " ").split(),
        is_cloud_wide=sent.get("cloud_wide") == "yes" if request.caller.is_admin else None,
        is_enabled=None if is_new else sent.get("enabled") == "yes",
    )


def _revision(request: PageRequest) -> int:
    text = request.POST.get("revision", "")
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Invalid("The form was incomplete. Open the page again.", field="revision")
    return int(text)


def _badge(view: SubscriptionView) -> StatusBadge:
    if view.is_enabled:
        return StatusBadge("good", "on")
    return StatusBadge("bad", "off", view.off_reason) if view.off_reason else StatusBadge("none", "off")


def _status(error: NovellaError | None) -> int:
    return next((code for kind, code in STATUS if isinstance(error, kind)), 200)
