"""Fragments of live pages: the same contexts and templates as the page itself, read with the viewer's rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string

from conductor.core.context import RequestContext
from conductor.core.errors import CellUnavailable, NotFound
from conductor.services.fleet import host_details
from conductor.services.servers import instances
from conductor.services.workflows import lists, workflows
from portal.pages import home
from portal.pages.hosts import cells, drain, host_page
from portal.pages.servers import server_list, servers
from portal.pages.timeline import presenter
from portal.pages.workflows import workflows as flow_pages

Render = Callable[[RequestContext, str, str], list[str]]


@dataclass(frozen=True)
class TopicKind:
    """A kind of topic: its views, its permission check, and the renderer of its fragments.

    `topics` returns the topics of the event log that feed it, and raises NotFound if the caller may not follow it.
    `is_wide` topics are about a whole project: all of its events feed them, and the changes decide whether rows are
    sent or the page reloads its list.
    """

    views: frozenset[str]
    topics: Callable[[RequestContext, str], list[str]]
    render: Render
    is_wide: bool = False
    is_reread: bool = False  # its pages have filters in their addresses, so they reload themselves
    kinds: tuple[str, ...] = field(default=())  # event kinds that matter, by prefix; empty: all


def parse(topic: str) -> tuple[TopicKind, str] | None:
    """Return the kind of a topic and its id; None for an unknown topic."""
    name, _, ident = topic.partition(":")
    kind = KINDS.get(name)
    return (kind, ident) if kind is not None and bool(ident) != kind.is_wide else None


def _fragments(templates: Sequence[str], context: Mapping[str, Any]) -> list[str]:
    return [render_to_string(template, dict(context)) for template in templates]


def _server(caller: RequestContext, server_uuid: str, view: str) -> list[str]:
    context = servers.page_context(caller, server_uuid, view)
    if context["row"].server.is_partial:
        raise CellUnavailable  # the page shows more than is known now
    return _fragments(("servers/head.html", context["body_template"]), context)


def _workflow(caller: RequestContext, run_uuid: str, view: str) -> list[str]:
    context = flow_pages.page_context(caller, run_uuid, view, is_tail=True)
    return _fragments(("workflows/head.html", "workflows/_cause.html", "workflows/_body.html"), context)


def _home(caller: RequestContext, _: str, view: str) -> list[str]:
    return _fragments(("_home.html",), home.home_context(caller))


def _cells(caller: RequestContext, _: str, view: str) -> list[str]:
    return _fragments(("hosts/_cells.html",), cells.list_context(caller))


def _host(caller: RequestContext, name: str, view: str) -> list[str]:
    if view == "drain":
        return _fragments(("hosts/_drain_run.html",), drain.run_context(caller, name))
    return _fragments(("hosts/_host.html",), host_page.page_context(caller, name))


def server_rows(caller: RequestContext, server_uuids: Sequence[str], columns: tuple[str, ...]) -> dict[str, str]:
    """Return rows of the server list by uuid; a server that is deleted or not visible has none."""
    found = []
    for uuid in server_uuids:
        try:
            found.append(instances.get(caller, uuid))
        except NotFound:
            continue
    rows = servers.with_runs(caller, [server for server in found if server.status != "DELETED"])
    context = {"caller": caller, "columns": server_list.columns_of(caller, columns)}
    return {row.server.uuid: render_to_string("servers/_row.html", {**context, "row": row}) for row in rows}


def workflow_rows(caller: RequestContext, run_uuids: Sequence[str], _: tuple[str, ...]) -> dict[str, str]:
    """Return rows of the workflow list by uuid."""
    found = workflows.briefs(caller, run_uuids)
    names = lists.project_names(caller, {run.project_id for run in found.values()})
    return {
        uuid: render_to_string(
            "workflows/_row.html", {"run": presenter.of(run), "caller": caller, "project_names": names}
        )
        for uuid, run in found.items()
    }


def _no_list(caller: RequestContext, _: str, view: str) -> list[str]:
    """Render nothing: lists are sent by row; see `server_rows` and `workflow_rows`."""
    return []


def _whole_project(caller: RequestContext, _: str) -> list[str]:
    """Return no topics: these are about the viewer's own project."""
    return []


def _of_server(caller: RequestContext, server_uuid: str) -> list[str]:
    found = instances.get(caller, server_uuid)
    return [f"server:{server_uuid}", *([f"wf:{found.run_uuid}"] if found.run_uuid else [])]


def _of_run(caller: RequestContext, run_uuid: str) -> list[str]:
    try:
        return [f"wf:{run.uuid}" for run in presenter.load(caller, run_uuid).runs]
    except CellUnavailable:
        return [f"wf:{run_uuid}"]  # the other topics are known when the cell answers again


def _of_host(caller: RequestContext, name: str) -> list[str]:
    """Return the topics of a host: its own, and those of the workflows that run on it."""
    return [f"host:{name}", *(f"wf:{uuid}" for uuid in host_details.runs_of(caller, name))]


def _for_operators(caller: RequestContext, _: str) -> list[str]:
    if not caller.is_admin:
        raise NotFound("There is no such topic.")
    return []


KINDS: Mapping[str, TopicKind] = {
    "wf": TopicKind(frozenset(flow_pages.TABS), _of_run, _workflow),
    "server": TopicKind(frozenset(servers.TABS), _of_server, _server),
    "servers": TopicKind(
        frozenset({"list"}), _whole_project, _no_list, is_wide=True, kinds=("instance.", "run.", "step.")
    ),
    "workflows": TopicKind(frozenset({"list"}), _whole_project, _no_list, is_wide=True, kinds=("run.", "step.")),
    "things": TopicKind(
        frozenset({"list", "page"}), _whole_project, _no_list, is_wide=True, is_reread=True, kinds=("run.", "instance.")
    ),
    "home": TopicKind(frozenset({"home"}), _whole_project, _home, is_wide=True, kinds=("instance.", "run.", "step.")),
    "me": TopicKind(
        frozenset({"tray"}), _whole_project, _no_list, is_wide=True, is_reread=True, kinds=("run.", "notice.")
    ),
    "hosts": TopicKind(frozenset({"list"}), _for_operators, _no_list, is_wide=True, is_reread=True, kinds=("host.",)),
    "cells": TopicKind(frozenset({"list"}), _for_operators, _cells, is_wide=True, kinds=("host.", "cell.")),
    "services": TopicKind(
        frozenset({"list"}), _for_operators, _no_list, is_wide=True, is_reread=True, kinds=("host.",)
    ),
    "host": TopicKind(frozenset({"page", "drain"}), _of_host, _host),
    "drains": TopicKind(
        frozenset({"list"}), _for_operators, _no_list, is_wide=True, is_reread=True, kinds=("host.", "run.")
    ),
    "triage": TopicKind(
        frozenset({"list", "count"}),
        _for_operators,
        _no_list,
        is_wide=True,
        is_reread=True,
        kinds=("run.", "host.", "finding.", "triage."),
    ),
    "fleet": TopicKind(
        frozenset({"map"}), _for_operators, _no_list, is_wide=True, is_reread=True, kinds=("host.", "instance.")
    ),
}
