"""One search for everything: places, what can be done, servers, workflows, hosts and every kind of resource."""

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
from conductor.services import hosts, instance_queries, own_flows, server_choices
from conductor.services.values import InstanceQuery
from portal.pages import faces, navigation, stories
from portal.pages.access import PageRequest, may_change, signed_in
from portal.pages.faces import Face
from portal.pages.resources import views
from portal.pages.resources.catalog import RESOURCES, may, may_do
from portal.pages.resources.model import Resource

MOST_OF_A_KIND = 5
MOST_LOOKED_AT = 50  # servers among which one is looked for that allows an action
SHORTEST_VERB = 3
LONGEST = 100
SECONDS = 0.6  # after which no further kind is asked: it is named instead, with a link that asks it


@dataclass(frozen=True)
class Hit:
    """Something that was found."""

    name: str
    url: str
    icon: str
    detail: str = ""
    face: Face | None = None


@dataclass(frozen=True)
class Group:
    """What was found of one kind; `more_url` leads to the whole list of it."""

    title: str
    hits: list[Hit]
    more_url: str = ""


@require_safe
@signed_in
def search(request: PageRequest) -> HttpResponse:
    """The page, and for the palette only what was found."""
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
    return render(request, "search/_found.html" if request.htmx else "search/page.html", context)


def found(request: PageRequest, text: str, missing_cells: dict[str, str]) -> tuple[list[Group], list[Hit]]:
    """Groups with something in them, and links to the lists that there was no time to ask.

    Cells that did not answer are added to `missing_cells`.
    """
    groups = [Group("Go to", _places(request, text)), Group("Do", _deeds(request, text))]
    unasked: list[Hit] = []
    if text:
        deadline = time.monotonic() + SECONDS
        groups += [Group("Actions", _server_actions(request, text))]
        groups += [Group("Servers", _servers(request, text, missing_cells), _more("servers", name=text))]
        groups += [Group("Workflows", _workflows(request, text))]
        if request.asker.is_admin:
            groups += [Group("Hosts", _hosts(request, text))]
        for resource in (one for one in RESOURCES if may(request.asker, one.service, one.rule)):
            url = f"{views.list_url(resource)}?{urlencode({'q': text})}"
            if time.monotonic() > deadline:
                unasked.append(Hit(resource.title, url, resource.icon))
            else:
                groups.append(Group(resource.title, _resources(request, resource, text), url))
    return [group for group in groups if group.hits], unasked


def _matches(text: str, name: str) -> bool:
    """Whether each word that was typed begins a word of the name."""
    return all(re.search(rf"\b{re.escape(word)}", name, re.IGNORECASE) for word in text.split())


def _places(request: PageRequest, text: str) -> list[Hit]:
    places = [
        Hit(place.name, place.url, place.icon, place.keys)
        for place in navigation.PLACES
        if request.asker.is_admin or not place.is_for_operators
    ]
    places.append(Hit("Profile", reverse("profile"), "user"))
    places.append(Hit("Change project", reverse("project"), "project"))
    wanted = [hit for hit in places if _matches(text, hit.name)]
    return wanted[:MOST_OF_A_KIND] if text else wanted


def _deeds(request: PageRequest, text: str) -> list[Hit]:
    """What makes something new: the rest needs something that it is done to."""
    deeds = [Hit("Launch server", reverse("launch"), "plus", "c")] if may_change(request.asker) else []
    for resource in RESOURCES:
        for deed in resource.deeds:
            if deed.is_creation and may_do(request.asker, resource, deed):
                deeds.append(Hit(deed.title, views.deed_url(resource, deed), "plus", resource.title))
    wanted = [hit for hit in deeds if _matches(text, f"{hit.name} {hit.detail}")]
    return wanted[:MOST_OF_A_KIND] if text else wanted


def _server_actions(request: PageRequest, text: str) -> list[Hit]:
    """Actions on servers, found by verb and name: "stop web-1", "confirm resize"."""
    words = text.lower().split()
    if not words or len(words[0]) < SHORTEST_VERB:
        return []
    hits: list[Hit] = []
    for action, kind in server_choices.KINDS.items():
        title = gettext(kind.title)
        verb = _leading(words, title.lower().split())
        if verb and server_choices.may_use(request.asker, action):
            hits += _allowed(request, action, title, " ".join(text.split()[verb:]))
    return hits[:MOST_OF_A_KIND]


def _leading(words: list[str], title: list[str]) -> int:
    """How many of the first words that were typed begin the words of an action's title, in order."""
    pairs = zip(words, title, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[1].startswith(pair[0]), pairs))


def _allowed(request: PageRequest, action: str, title: str, name: str) -> Iterable[Hit]:
    """Servers with this part in their name whose state allows the action."""
    states = server_choices.KINDS[action].states()

    def ask() -> Iterable[Hit]:
        filters = {"name": re.escape(name)} if name else {}
        query = InstanceQuery(filters=filters, limit=MOST_LOOKED_AT, with_partial=False)
        for server in instance_queries.list_page(request.asker, query).items:
            if server.vm_state in states:
                url = f"{reverse('act-on-servers', args=[action])}?{urlencode({'server': server.uuid})}"
                yield Hit(f"{title}: {server.name}", url, "server", face=faces.of_server(server))

    return _answered(ask)


def _servers(request: PageRequest, text: str, missing_cells: dict[str, str]) -> list[Hit]:
    def ask() -> Iterable[Hit]:
        if uuid_or_none(text):
            servers = [instance_queries.get(request.asker, text)]
        else:
            query = InstanceQuery(filters={"name": re.escape(text)}, limit=MOST_OF_A_KIND)
            page = instance_queries.list_page(request.asker, query)
            missing_cells.update(page.missing_cells)
            servers = page.items
        for server in servers:
            yield Hit(server.name, reverse("server", args=[server.uuid]), "server", face=faces.of_server(server))

    return _answered(ask)


def _workflows(request: PageRequest, text: str) -> list[Hit]:
    runs = map(stories.of, own_flows.named(request.asker, text, MOST_OF_A_KIND))
    return [
        Hit(f"{run.intent} {run.subject}", reverse("workflow", args=[run.uuid]), "workflow", run.uuid[:8], run.face)
        for run in runs
    ]


def _hosts(request: PageRequest, text: str) -> list[Hit]:
    services = hosts.list_services(request.asker, binary="nova-compute").items
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
    """A kind that has none of it, or does not answer, must not take the others with it."""
    try:
        return list(ask())
    except NovellaError:
        return []


def _more(route: str, **query: str) -> str:
    return f"{reverse(route)}?{urlencode(query)}"
