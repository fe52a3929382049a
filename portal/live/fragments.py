"""What a live page shows anew: the same contexts and templates as the page itself, read with the viewer's rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string

from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, NotFound
from conductor.services import flow_lists, flows, host_details, instances
from portal.pages import cells, drain, home, host_page, server_list, servers, stories
from portal.pages import flows as flow_pages

Render = Callable[[RequestContext, str, str], list[str]]


@dataclass(frozen=True)
class Kind:
    """One kind of topic: its views, who may follow it, and how its fragments are made.

    `topics` are those of the event log that feed it; it raises NotFound for somebody who may not follow it.
    `is_wide` topics are about a whole project: all that happens there feeds them, and what changed decides
    whether a row is sent or the page is asked to read its list again.
    """

    views: frozenset[str]
    topics: Callable[[RequestContext, str], list[str]]
    render: Render
    is_wide: bool = False
    is_reread: bool = False  # its pages are narrowed by their addresses: they are told to read themselves again
    kinds: tuple[str, ...] = field(default=())  # event kinds that matter, by prefix; empty: all


def parse(topic: str) -> tuple[Kind, str] | None:
    """The kind of a topic and the id in it; None for a topic that there is none of."""
    name, _, ident = topic.partition(":")
    kind = KINDS.get(name)
    return (kind, ident) if kind is not None and bool(ident) != kind.is_wide else None


def _fragments(templates: Sequence[str], context: Mapping[str, Any]) -> list[str]:
    return [render_to_string(template, dict(context)) for template in templates]


def _server(asker: RequestContext, server_uuid: str, view: str) -> list[str]:
    context = servers.page_context(asker, server_uuid, view)
    if context["row"].server.is_partial:
        raise CellUnavailable  # what the page shows is more than is known now
    return _fragments(("servers/head.html", context["body_template"]), context)


def _workflow(asker: RequestContext, run_uuid: str, view: str) -> list[str]:
    context = flow_pages.page_context(asker, run_uuid, view, is_tail=True)
    return _fragments(("workflows/head.html", "workflows/_cause.html", "workflows/_body.html"), context)


def _home(asker: RequestContext, _: str, view: str) -> list[str]:
    return _fragments(("_home.html",), home.home_context(asker))


def _cells(asker: RequestContext, _: str, view: str) -> list[str]:
    return _fragments(("cells/_list.html",), cells.list_context(asker))


def _host(asker: RequestContext, name: str, view: str) -> list[str]:
    if view == "drain":
        return _fragments(("hosts/_drain_run.html",), drain.run_context(asker, name))
    return _fragments(("hosts/_host.html",), host_page.page_context(asker, name))


def server_rows(asker: RequestContext, server_uuids: Sequence[str], columns: tuple[str, ...]) -> dict[str, str]:
    """Rows of the list of servers by uuid; a server that is gone, or was never to be seen, has none."""
    found = []
    for uuid in server_uuids:
        try:
            found.append(instances.get(asker, uuid))
        except NotFound:
            continue
    rows = servers.with_runs(asker, [server for server in found if server.status != "DELETED"])
    context = {"asker": asker, "columns": server_list.columns_of(asker, columns)}
    return {row.server.uuid: render_to_string("servers/_row.html", {**context, "row": row}) for row in rows}


def workflow_rows(asker: RequestContext, run_uuids: Sequence[str], _: tuple[str, ...]) -> dict[str, str]:
    """Rows of the list of workflows by uuid."""
    found = flows.briefs(asker, run_uuids)
    names = flow_lists.project_names(asker, {run.project_id for run in found.values()})
    return {
        uuid: render_to_string("workflows/_row.html", {"run": stories.of(run), "asker": asker, "project_names": names})
        for uuid, run in found.items()
    }


def _no_list(asker: RequestContext, _: str, view: str) -> list[str]:
    """Lists are sent by row; see `server_rows` and `workflow_rows`."""
    return []


def _whole_project(asker: RequestContext, _: str) -> list[str]:
    """What these topics show is the viewer's own project."""
    return []


def _of_server(asker: RequestContext, server_uuid: str) -> list[str]:
    found = instances.get(asker, server_uuid)
    return [f"server:{server_uuid}", *([f"wf:{found.run_uuid}"] if found.run_uuid else [])]


def _of_run(asker: RequestContext, run_uuid: str) -> list[str]:
    try:
        return [f"wf:{run.uuid}" for run in stories.load(asker, run_uuid).runs]
    except CellUnavailable:
        return [f"wf:{run_uuid}"]  # the others are known when its cell answers again


def _of_host(asker: RequestContext, name: str) -> list[str]:
    """Its own events, and those of the workflows that are at work there."""
    return [f"host:{name}", *(f"wf:{uuid}" for uuid in host_details.runs_of(asker, name))]


def _for_operators(asker: RequestContext, _: str) -> list[str]:
    if not asker.is_admin:
        raise NotFound("There is no such topic.")
    return []


KINDS: Mapping[str, Kind] = {
    "wf": Kind(frozenset(flow_pages.TABS), _of_run, _workflow),
    "server": Kind(frozenset(servers.TABS), _of_server, _server),
    "servers": Kind(frozenset({"list"}), _whole_project, _no_list, is_wide=True, kinds=("instance.", "run.", "step.")),
    "workflows": Kind(frozenset({"list"}), _whole_project, _no_list, is_wide=True, kinds=("run.", "step.")),
    "things": Kind(
        frozenset({"list", "page"}), _whole_project, _no_list, is_wide=True, is_reread=True, kinds=("run.", "instance.")
    ),
    "home": Kind(frozenset({"home"}), _whole_project, _home, is_wide=True, kinds=("instance.", "run.", "step.")),
    "me": Kind(frozenset({"tray"}), _whole_project, _no_list, is_wide=True, is_reread=True, kinds=("run.", "notice.")),
    "hosts": Kind(frozenset({"list"}), _for_operators, _no_list, is_wide=True, is_reread=True, kinds=("host.",)),
    "cells": Kind(frozenset({"list"}), _for_operators, _cells, is_wide=True, kinds=("host.", "cell.")),
    "services": Kind(frozenset({"list"}), _for_operators, _no_list, is_wide=True, is_reread=True, kinds=("host.",)),
    "host": Kind(frozenset({"page", "drain"}), _of_host, _host),
    "drains": Kind(
        frozenset({"list"}), _for_operators, _no_list, is_wide=True, is_reread=True, kinds=("host.", "run.")
    ),
    "triage": Kind(
        frozenset({"list", "count"}),
        _for_operators,
        _no_list,
        is_wide=True,
        is_reread=True,
        kinds=("run.", "host.", "finding.", "triage."),
    ),
    "fleet": Kind(
        frozenset({"map"}), _for_operators, _no_list, is_wide=True, is_reread=True, kinds=("host.", "instance.")
    ),
}
