"""Actions on servers from their page or the list: confirmed once, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound, NotSupported, QuotaExceeded
from conductor.services.audit import audit
from conductor.services.hosts import hosts
from conductor.services.server_migrations import live_migrations, resizes
from conductor.services.servers import (
    actions,
    build_retries,
    instances,
    launch_options,
    locking,
    permitted_actions,
    rebuilds,
    server_images,
)
from conductor.services.servers.permitted_actions import AvailableServerAction
from conductor.services.servers.rebuilds import RebuildRequest
from conductor.services.servers.types import InstanceData
from portal.pages import server_queries
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, members_only
from portal.pages.servers.bulk_outcomes import ServerResult, page_of

REFUSALS = (Conflict, Forbidden, Invalid, NotSupported, QuotaExceeded)
Values = Mapping[str, str]
Do = Callable[[RequestContext, str, Values], str | None]


@dataclass(frozen=True)
class ActionTarget:
    """A server, and whether the action is available for it."""

    server: InstanceData
    choice: AvailableServerAction


def _begin(name: str) -> Do:
    return lambda caller, uuid, values: actions.begin(caller, uuid, name)


def _rescue(caller: RequestContext, uuid: str, values: Values) -> str:
    return rebuilds.rescue(caller, uuid, image_ref=values.get("image", ""), admin_password=values.get("password", ""))


def _rebuild(caller: RequestContext, uuid: str, values: Values) -> str:
    named = {"name": values["name"]} if values.get("name") else {}
    image_ref = values.get("image") or instances.get(caller, uuid).image.image_id
    return rebuilds.rebuild(caller, uuid, RebuildRequest(image_ref=image_ref, values=named))


def _change_password(caller: RequestContext, uuid: str, values: Values) -> str:
    if not values.get("password"):
        raise Invalid("Enter the new password.", field="password")
    return rebuilds.change_password(caller, uuid, values["password"])


def _destination(caller: RequestContext, values: Values) -> str:
    """Return the host in the form. Only operators may choose it, as in the Compute API."""
    host = values.get("host", "")
    if host and not caller.is_admin:
        raise Forbidden(gettext("Only administrators can select the host for a migration."))
    return host


ACTIONS: Mapping[str, Do] = {
    **{name: _begin(kind.action) for name, kind in permitted_actions.KINDS.items() if kind.action},
    "confirm-resize": lambda caller, uuid, values: resizes.confirm(caller, uuid),
    "revert-resize": lambda caller, uuid, values: resizes.revert(caller, uuid),
    "shelve": lambda caller, uuid, values: server_images.shelve(caller, uuid),
    "unshelve": lambda caller, uuid, values: server_images.unshelve(caller, uuid),
    "shelve-offload": lambda caller, uuid, values: server_images.offload(caller, uuid),
    "migrate": lambda caller, uuid, values: resizes.migrate(caller, uuid, _destination(caller, values)),
    "live-migrate": lambda caller, uuid, values: live_migrations.begin(caller, uuid, _destination(caller, values)),
    "rescue": _rescue,
    "rebuild": _rebuild,
    "change-password": _change_password,
    "destroy": lambda caller, uuid, values: instances.delete(caller, uuid, is_forced=True),
    "try-again": lambda caller, uuid, values: build_retries.try_again(caller, uuid),
    "lock": lambda caller, uuid, values: locking.lock(caller, uuid, values.get("reason") or None),
    "unlock": lambda caller, uuid, values: locking.unlock(caller, uuid, may_override=caller.is_admin),
}
FIELDS = ("image", "password", "name", "reason", "host")
# The Compute API's names of audited actions.
NAMES: Mapping[str, str] = {"destroy": "forceDelete", "try-again": "tryAgain", "lock": "lock", "unlock": "unlock"}


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def act(request: PageRequest, action: str) -> HttpResponse:
    """Show a form with the servers' names; then carry out the action on each that allows it."""
    if action not in ACTIONS:
        raise Http404
    try:
        picked = server_queries.picked_of(request)
    except Invalid as error:
        leave_note(request, error.message, "waiting")
        return redirect("servers")
    targets = _targets(request.caller, picked.uuids, action)
    if not targets:
        raise Http404
    if request.method == "POST":
        return _do(request, action, targets)
    return _form(request, action, targets, has_more=picked.has_more)


def _targets(caller: RequestContext, picked: list[str], action: str) -> list[ActionTarget]:
    """Return the selected servers that the caller may act on."""
    found = []
    for uuid in picked:
        try:
            server, choice = instances.get(caller, uuid), permitted_actions.choice(caller, uuid, action)
        except NotFound:
            continue
        if choice is not None:
            found.append(ActionTarget(server, choice))
    return found


def _form(
    request: PageRequest, action: str, targets: list[ActionTarget], *, has_more: bool = False, problem: str = ""
) -> HttpResponse:
    choice = targets[0].choice
    images = launch_options.choices(request.caller).images if "image" in choice.needs else []
    context = {
        "action": action,
        "choice": choice,
        "targets": targets,
        "open_count": sum(target.choice.enabled for target in targets),
        "images": images,
        "hosts": _hosts(request.caller, targets) if "host" in choice.needs and request.caller.is_admin else [],
        "form": request.POST if request.method == "POST" else QueryDict(),
        "own_image": targets[0].server.image.image_id,
        "problem": problem,
        "has_more": has_more,
    }
    return render(request, "servers/act.html", context, status=409 if problem else 200)


def _hosts(caller: RequestContext, targets: list[ActionTarget]) -> list[str]:
    """Return hosts that the servers could move to; the scheduler checks the chosen one."""
    here = {target.server.host for target in targets}
    services = hosts.list_services(caller, binary="nova-compute").items
    return sorted({one.host for one in services} - (here if len(here) == 1 else set()))


def _do(request: PageRequest, action: str, targets: list[ActionTarget]) -> HttpResponse:
    values = {name: request.POST.get(name, "").strip()[:255] for name in FIELDS}
    problems: list[str] = []
    outcomes: list[ServerResult] = []
    for target in targets:
        try:
            ACTIONS[action](request.caller, target.server.uuid, values)
        except REFUSALS as error:
            problems.append(error.message)
            outcomes.append(ServerResult(target.server.uuid, target.server.name, error.message, is_good=False))
            name = NAMES.get(action) or permitted_actions.KINDS[action].action
            audit.record_refusal(request.caller, name, target.server.uuid, error)
        except NotFound:
            outcomes.append(ServerResult(target.server.uuid, target.server.name, gettext("Already deleted.")))
        else:
            outcomes.append(ServerResult(target.server.uuid, target.server.name))
    if problems and len(targets) == 1:
        return _form(request, action, targets, problem=problems[0])
    if len(targets) == 1:
        return redirect("server", targets[0].server.uuid)
    return page_of(request, targets[0].choice.title, outcomes, reverse("act-on-servers", args=[action]))
