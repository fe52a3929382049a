"""Server pages: one server under its tabs, and deleting. The list is in `server_list`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound
from conductor.services import flows, instances, server_choices
from conductor.services.values import InstanceView, RunView
from portal.pages import consoles, faces, metrics, serial, server_queries, server_tabs, stories
from portal.pages.access import PageRequest, may_change, members_only, signed_in
from portal.pages.faces import Face
from portal.pages.live_marks import live_marks
from portal.pages.server_outcomes import Outcome, page_of
from portal.pages.stories import Story

CONSOLE_LINES = 500


@dataclass(frozen=True)
class Pip:
    """One step of a task, drawn as a short bar; shares of the whole."""

    start: float
    length: float
    is_past: bool


@dataclass(frozen=True)
class ServerRow:
    """A server beside what is under way on it."""

    server: InstanceView
    run: RunView | None = None

    @property
    def face(self) -> Face:
        return faces.of_server(self.server)

    @property
    def task(self) -> str:
        """The step that is under way, in words; empty when there is none."""
        return self.run.step_title if self.run is not None and faces.is_live(self.run) else ""

    @property
    def pips(self) -> list[Pip]:
        if self.run is None or not self.run.step_count:
            return []
        share = 1 / self.run.step_count
        return [
            Pip(number * share, share * 0.82, number < self.run.step_number) for number in range(self.run.step_count)
        ]


def with_runs(asker: RequestContext, servers: list[InstanceView]) -> list[ServerRow]:
    """Rows with what is under way, for any number of servers in the same few queries."""
    busy = [server.run_uuid for server in servers if server.run_uuid]
    runs = flows.briefs(asker, busy)
    return [ServerRow(server, runs.get(server.run_uuid)) for server in servers]


@require_safe
@signed_in
def server(request: PageRequest, server_uuid: str, tab: str = "overview") -> HttpResponse:
    """One server; every tab has its own address."""
    if tab not in TABS:
        raise Http404
    marks = live_marks(f"server:{server_uuid}", tab)
    context = {**marks, **page_context(request.asker, server_uuid, tab)}
    if tab == "console":
        context |= consoles.desk(request.asker, server_uuid)
    return render(request, "servers/page.html", context)


def page_context(asker: RequestContext, server_uuid: str, tab: str) -> dict[str, Any]:
    """Context of a server's page. Raises NotFound."""
    found = instances.get(asker, server_uuid)
    row = with_runs(asker, [found])[0]
    _, template, extra = TABS[tab]
    choices = server_choices.choices(asker, server_uuid)
    enabled = [choice for choice in choices if choice.enabled]
    return {
        "asker": asker,
        "row": row,
        "settling": [choice for choice in enabled if choice.id in SETTLING],
        "confirm_seconds": int(settings.NOVELLA_RESIZE_CONFIRM_SECONDS),
        "offered": [choice for choice in enabled if choice.id in NEAR],
        "further": [choice for choice in enabled if choice.id not in NEAR | SETTLING],
        "not_offered": [choice for choice in choices if not choice.enabled],
        "can_delete": may_change(asker) and found.task_state != "deleting" and found.status != "DELETED",
        "tabs": [
            {"name": name, "url": _tab_url(server_uuid, key), "is_here": key == tab} for key, (name, *_) in TABS.items()
        ],
        "body_template": template,
        **_undo(),
        **extra(asker, row),
    }


def _tab_url(server_uuid: str, tab: str) -> str:
    return (
        reverse("server", args=[server_uuid]) if tab == "overview" else reverse("server-tab", args=[server_uuid, tab])
    )


def _overview(asker: RequestContext, row: ServerRow) -> dict[str, Any]:
    run = None
    if row.run is not None and (faces.is_live(row.run) or row.server.status == "ERROR"):
        run = stories.load(asker, row.run.uuid)
    return {"run": run, "story": _story(row, run)}


def _story(row: ServerRow, run: Story | None) -> str:
    """The state in one sentence."""
    word = gettext(row.face.word).capitalize()
    if run is not None and run.is_live:
        return f"{word}: {run.step_words or gettext('about to begin')}."
    if row.server.is_partial:
        return gettext("Unknown: its cell does not answer.")
    if row.server.status == "ACTIVE" and row.server.launched_at:
        return gettext("%(state)s: the guest runs.") % {"state": word}
    return f"{word}."


def _activity(asker: RequestContext, row: ServerRow) -> dict[str, Any]:
    return {"runs": [stories.of(run) for run in flows.for_instance(asker, row.server.uuid)]}


def _console(asker: RequestContext, row: ServerRow) -> dict[str, Any]:
    try:
        text = serial.readable(instances.console_output(asker, row.server.uuid, CONSOLE_LINES))
    except (Conflict, NotFound) as error:
        return {"text": "", "line_count": 0, "why_empty": error.message}
    why = "The guest has not written anything yet." if row.face.tone != "bad" else "The guest never wrote anything."
    return {"text": text, "line_count": len(text.splitlines()), "why_empty": why}


# What one reaches for every day stands beside the name; the rest is one click away, each with what it does.
NEAR = frozenset(
    {"start", "stop", "reboot", "unpause", "resume", "unshelve", "unrescue", "restore", "try-again", "unlock"}
)
# A resize waits for one of these; the banner of the page has them.
SETTLING = frozenset({"confirm-resize", "revert-resize"})

Extra = Callable[[RequestContext, ServerRow], dict[str, Any]]


def _of(read: Callable[[RequestContext, InstanceView], dict[str, Any]]) -> Extra:
    return lambda asker, row: read(asker, row.server)


TABS: Mapping[str, tuple[str, str, Extra]] = {
    "overview": ("Overview", "servers/_overview.html", _overview),
    "console": ("Console", "servers/_console.html", _console),
    "activity": ("Activity", "servers/_activity.html", _activity),
    "volumes": ("Volumes", "servers/_volumes.html", _of(server_tabs.volumes_of)),
    "network": ("Network", "servers/_network.html", _of(server_tabs.network_of)),
    "snapshots": ("Snapshots", "servers/_snapshots.html", _of(server_tabs.images_of)),
    "metrics": ("Metrics", "servers/_metrics.html", _of(metrics.metrics_of)),
    "metadata": ("Metadata and tags", "servers/_metadata.html", _of(server_tabs.words_of)),
    "placement": ("Placement", "servers/_placement.html", _of(server_tabs.placement_of)),
    "topology": ("Topology", "servers/_topology.html", _of(server_tabs.topology_of)),
    "danger": ("Danger zone", "servers/_danger.html", _of(server_tabs.danger_of)),
}


@require_http_methods(["GET", "HEAD", "POST"])
@members_only
def delete_servers(request: PageRequest) -> HttpResponse:
    """Asks once, by name; then deletes. One that is gone meanwhile is no error: that is what was wanted."""
    try:
        picked = server_queries.picked_of(request)
    except Invalid as error:
        messages.add_message(request, messages.INFO, error.message, extra_tags="waiting")
        return redirect("servers")
    if request.method == "POST":
        return _delete(request, picked.uuids)
    found = [one for one in (_get_or_none(request.asker, uuid) for uuid in picked.uuids) if one is not None]
    if not found:
        raise Http404
    context = {"servers": with_runs(request.asker, found), "has_more": picked.has_more, **_undo()}
    return render(request, "servers/delete.html", context)


def _undo() -> dict[str, int]:
    """For how long a deletion can be undone; 0 for not at all."""
    return {"undo_seconds": int(settings.NOVELLA_RECLAIM_SECONDS)}


def _delete(request: PageRequest, picked: list[str]) -> HttpResponse:
    outcomes = [_deleted(request.asker, uuid) for uuid in picked]
    if len(picked) > 1:
        return page_of(request, gettext("Delete"), outcomes, reverse("delete-servers"))
    for outcome in outcomes:
        if not outcome.is_good:
            messages.add_message(request, messages.INFO, outcome.message, extra_tags="bad")
    if len(picked) == 1 and _get_or_none(request.asker, picked[0]) is not None:
        return redirect("server", picked[0])
    return redirect("servers")


def _deleted(asker: RequestContext, uuid: str) -> Outcome:
    """What became of one; one that is gone is as it was wanted."""
    found = _get_or_none(asker, uuid)
    name = found.name if found is not None else uuid[:8]
    try:
        instances.delete(asker, uuid)
    except NotFound:
        return Outcome(uuid, name, gettext("It was gone already."))
    except Conflict as error:
        return Outcome(uuid, name, error.message, is_good=False)
    return Outcome(uuid, name)


def _get_or_none(asker: RequestContext, uuid: str) -> InstanceView | None:
    try:
        return instances.get(asker, uuid)
    except NotFound:
        return None
