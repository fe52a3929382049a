"""What became of each of several servers, and the way to try those again that refused."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render

from portal.pages.access import PageRequest
from portal.pages.server_queries import MOST_AT_ONCE


@dataclass(frozen=True)
class Outcome:
    """One server: `message` says why not, or what else is to be known."""

    uuid: str
    name: str
    message: str = ""
    is_good: bool = True


def page_of(request: PageRequest, title: str, outcomes: list[Outcome], again_url: str) -> HttpResponse:
    """A line for each, those that refused first; their form comes back where the states have changed meanwhile."""
    refused = [one for one in outcomes if not one.is_good]
    context = {
        "title": title,
        "outcomes": sorted(outcomes, key=lambda one: one.is_good),
        "good": len(outcomes) - len(refused),
        "bad": len(refused),
        "again": refused[:MOST_AT_ONCE],
        "again_url": again_url,
    }
    return render(request, "servers/outcomes.html", context)
