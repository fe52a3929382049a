"""What surrounds every page: navigation, project, theme, and where the event log stood when the page was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from conductor.services import sign_in


@dataclass(frozen=True)
class Place:
    """An entry of the navigation. `keys` is the shortcut as it is typed."""

    name: str
    route: str
    icon: str
    keys: str
    is_for_operators: bool = False


PLACES = (
    Place("Home", "home", "home", "g h"),
    Place("Servers", "servers", "server", "g s"),
    Place("Workflows", "workflows", "workflow", "g w"),
    Place("Hosts", "hosts", "host", "g o", is_for_operators=True),
    Place("Plugins", "plugins", "plugin", "g p", is_for_operators=True),
)


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context of every template that is rendered with a request."""
    user = getattr(request, "user", None)
    is_signed_in = bool(user is not None and user.is_authenticated)
    asker = getattr(request, "asker", None)
    return {
        "asker": asker,
        "theme": user.theme if user is not None and is_signed_in else "system",
        "themes": sign_in.THEMES,
        "places": _places(request, asker),
    }


def _places(request: HttpRequest, asker: Any) -> list[dict[str, Any]]:
    if asker is None:
        return []
    places = []
    for place in PLACES:
        if place.is_for_operators and not asker.is_admin:
            continue
        url = reverse(place.route)
        is_here = request.path == url or (place.route != "home" and request.path.startswith(f"{url}/"))
        places.append({"place": place, "url": url, "is_here": is_here})
    return places
