"""Subscriptions to notifications: the list with a form for a new one, and one with its log of deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST

from conductor.core.errors import Conflict, Forbidden, Invalid, NovellaError, StaleRevision, Unavailable
from conductor.services.notifications import deliveries, mails, subscriptions
from conductor.services.notifications.subscriptions import Made, SubscriptionView, Wish
from portal.pages.access import PageRequest, signed_in
from portal.pages.faces import Face

# What most people want to hear of, by the word of the form; "chosen" takes what is written beside it.
KINDS: Mapping[str, tuple[str, ...]] = {
    "errors": ("*.error",),
    "ends": ("*.end", "*.error"),
    "all": ("*",),
    "chosen": (),
}
FACES = {
    deliveries.DELIVERED: Face("good", "delivered"),
    deliveries.FAILED: Face("bad", "failed"),
    deliveries.ASKED: Face("waiting", "about to be sent"),
}
STATUS: tuple[tuple[type[NovellaError], int], ...] = (
    (StaleRevision, 412),
    (Conflict, 409),
    (Forbidden, 403),
    (Invalid, 400),
)
WAYS: Mapping[str, str] = {
    subscriptions.WEBHOOK: "a webhook",
    subscriptions.CHAT: "a chat",
    subscriptions.EMAIL: "my e-mail address",
    subscriptions.BELL: "my bell in the portal",
}
BEGUN: Mapping[str, str] = {
    subscriptions.CHAT: "{name} tells your chat from now on.",
    subscriptions.EMAIL: "{name} writes to you from now on.",
    subscriptions.BELL: "{name} rings your bell from now on.",
}
REFUSALS = tuple(kind for kind, _ in STATUS)
MOST_DELIVERIES = 50


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def subscription_list(request: PageRequest) -> HttpResponse:
    """The asker's own; on POST a new one, whose key is shown this once."""
    if request.method != "POST":
        return _list(request)
    try:
        made = subscriptions.subscribe(request.asker, _wish(request, is_new=True))
    except REFUSALS as error:
        return _list(request, error)
    if made.secret:
        return _secret(request, made)
    _say(request, gettext(BEGUN[made.view.channel]).format(name=made.view.name))
    return redirect("subscription", made.view.uuid)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def subscription(request: PageRequest, subscription_uuid: str) -> HttpResponse:
    """One with its log; on POST it is changed, unless somebody else has done so since the form was drawn."""
    view = subscriptions.get(request.asker, subscription_uuid)
    if request.method != "POST":
        return _page(request, view)
    try:
        subscriptions.change(request.asker, subscription_uuid, _wish(request), _revision(request))
    except REFUSALS as error:
        return _page(request, subscriptions.get(request.asker, subscription_uuid), error)
    _say(request, gettext("The subscription was changed."))
    return redirect("subscription", subscription_uuid)


@require_POST
@signed_in
def act(request: PageRequest, subscription_uuid: str, deed: str) -> HttpResponse:
    """Test it, send something again, give it a new key, or end it."""
    view = subscriptions.get(request.asker, subscription_uuid)
    try:
        if deed == "secret":
            return _secret(request, subscriptions.renew_secret(request.asker, view.uuid, _revision(request)))
        if deed == "delete":
            subscriptions.unsubscribe(request.asker, view.uuid, _revision(request))
            _say(request, gettext("{name} is no more.").format(name=view.name))
            return redirect("subscriptions")
        if deed == "test":
            deliveries.test(request.asker, view.uuid)
        else:
            deliveries.send_again(request.asker, view.uuid, request.POST.get("delivery", ""))
    except REFUSALS as error:
        return _page(request, view, error)
    _say(request, gettext("It is sent within a few seconds."))
    return redirect("subscription", view.uuid)


def _say(request: PageRequest, text: str) -> None:
    messages.add_message(request, messages.INFO, text, extra_tags="good")


def _list(request: PageRequest, error: NovellaError | None = None) -> HttpResponse:
    found = subscriptions.list_of(request.asker)
    context = {
        "rows": [(one, _face(one)) for one in found],
        "most": subscriptions.MOST,
        "channels": _channels(request),
        **_form(request, error, None),
    }
    return render(request, "subscriptions/list.html", context, status=_status(error))


def _channels(request: PageRequest) -> list[tuple[str, str, str]]:
    """Each way with its name, and why it cannot be gone."""
    no_mail = ""
    try:
        mails.address_of(request.asker.user_id)
    except Unavailable as error:
        no_mail = error.message
    return [(channel, words, no_mail if channel == subscriptions.EMAIL else "") for channel, words in WAYS.items()]


def _page(request: PageRequest, view: SubscriptionView, error: NovellaError | None = None) -> HttpResponse:
    page = deliveries.list_of(request.asker, view.uuid, MOST_DELIVERIES)
    context = {
        "one": view,
        "face": _face(view),
        "deliveries": [(one, FACES[one.outcome]) for one in page.items],
        "has_more": page.has_more,
        "missing_cells": page.missing_cells,
        **_form(request, error, view),
    }
    return render(request, "subscriptions/page.html", context, status=_status(error))


def _secret(request: PageRequest, made: Made) -> HttpResponse:
    response = render(request, "subscriptions/secret.html", {"one": made.view, "secret": made.secret})
    patch_cache_control(response, no_store=True)
    return response


def _form(request: PageRequest, error: NovellaError | None, view: SubscriptionView | None) -> dict[str, Any]:
    """The fields as they were sent, else as they are."""
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


def _wish(request: PageRequest, *, is_new: bool = False) -> Wish:
    """What the form asks for. An address that was left empty stays as it is."""
    sent = request.POST
    patterns = KINDS[sent["kind"]] if sent.get("kind") in KINDS else ()
    channel = sent.get("channel") if is_new else None
    return Wish(
        name=sent.get("name", ""),
        channel=channel,
        url=sent.get("url", "").strip() or None if channel != subscriptions.BELL else None,
        events=patterns or sent.get("events", "").replace(",", " ").split(),
        servers=sent.get("servers", "").replace(",", " ").split(),
        is_cloud_wide=sent.get("cloud_wide") == "yes" if request.asker.is_admin else None,
        is_enabled=None if is_new else sent.get("enabled") == "yes",
    )


def _revision(request: PageRequest) -> int:
    text = request.POST.get("revision", "")
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Invalid("The form was not whole: open the page again.", field="revision")
    return int(text)


def _face(view: SubscriptionView) -> Face:
    if view.is_enabled:
        return Face("good", "on")
    return Face("bad", "turned off", view.off_reason) if view.off_reason else Face("none", "off")


def _status(error: NovellaError | None) -> int:
    return next((code for kind, code in STATUS if isinstance(error, kind)), 200)
