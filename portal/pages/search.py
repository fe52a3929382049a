"""Search in everything: pages, actions, servers, workflows, hosts and every kind of resource."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from conductor.core.errors import NovellaError
from conductor.core.identifiers import uuid_or_none
from conductor.services.hosts import hosts
from conductor.services.servers import permitted_actions, queries
from conductor.services.servers.types import InstanceQuery
from conductor.services.workflows import lists
from portal.pages import navigation, policies, status_badges
from portal.pages.permissions import PageRequest, may_change, signed_in
from portal.pages.resource_pages import views
from portal.pages.resource_pages.catalog import RESOURCES, may_do
from portal.pages.resources.model import Resource
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import presenter
from portal.pages.wording import action_on

MOST_OF_A_KIND = 5
MOST_LOOKED_AT = 50  # servers to check for a state that allows the action
SHORTEST_VERB = 3
LONGEST = 100
SECONDS = 0.6  # then the remaining kinds are not searched, but linked


@dataclass(frozen=True)
class Hit:
    """A result."""

    name: str
    url: str
    icon: str
    detail: str = ""
    badge: StatusBadge | None = None


@dataclass(frozen=True)
class SearchGroup:
    """Results of one kind; `more_url` links to the whole list."""

    title: str
    hits: list[Hit]
    more_url: str = ""


@require_safe
@signed_in
def search(request: PageRequest) -> HttpResponse:
    """Show the page; for the command palette only the results."""
    text = request.GET.get("q", "").replace("\x00", "").strip()[:LONGEST]
    missing_cells: dict[str, str] = {}
    groups, unasked = found(request, text, missing_cells)
    context = {
        "text": text,
        "search_text": text,
        "groups": groups,
        "unasked": unasked,
        "missing_cells": missing_cells,
        "is_palette": bool(request.htmx),
    }
    return render(request, "_search.html" if request.htmx else "search.html", context)


def found(request: PageRequest, text: str, missing_cells: dict[str, str]) -> tuple[list[SearchGroup], list[Hit]]:
    """Return the groups with results, and links to the lists that were not searched in time.

    Cells that did not answer are added to `missing_cells`.
    """
    groups = [SearchGroup("Go to", _places(request, text)), SearchGroup("Do", _actions(request, text))]
    unasked: list[Hit] = []
    if text:
        deadline = time.monotonic() + SECONDS
        groups += [SearchGroup("Actions", _server_actions(request, text))]
        groups += [SearchGroup("Servers", _servers(request, text, missing_cells), _more("servers", name=text))]
        groups += [SearchGroup("Workflows", _workflows(request, text))]
        if request.caller.is_admin:
            groups += [SearchGroup("Hosts", _hosts(request, text))]
        for resource in (one for one in RESOURCES if policies.may(request.caller, one.service, one.rule)):
            url = f"{views.list_url(resource)}?{urlencode({'q': text})}"
            if time.monotonic() > deadline:
                unasked.append(Hit(gettext(resource.title), url, resource.icon))
            else:
                groups.append(SearchGroup(resource.title, _resources(request, resource, text), url))
    return [group for group in groups if group.hits], unasked


def _matches(text: str, name: str) -> bool:
    """Whether each typed word is the beginning of a word in the name."""
    return all(re.search(rf"\b{re.escape(word)}", name, re.IGNORECASE) for word in text.split())


def _places(request: PageRequest, text: str) -> list[Hit]:
    places = [
        Hit(gettext(place.name), place.url, place.icon, place.keys)
        for place in navigation.PLACES
        if request.caller.is_admin or not place.is_for_operators
    ]
    places.append(Hit(gettext("Profile"), reverse("profile"), "user"))
    places.append(Hit(gettext("Change project"), reverse("project"), "project"))
    wanted = [hit for hit in places if _matches(text, hit.name)]
    return wanted[:MOST_OF_A_KIND] if text else wanted


def _actions(request: PageRequest, text: str) -> list[Hit]:
    """Return creations: other actions need an existing resource."""
    actions = [Hit(gettext("Launch server"), reverse("launch"), "plus", "c")] if may_change(request.caller) else []
    for resource in RESOURCES:
        for action in resource.actions:
            if action.is_creation and may_do(request.caller, resource, action):
                title, kind = gettext(action.title), gettext(resource.title)
                actions.append(Hit(title, views.action_url(resource, action), "plus", kind))
    wanted = [hit for hit in actions if _matches(text, f"{hit.name} {hit.detail}")]
    return wanted[:MOST_OF_A_KIND] if text else wanted


def _server_actions(request: PageRequest, text: str) -> list[Hit]:
    """Return actions on servers, found by verb and name: "stop web-1", "confirm resize"."""
    words = text.lower().split()
    if not words or len(words[0]) < SHORTEST_VERB:
        return []
    hits: list[Hit] = []
    for action, kind in permitted_actions.KINDS.items():
        title = gettext(kind.title)
        verb = _leading(words, title.lower().split())
        if verb and permitted_actions.may_use(request.caller, action):
            hits += _allowed(request, action, title, " ".join(text.split()[verb:]))
    return hits[:MOST_OF_A_KIND]


def _leading(words: list[str], title: list[str]) -> int:
    """Return how many of the first typed words begin the words of an action's title, in order."""
    pairs = zip(words, title, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[1].startswith(pair[0]), pairs))


def _allowed(request: PageRequest, action: str, title: str, name: str) -> Iterable[Hit]:
    """Yield servers with this part in their name whose state allows the action."""
    states = permitted_actions.KINDS[action].states()

    def ask() -> Iterable[Hit]:
        filters = {"name": re.escape(name)} if name else {}
        query = InstanceQuery(filters=filters, limit=MOST_LOOKED_AT, with_partial=False)
        for server in queries.list_page(request.caller, query).items:
            if server.vm_state in states:
                url = f"{reverse('act-on-servers', args=[action])}?{urlencode({'server': server.uuid})}"
                yield Hit(f"{title}: {server.name}", url, "server", badge=status_badges.of_server(server))

    return _answered(ask)


def _servers(request: PageRequest, text: str, missing_cells: dict[str, str]) -> list[Hit]:
    def ask() -> Iterable[Hit]:
        if uuid_or_none(text):
            servers = [queries.get(request.caller, text)]
        else:
            query = InstanceQuery(filters={"name": re.escape(text)}, limit=MOST_OF_A_KIND)
            page = queries.list_page(request.caller, query)
            missing_cells.update(page.missing_cells)
            servers = page.items
        for server in servers:
            yield Hit(
                server.name, reverse("server", args=[server.uuid]), "server", badge=status_badges.of_server(server)
            )

    return _answered(ask)


def _workflows(request: PageRequest, text: str) -> list[Hit]:
    runs = map(presenter.of, lists.named(request.caller, text, MOST_OF_A_KIND))
    return [
        Hit(
            action_on(run.intent, run.subject),
            reverse("workflow", args=[run.uuid]),
            "workflow",
            run.uuid[:8],
            run.badge,
        )
        for run in runs
    ]


def _hosts(request: PageRequest, text: str) -> list[Hit]:
    services = hosts.list_services(request.caller, binary="nova-compute").items
    names = sorted({one.host for one in services if text.lower() in one.host.lower()})
    return [Hit(name, f"{reverse('hosts')}#host-{name}", "host") for name in names[:MOST_OF_A_KIND]]


def _resources(request: PageRequest, resource: Resource, text: str) -> list[Hit]:
    def ask() -> Iterable[Hit]:
        items = [views.item_of(request, resource, text)] if uuid_or_none(text) else views.find(request, resource, text)
        for item in items[:MOST_OF_A_KIND]:
            ident = resource.id_of(item)
            yield Hit(resource.name_of(item) or ident[:8], views.item_url(resource, ident), resource.icon)

    return _answered(ask)


def _answered(ask: Callable[[], Iterable[Hit]]) -> list[Hit]:
    """Return the results; none for a kind that has none or fails, so that others are still shown."""
    try:
        return list(ask())
    except NovellaError:
        return []


def _more(route: str, **query: str) -> str:
    return f"{reverse(route)}?{urlencode(query)}"
