"""One host, for operators: what it has, who is there, what is under way, and what can be done to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NovellaError
from conductor.services import canaries, drains, flow_lists, host_deeds, host_details
from conductor.services.host_details import HostDetail, Stock
from conductor.services.values import InstanceView
from portal.pages import faces, fleet_drawing, stories
from portal.pages.access import PageRequest, operators_only
from portal.pages.amounts import CLASS_WORDS, large_megabytes, short, whole
from portal.pages.faces import Face
from portal.pages.live_marks import live_marks

STATUS: tuple[tuple[type[NovellaError], int], ...] = ((Invalid, 400), (Conflict, 409))
FIELDS = ("reason", "confirm")


@dataclass(frozen=True)
class GuestRow:
    """A server of the host as its page lists it."""

    server: InstanceView
    face: Face
    project: str


@dataclass(frozen=True)
class StockRow:
    """A resource class in words, with how much of it is taken."""

    title: str
    words: str
    share: float
    detail: str


@require_safe
@operators_only
def host(request: PageRequest, name: str) -> HttpResponse:
    """All that is known of a host, kept current."""
    marks = live_marks(f"host:{name}", "page")
    context = {**marks, **page_context(request.asker, name)}
    return render(request, "hosts/_host.html" if request.htmx else "hosts/host.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def host_deed(request: PageRequest, name: str, deed: str) -> HttpResponse:
    """Asks for the reason, then does it."""
    offer = host_deeds.offer(request.asker, name, deed)
    if request.method != "POST":
        return _form(request, name, offer, None)
    sent = {field: request.POST.get(field, "") for field in FIELDS}
    try:
        said = host_deeds.do(request.asker, name, deed, **sent)
    except (Invalid, Conflict) as error:
        return _form(request, name, host_deeds.offer(request.asker, name, deed), error)
    messages.add_message(request, messages.INFO, said, extra_tags="good")
    return redirect("host", name)


@require_http_methods(["GET", "HEAD", "POST"])
@operators_only
def host_note(request: PageRequest, name: str) -> HttpResponse:
    """What is done to a host that is out of service, in the operators' words."""
    service = host_details.service_of(request.asker, name)
    text, error = request.POST.get("note", service.maintenance_note), None
    if request.method == "POST":
        try:
            host_deeds.note(request.asker, name, text)
        except (Invalid, Conflict) as refused:
            error = refused
        else:
            said = gettext("The note is on the host's page and in the list of hosts.") if text.strip() else ""
            messages.add_message(request, messages.INFO, said or gettext("The note is gone."), extra_tags="good")
            return redirect("host", name)
    context = {
        "asker": request.asker,
        "name": name,
        "note": text,
        "why_not": "" if drains.is_out_of_service(service) else drains.IN_SERVICE,
        "problem": error.message if error else "",
        "longest": drains.LONGEST_NOTE,
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(request, "hosts/note.html", context, status=status)


def _form(request: PageRequest, name: str, offer: host_deeds.Offer, error: NovellaError | None) -> HttpResponse:
    context = {
        "asker": request.asker,
        "name": name,
        "back": reverse("host", args=[name]),
        "offer": offer,
        "form": {field: request.POST.get(field, "") for field in FIELDS},
        "problem": error.message if error else "",
        "wrong": error.details.get("field", "") if error else "",
    }
    status = next((code for kind, code in STATUS if isinstance(error, kind)), 200)
    return render(request, "components/deed.html", context, status=status)


def page_context(asker: RequestContext, name: str) -> dict[str, Any]:
    """Context of the live part. Raises NotFound."""
    found = host_details.get(asker, name)
    names = flow_lists.project_names(asker, {server.project_id for server in found.guests.items})
    return {
        "asker": asker,
        "host": found,
        "face": face_of(found),
        "sentence": _sentence(found),
        "canary": canaries.news(asker, name),
        "offers": host_deeds.offers(asker, name),
        "stocks": [_stock(stock) for stock in found.stocks],
        "guests": [
            GuestRow(server, faces.of_server(server), names.get(server.project_id, server.project_id))
            for server in found.guests.items
        ],
        "runs": [stories.of(run) for run in found.runs],
        "project_names": flow_lists.project_names(asker, {run.project_id for run in found.runs}),
        "is_draining": found.state == "draining",
        "takes_note": drains.is_out_of_service(found.service),
    }


def face_of(found: HostDetail) -> Face:
    """How the state of a host looks, with the reason beside it."""
    face = fleet_drawing.FACES[found.state]
    if found.service.is_forced_down:
        return Face(face.tone, face.word, "an operator says so")
    return Face(face.tone, face.word, found.service.disabled_reason or "" if found.service.is_disabled else "")


def _sentence(found: HostDetail) -> str:
    """The state of a host in a sentence."""
    count = len(found.guests.items)
    servers = (
        ngettext("%(count)s server", "%(count)s servers", count) % {"count": count} if count else gettext("no servers")
    )
    if found.guests.has_more:
        servers = gettext("more than %(servers)s") % {"servers": servers}
    said = {
        "up": gettext("It takes new servers, and has %(servers)s."),
        "draining": gettext("It is being emptied, and has %(servers)s."),
        "closed": gettext("It takes no new servers, and has %(servers)s."),
        "down": gettext("It does not answer, and has %(servers)s."),
    }
    return said.get(found.state, gettext("It is not known, and has %(servers)s.")) % {"servers": servers}


def _stock(stock: Stock) -> StockRow:
    amount = large_megabytes if stock.resource_class == "MEMORY_MB" else _plain
    unit = " GB" if stock.resource_class == "DISK_GB" else ""
    details = [gettext("%(amount)s there") % {"amount": f"{amount(stock.total)}{unit}"}]
    if stock.reserved:
        details.append(gettext("%(amount)s kept back") % {"amount": f"{amount(stock.reserved)}{unit}"})
    if stock.ratio != 1:
        details.append(gettext("given out %(times)s times") % {"times": short(stock.ratio)})
    title = gettext(CLASS_WORDS.get(stock.resource_class, stock.resource_class))
    if stock.provider:
        title = gettext("%(what)s of %(provider)s") % {"what": title, "provider": stock.provider}
    words = gettext("%(some)s of %(all)s") % {"some": amount(stock.used), "all": f"{amount(stock.capacity)}{unit}"}
    return StockRow(title, words, stock.share, ", ".join(details))


def _plain(value: float) -> str:
    return whole(value)
