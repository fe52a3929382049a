"""Doing something to servers from their page or from the list: asked once, by name, then done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NotSupported, QuotaExceeded
from conductor.services import (
    audit,
    hosts,
    instance_locks,
    instances,
    launch_choices,
    live_migrations,
    moves,
    rebuilds,
    second_tries,
    server_actions,
    server_choices,
    server_images,
)
from conductor.services.rebuilds import RebuildWish
from conductor.services.server_choices import ServerChoice
from conductor.services.values import InstanceView
from portal.pages import server_queries
from portal.pages.access import PageRequest, members_only
from portal.pages.server_outcomes import Outcome, page_of

REFUSALS = (Conflict, Forbidden, Invalid, NotSupported, QuotaExceeded)
Values = Mapping[str, str]
Do = Callable[[RequestContext, str, Values], str | None]


@dataclass(frozen=True)
class Target:
    """A server and whether the choice is open for it."""

    server: InstanceView
    choice: ServerChoice


def _begin(name: str) -> Do:
    return lambda asker, uuid, values: server_actions.begin(asker, uuid, name)


def _rescue(asker: RequestContext, uuid: str, values: Values) -> str:
    return rebuilds.rescue(asker, uuid, image_ref=values.get("image", ""), admin_password=values.get("password", ""))


def _rebuild(asker: RequestContext, uuid: str, values: Values) -> str:
    named = {"name": values["name"]} if values.get("name") else {}
    image_ref = values.get("image") or instances.get(asker, uuid).image.image_id
    return rebuilds.rebuild(asker, uuid, RebuildWish(image_ref=image_ref, values=named))


def _change_password(asker: RequestContext, uuid: str, values: Values) -> str:
    if not values.get("password"):
        raise Invalid("Type the new password.", field="password")
    return rebuilds.change_password(asker, uuid, values["password"])


def _destination(asker: RequestContext, values: Values) -> str:
    """The host that the form names. Only operators may choose it, as in the Compute API."""
    host = values.get("host", "")
    if host and not asker.is_admin:
        raise Forbidden(gettext("Only administrators may choose the host of a migration."))
    return host


DEEDS: Mapping[str, Do] = {
    **{name: _begin(kind.action) for name, kind in server_choices.KINDS.items() if kind.action},
    "confirm-resize": lambda asker, uuid, values: moves.confirm(asker, uuid),
    "revert-resize": lambda asker, uuid, values: moves.revert(asker, uuid),
    "shelve": lambda asker, uuid, values: server_images.shelve(asker, uuid),
    "unshelve": lambda asker, uuid, values: server_images.unshelve(asker, uuid),
    "shelve-offload": lambda asker, uuid, values: server_images.offload(asker, uuid),
    "migrate": lambda asker, uuid, values: moves.migrate(asker, uuid, _destination(asker, values)),
    "live-migrate": lambda asker, uuid, values: live_migrations.begin(asker, uuid, _destination(asker, values)),
    "rescue": _rescue,
    "rebuild": _rebuild,
    "change-password": _change_password,
    "destroy": lambda asker, uuid, values: instances.delete(asker, uuid, is_forced=True),
    "try-again": lambda asker, uuid, values: second_tries.try_again(asker, uuid),
    "lock": lambda asker, uuid, values: instance_locks.lock(asker, uuid, values.get("reason") or None),
    "unlock": lambda asker, uuid, values: instance_locks.unlock(asker, uuid, may_override=asker.is_admin),
}
FIELDS = ("image", "password", "name", "reason", "host")
# How the Compute API names what the audit log keeps.
NAMES: Mapping[str, str] = {"destroy": "forceDelete", "try-again": "tryAgain", "lock": "lock", "unlock": "unlock"}


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def act(request: PageRequest, action: str) -> HttpResponse:
    """A form that names the servers; then the deed, for each that allows it."""
    if action not in DEEDS:
        raise Http404
    try:
        picked = server_queries.picked_of(request)
    except Invalid as error:
        messages.add_message(request, messages.INFO, error.message, extra_tags="waiting")
        return redirect("servers")
    targets = _targets(request.asker, picked.uuids, action)
    if not targets:
        raise Http404
    if request.method == "POST":
        return _do(request, action, targets)
    return _form(request, action, targets, has_more=picked.has_more)


def _targets(asker: RequestContext, picked: list[str], action: str) -> list[Target]:
    """Those of the picked servers that the asker may act on at all."""
    found = []
    for uuid in picked:
        try:
            server, choice = instances.get(asker, uuid), server_choices.choice(asker, uuid, action)
        except NotFound:
            continue
        if choice is not None:
            found.append(Target(server, choice))
    return found


def _form(
    request: PageRequest, action: str, targets: list[Target], *, has_more: bool = False, problem: str = ""
) -> HttpResponse:
    choice = targets[0].choice
    images = launch_choices.choices(request.asker).images if "image" in choice.needs else []
    context = {
        "action": action,
        "choice": choice,
        "targets": targets,
        "open_count": sum(target.choice.enabled for target in targets),
        "images": images,
        "hosts": _hosts(request.asker, targets) if "host" in choice.needs and request.asker.is_admin else [],
        "form": request.POST if request.method == "POST" else QueryDict(),
        "own_image": targets[0].server.image.image_id,
        "problem": problem,
        "has_more": has_more,
    }
    return render(request, "servers/act.html", context, status=409 if problem else 200)


def _hosts(asker: RequestContext, targets: list[Target]) -> list[str]:
    """Hosts that the servers could move to; the scheduler checks the chosen one."""
    here = {target.server.host for target in targets}
    services = hosts.list_services(asker, binary="nova-compute").items
    return sorted({one.host for one in services} - (here if len(here) == 1 else set()))


def _do(request: PageRequest, action: str, targets: list[Target]) -> HttpResponse:
    values = {name: request.POST.get(name, "").strip()[:255] for name in FIELDS}
    problems: list[str] = []
    outcomes: list[Outcome] = []
    for target in targets:
        try:
            DEEDS[action](request.asker, target.server.uuid, values)
        except REFUSALS as error:
            problems.append(error.message)
            outcomes.append(Outcome(target.server.uuid, target.server.name, error.message, is_good=False))
            name = NAMES.get(action) or server_choices.KINDS[action].action
            audit.record_refusal(request.asker, name, target.server.uuid, error)
        except NotFound:
            outcomes.append(Outcome(target.server.uuid, target.server.name, gettext("It was gone already.")))
        else:
            outcomes.append(Outcome(target.server.uuid, target.server.name))
    if problems and len(targets) == 1:
        return _form(request, action, targets, problem=problems[0])
    if len(targets) == 1:
        return redirect("server", targets[0].server.uuid)
    return page_of(request, targets[0].choice.title, outcomes, reverse("act-on-servers", args=[action]))
