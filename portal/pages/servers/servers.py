"""Server pages: one server under its tabs, and deleting. The list is in `server_list`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.services.servers import instances, permitted_actions
from conductor.services.servers.types import InstanceData
from conductor.services.workflows import workflows
from conductor.services.workflows.types import RunView
from portal.pages import server_queries, status_badges
from portal.pages.live_marks import live_marks
from portal.pages.notes import leave_note
from portal.pages.permissions import PageRequest, may_change, members_only, signed_in
from portal.pages.servers import consoles, metrics, serial, tabs
from portal.pages.servers.bulk_outcomes import ServerResult, page_of
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import presenter
from portal.pages.timeline.presenter import WorkflowPresenter

CONSOLE_LINES = 500


@dataclass(frozen=True)
class StepMark:
    """A step of a task, drawn as a short bar; shares of the whole."""

    start: float
    length: float
    is_past: bool


@dataclass(frozen=True)
class ServerRow:
    """A server with its running workflow."""

    server: InstanceData
    run: RunView | None = None

    @property
    def badge(self) -> StatusBadge:
        return status_badges.of_server(self.server)

    @property
    def task(self) -> str:
        """The current step in words; empty without one."""
        return self.run.step_title if self.run is not None and status_badges.is_live(self.run) else ""

    @property
    def pips(self) -> list[StepMark]:
        if self.run is None or not self.run.step_count:
            return []
        share = 1 / self.run.step_count
        return [
            StepMark(number * share, share * 0.82, number < self.run.step_number)
            for number in range(self.run.step_count)
        ]


def with_runs(caller: RequestContext, servers: list[InstanceData]) -> list[ServerRow]:
    """Return rows with running workflows, in a fixed number of queries."""
    busy = [server.run_uuid for server in servers if server.run_uuid]
    runs = workflows.briefs(caller, busy)
    return [ServerRow(server, runs.get(server.run_uuid)) for server in servers]


@require_safe
@signed_in
def server(request: PageRequest, server_uuid: str, tab: str = "overview") -> HttpResponse:
    """Show a server; every tab has an address of its own."""
    if tab not in TABS:
        raise Http404
    marks = live_marks(f"server:{server_uuid}", tab)
    context = {**marks, **page_context(request.caller, server_uuid, tab)}
    if tab == "console":
        context |= consoles.pane_context(request.caller, server_uuid)
    return render(request, "servers/page.html", context)


def page_context(caller: RequestContext, server_uuid: str, tab: str) -> dict[str, Any]:
    """Context of a server's page. Raises NotFound."""
    found = instances.get(caller, server_uuid)
    row = with_runs(caller, [found])[0]
    _, template, extra = TABS[tab]
    choices = permitted_actions.choices(caller, server_uuid)
    enabled = [choice for choice in choices if choice.enabled]
    return {
        "caller": caller,
        "row": row,
        "settling": [choice for choice in enabled if choice.id in SETTLING],
        "confirm_seconds": int(settings.NOVELLA_RESIZE_CONFIRM_SECONDS),
        "offered": [choice for choice in enabled if choice.id in NEAR],
        "further": [choice for choice in enabled if choice.id not in NEAR | SETTLING],
        "not_available": [choice for choice in choices if not choice.enabled],
        "can_delete": may_change(caller) and found.task_state != "deleting" and found.status != "DELETED",
        "tabs": [
            {"name": name, "url": _tab_url(server_uuid, key), "is_here": key == tab} for key, (name, *_) in TABS.items()
        ],
        "body_template": template,
        **_undo(),
        **extra(caller, row),
    }


def _tab_url(server_uuid: str, tab: str) -> str:
    return (
        reverse("server", args=[server_uuid]) if tab == "overview" else reverse("server-tab", args=[server_uuid, tab])
    )


def _overview(caller: RequestContext, row: ServerRow) -> dict[str, Any]:
    run = None
    if row.run is not None and (status_badges.is_live(row.run) or row.server.status == "ERROR"):
        run = presenter.load(caller, row.run.uuid)
    return {"run": run, "state_summary": _state_summary(row, run)}


def _state_summary(row: ServerRow, run: WorkflowPresenter | None) -> str:
    """Return the state in a sentence."""
    word = gettext(row.badge.word).capitalize()
    if run is not None and run.is_live:
        return f"{word}: {run.step_words or gettext('about to begin')}."
    if row.server.is_partial:
        return gettext("Unknown: the server's cell doesn't respond.")
    if row.server.status == "ACTIVE" and row.server.launched_at:
        return gettext("%(state)s: the server is running.") % {"state": word}
    return f"{word}."


def _activity(caller: RequestContext, row: ServerRow) -> dict[str, Any]:
    return {"runs": [presenter.of(run) for run in workflows.for_instance(caller, row.server.uuid)]}


def _console(caller: RequestContext, row: ServerRow) -> dict[str, Any]:
    try:
        text = serial.readable(instances.console_output(caller, row.server.uuid, CONSOLE_LINES))
    except (Conflict, NotFound) as error:
        return {"text": "", "line_count": 0, "why_empty": error.message}
    why = (
        ("The console is empty. The server hasn't written anything yet.")
        if row.badge.tone != "bad"
        else ("The server never wrote to its console.")
    )
    return {"text": text, "line_count": len(text.splitlines()), "why_empty": why}


# Frequent actions are beside the name; the others are in a menu, each with a description.
NEAR = frozenset(
    {"start", "stop", "reboot", "unpause", "resume", "unshelve", "unrescue", "restore", "try-again", "unlock"}
)
# A resize waits for one of these; they are in the page's banner.
SETTLING = frozenset({"confirm-resize", "revert-resize"})

Extra = Callable[[RequestContext, ServerRow], dict[str, Any]]


def _of(read: Callable[[RequestContext, InstanceData], dict[str, Any]]) -> Extra:
    return lambda caller, row: read(caller, row.server)


TABS: Mapping[str, tuple[str, str, Extra]] = {
    "overview": ("Overview", "servers/_overview.html", _overview),
    "console": ("Console", "servers/_console.html", _console),
    "activity": ("Activity", "servers/_activity.html", _activity),
    "volumes": ("Volumes", "servers/_volumes.html", _of(tabs.volumes_of)),
    "network": ("Network", "servers/_network.html", _of(tabs.network_of)),
    "snapshots": ("Snapshots", "servers/_snapshots.html", _of(tabs.images_of)),
    "metrics": ("Metrics", "servers/_metrics.html", _of(metrics.metrics_of)),
    "metadata": ("Metadata and tags", "servers/_metadata.html", _of(tabs.words_of)),
    "placement": ("Placement", "servers/_placement.html", _of(tabs.placement_of)),
    "topology": ("Topology", "servers/_topology.html", _of(tabs.topology_of)),
    "danger": ("Danger zone", "servers/_danger.html", _of(tabs.danger_of)),
}


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def delete_servers(request: PageRequest) -> HttpResponse:
    """Ask once, by name; then delete. A server that is already deleted is no error."""
    try:
        picked = server_queries.picked_of(request)
    except Invalid as error:
        leave_note(request, error.message, "waiting")
        return redirect("servers")
    if request.method == "POST":
        return _delete(request, picked.uuids)
    found = [one for one in (_get_or_none(request.caller, uuid) for uuid in picked.uuids) if one is not None]
    if not found:
        raise Http404
    context = {"servers": with_runs(request.caller, found), "has_more": picked.has_more, **_undo()}
    return render(request, "servers/delete.html", context)


def _undo() -> dict[str, int]:
    """Return how long a deletion can be undone; 0 for not at all."""
    return {"undo_seconds": int(settings.NOVELLA_RECLAIM_SECONDS)}


def _delete(request: PageRequest, picked: list[str]) -> HttpResponse:
    outcomes = [_deleted(request.caller, uuid) for uuid in picked]
    if len(picked) > 1:
        return page_of(request, gettext("Delete"), outcomes, reverse("delete-servers"))
    for outcome in outcomes:
        if not outcome.is_good:
            leave_note(request, outcome.message, "bad")
    if len(picked) == 1 and _get_or_none(request.caller, picked[0]) is not None:
        return redirect("server", picked[0])
    return redirect("servers")


def _deleted(caller: RequestContext, uuid: str) -> ServerResult:
    """Return the result for one server; success if it is already deleted."""
    found = _get_or_none(caller, uuid)
    name = found.name if found is not None else uuid[:8]
    try:
        instances.delete(caller, uuid)
    except NotFound:
        return ServerResult(uuid, name, gettext("Already deleted."))
    except Conflict as error:
        return ServerResult(uuid, name, error.message, is_good=False)
    return ServerResult(uuid, name)


def _get_or_none(caller: RequestContext, uuid: str) -> InstanceData | None:
    try:
        return instances.get(caller, uuid)
    except NotFound:
        return None
