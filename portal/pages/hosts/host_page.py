"""A host, for operators: capacity, servers, work in progress, and actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.services.fleet import canaries, drains, host_actions, host_details
from conductor.services.fleet.host_details import ClassInventory, HostDetail
from conductor.services.servers.types import InstanceData
from conductor.services.workflows import lists
from portal.pages import status_badges
from portal.pages.amounts import CLASS_WORDS, large_megabytes, short, whole
from portal.pages.hosts import fleet_drawing
from portal.pages.live_marks import live_marks
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, operators_only
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import presenter

STATUS: tuple[tuple[type[NovellaError], int], ...] = ((Invalid, 400), (Conflict, 409))
FIELDS = ("reason", "confirm")


@dataclass(frozen=True)
class GuestRow:
    """A server of the host in its list."""

    server: InstanceData
    badge: StatusBadge
    project: str


@dataclass(frozen=True)
class InventoryRow:
    """A resource class in words, with how much of it is used."""

    title: str
    words: str
    share: float
    detail: str


@require_safe
@operators_only
def host(request: PageRequest, name: str) -> HttpResponse:
    """Show all details of a host, updated live."""
    marks = live_marks(f"host:{name}", "page")
    context = {**marks, **page_context(request.caller, name)}
    return render(request, "hosts/_host.html" if request.htmx else "hosts/host.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def host_action(request: PageRequest, name: str, action_id: str) -> HttpResponse:
    """Ask for the reason, then carry out the action."""
    action = host_actions.get_action(request.caller, name, action_id)
    if request.method != "POST":
        return _form(request, name, action, None)
    sent = {field: request.POST.get(field, "") for field in FIELDS}
    try:
        reported = host_actions.execute(request.caller, name, action_id, **sent)
    except (Invalid, Conflict) as error:
        return _form(request, name, host_actions.get_action(request.caller, name, action_id), error)
    leave_note(request, reported, "good")
    return redirect("host", name)


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def host_note(request: PageRequest, name: str) -> HttpResponse:
    """Set the maintenance note of a host that is out of service."""
    service = host_details.service_of(request.caller, name)
    text, error = request.POST.get("note", service.maintenance_note), None
    if request.method == "POST":
        try:
            host_actions.note(request.caller, name, text)
        except (Invalid, Conflict) as refused:
            error = refused
        else:
            reported = (
                gettext("Note saved. It appears on the host's page and in the list of hosts.") if text.strip() else ""
            )
            leave_note(request, reported or gettext("Note removed."), "good")
            return redirect("host", name)
    context = {
        "caller": request.caller,
        "name": name,
        "note": text,
        "why_not": "" if drains.is_out_of_service(service) else drains.IN_SERVICE,
        "problem": error.message if error else "",
        "longest": drains.LONGEST_NOTE,
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(request, "hosts/note.html", context, status=status)


def _form(
    request: PageRequest, name: str, action: host_actions.AvailableAction, error: NovellaError | None
) -> HttpResponse:
    context = {
        "caller": request.caller,
        "name": name,
        "back": reverse("host", args=[name]),
        "action": action,
        "form": {field: request.POST.get(field, "") for field in FIELDS},
        "problem": error.message if error else "",
        "wrong": error.details.get("field", "") if error else "",
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(request, "hosts/confirm.html", context, status=status)


def page_context(caller: RequestContext, name: str) -> dict[str, Any]:
    """Context of the live part. Raises NotFound."""
    found = host_details.get(caller, name)
    names = lists.project_names(caller, {server.project_id for server in found.guests.items})
    return {
        "caller": caller,
        "host": found,
        "badge": badge_of(found),
        "sentence": _sentence(found),
        "canary": canaries.news(caller, name),
        "actions": host_actions.list_actions(caller, name),
        "stocks": [_stock(stock) for stock in found.stocks],
        "guests": [
            GuestRow(server, status_badges.of_server(server), names.get(server.project_id, server.project_id))
            for server in found.guests.items
        ],
        "runs": [presenter.of(run) for run in found.runs],
        "project_names": lists.project_names(caller, {run.project_id for run in found.runs}),
        "is_draining": found.state == "draining",
        "takes_note": drains.is_out_of_service(found.service),
    }


def badge_of(found: HostDetail) -> StatusBadge:
    """Return the badge of a host's state, with the reason beside it."""
    badge = fleet_drawing.BADGES[found.state]
    if found.service.is_forced_down:
        return StatusBadge(badge.tone, badge.word, "marked by an operator")
    return StatusBadge(badge.tone, badge.word, found.service.disabled_reason or "" if found.service.is_disabled else "")


def _sentence(found: HostDetail) -> str:
    """Return the state of a host in a sentence."""
    count = len(found.guests.items)
    servers = (
        ngettext("%(count)s server", "%(count)s servers", count) % {"count": count} if count else gettext("no servers")
    )
    if found.guests.has_more:
        servers = gettext("more than %(servers)s") % {"servers": servers}
    reported = {
        "up": gettext("The host is enabled and has %(servers)s."),
        "draining": gettext("The host is draining and has %(servers)s."),
        "closed": gettext("The host is disabled and has %(servers)s."),
        "down": gettext("The host doesn't respond and has %(servers)s."),
    }
    return reported.get(found.state, gettext("The host's state is unknown. It has %(servers)s.")) % {"servers": servers}


def _stock(stock: ClassInventory) -> InventoryRow:
    amount = large_megabytes if stock.resource_class == "MEMORY_MB" else _plain
    unit = " GB" if stock.resource_class == "DISK_GB" else ""
    details = [gettext("%(amount)s physical") % {"amount": f"{amount(stock.total)}{unit}"}]
    if stock.reserved:
        details.append(gettext("%(amount)s reserved") % {"amount": f"{amount(stock.reserved)}{unit}"})
    if stock.ratio != 1:
        details.append(gettext("%(times)s× overcommit") % {"times": short(stock.ratio)})
    title = gettext(CLASS_WORDS.get(stock.resource_class, stock.resource_class))
    if stock.provider:
        title = gettext("%(what)s of %(provider)s") % {"what": title, "provider": stock.provider}
    words = gettext("%(some)s of %(all)s") % {"some": amount(stock.used), "all": f"{amount(stock.capacity)}{unit}"}
    return InventoryRow(title, words, stock.share, ", ".join(details))


def _plain(value: float) -> str:
    return whole(value)
