"""Results of an action on several servers, and a form that retries the refused ones."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render

from portal.pages.permissions import PageRequest
from portal.pages.server_queries import MOST_AT_ONCE


@dataclass(frozen=True)
class ServerResult:
    """One server: `message` is the reason of a refusal, or a remark."""

    uuid: str
    name: str
    message: str = ""
    is_good: bool = True


def page_of(request: PageRequest, title: str, outcomes: list[ServerResult], again_url: str) -> HttpResponse:
    """Show a line for each, refused ones first; their form comes back if their states have changed meanwhile."""
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
