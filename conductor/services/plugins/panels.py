"""Panels that plugins add to the pages of servers and hosts, with a time limit. A failed one is shown as failed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conductor.core.context import RequestContext
from conductor.core.errors import NovellaError
from conductor.core.extensions import HOST, SERVER, PageSubject, Panel, PanelData
from conductor.core.frozen import FrozenDict
from conductor.scheduler.active_plugins import ExtensionFailed, InUse, in_use
from conductor.services.fleet.host_details import HostDetail
from conductor.services.servers.types import InstanceData

ALL_SECONDS = 2.0  # time limit of all panels of a page together
LONGEST = 500
MOST_ROWS = 100


@dataclass(frozen=True)
class PanelView:
    """A panel. `problem` is the error for operators. Others see only that it failed."""

    name: str
    title: str
    pairs: Sequence[tuple[str, str]] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""
    problem: str = ""


def shown(context: RequestContext, subject: PageSubject) -> list[PanelView]:
    """Return the panels for a page, in the operator's order. Never raises."""
    views, cards = [], in_use(Panel.kind)
    began = time.monotonic()
    for one in cards:
        panel = one.extension
        if not isinstance(panel, Panel) or panel.place != subject.place:
            continue
        if panel.for_operators and not context.is_admin:
            continue
        if time.monotonic() - began > ALL_SECONDS:
            views.append(_failed(context, panel, "no time was left for it"))
            continue
        view = _asked(context, one, panel, subject)
        if view is not None:
            views.append(view)
    return views


def _asked(context: RequestContext, one: InUse, panel: Panel, subject: PageSubject) -> PanelView | None:
    try:
        data = one.ask(subject, check=_wrong)
    except ExtensionFailed as failure:
        return _failed(context, panel, str(failure))
    except NovellaError as error:  # the message of our own errors is meant for users
        return PanelView(panel.name, panel.title or panel.name, note=error.message[:LONGEST])
    if data is None:
        return None
    return PanelView(
        panel.name,
        panel.title or panel.name,
        pairs=[(label[:LONGEST], value[:LONGEST]) for label, value in data.pairs],
        columns=[name[:LONGEST] for name in data.columns],
        rows=[[cell[:LONGEST] for cell in row] for row in data.rows[:MOST_ROWS]],
        note=data.note[:LONGEST],
    )


def _failed(context: RequestContext, panel: Panel, why: str) -> PanelView:
    return PanelView(panel.name, panel.title or panel.name, problem=why if context.is_admin else "it failed")


def _wrong(answer: Any) -> str:
    if answer is None:
        return ""
    if not isinstance(answer, PanelData):
        return f"returned {type(answer).__name__} instead of PanelData"
    try:
        texts = [answer.note, *answer.columns, *(cell for row in answer.rows for cell in row)]
        texts += [text for label, value in answer.pairs for text in (label, value)]
        is_table = all(len(row) == len(answer.columns) for row in answer.rows)
    except (TypeError, ValueError):
        return "returned malformed pairs or rows"
    if not all(isinstance(text, str) for text in texts):
        return "returned values that are no texts"
    return "" if is_table else "returned a row without exactly one cell for each column"


def of_server(context: RequestContext, server: InstanceData) -> list[PanelView]:
    """Return panels for the page of a server. Only operators' panels get the server's host."""
    facts = {
        "status": str(server.vm_state),
        "flavor": server.flavor.name,
        "metadata": dict(server.metadata),
        "addresses": [port.get("ip_address") or "" for port in server.addresses],
        "host": server.host or "",
    }
    if not context.is_admin:
        del facts["host"]
    return shown(context, PageSubject(SERVER, server.uuid, server.name, server.project_id, FrozenDict(facts)))


def of_host(context: RequestContext, host: HostDetail) -> list[PanelView]:
    """Return panels for the page of a host."""
    facts = {"cell": host.service.cell, "zone": host.service.zone, "traits": tuple(host.traits)}
    return shown(context, PageSubject(HOST, host.name, host.name, facts=FrozenDict(facts)))
