"""What surrounds every page: navigation, project, theme, and where the event log stood when the page was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from conductor.services import preferences, sign_in
from portal import sessions


@dataclass(frozen=True)
class Place:
    """An entry of the navigation. `keys` is the shortcut as it is typed; `group` is what it stands under.

    `argument` is that of the route: the kind of resource. Phones show what is `is_near` and the rest behind a button.
    """

    name: str
    route: str
    icon: str
    keys: str
    is_for_operators: bool = False
    group: str = ""
    argument: str = ""
    is_near: bool = False

    @property
    def url(self) -> str:
        return reverse(self.route, args=[self.argument] if self.argument else [])


PLACES = (
    Place("Home", "home", "home", "g h", is_near=True),
    Place("Servers", "servers", "server", "g s", is_near=True),
    Place("Workflows", "workflows", "workflow", "g w", is_near=True),
    Place("Images", "resources", "image", "g i", group="Compute", argument="images"),
    Place("Flavors", "resources", "size", "g z", group="Compute", argument="flavors"),
    Place("Server groups", "resources", "group", "g j", group="Compute", argument="server-groups"),
    Place("Volumes", "resources", "disk", "g v", group="Storage", argument="volumes", is_near=True),
    Place("Snapshots", "resources", "camera", "g m", group="Storage", argument="snapshots"),
    Place("Backups", "resources", "history", "g b", group="Storage", argument="backups"),
    Place("Networks", "resources", "network", "g n", group="Network", argument="networks"),
    Place("Routers", "resources", "router", "g r", group="Network", argument="routers"),
    Place("Floating IPs", "resources", "globe", "g f", group="Network", argument="floating-ips"),
    Place("Security groups", "resources", "shield", "g x", group="Network", argument="security-groups"),
    Place("Key pairs", "resources", "key", "g k", group="Access", argument="key-pairs"),
    Place("Credentials", "resources", "lock", "g c", group="Access", argument="credentials"),
    Place("Quota", "quotas", "meter", "g q", group="Project"),
    Place("Usage", "usage", "coins", "g u", group="Project"),
    Place("Activity", "activity", "history", "g a", group="Project"),
    Place("Triage", "triage", "bell", "g t", group="Operators", is_for_operators=True),
    Place("Fleet", "fleet", "size", "g e", group="Operators", is_for_operators=True),
    Place("Hosts", "hosts", "host", "g o", group="Operators", is_for_operators=True),
    Place("Cells", "cells", "network", "g l", group="Operators", is_for_operators=True),
    Place("What if", "what-if", "meter", "g y", group="Operators", is_for_operators=True),
    Place("Plugins", "plugins", "plugin", "g p", group="Operators", is_for_operators=True),
    Place("Services", "service-list", "workflow", "g 1", group="Operators", is_for_operators=True),
    Place("Host aggregates", "resources", "group", "g 2", True, "Operators", "aggregates"),
    Place("System health", "system-health", "meter", "g 7", True, "Operators"),
    Place("Settings", "setting-list", "more", "g 8", True, "Operators"),
    Place("News", "resources", "bell", "g g", True, "Operators", "news"),
    Place("Audit log", "audit-log", "history", "g d", group="Operators", is_for_operators=True),
    Place("Projects", "resources", "project", "g 3", True, "People", "projects"),
    Place("Project quotas", "quota-table", "meter", "g 9", True, "People"),
    Place("Quota requests", "quota-requests", "coins", "g 0", True, "People"),
    Place("Users", "resources", "user", "g 4", True, "People", "users"),
    Place("Roles", "resources", "shield", "g 5", True, "People", "roles"),
    Place("Role assignments", "resources", "key", "g 6", True, "People", "role-assignments"),
)


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context of every template that is rendered with a request."""
    user = getattr(request, "user", None)
    is_signed_in = bool(user is not None and user.is_authenticated)
    person = getattr(request, "asker", None)
    asker = person if person is not None and person.project_id else None
    wishes = preferences.read(user.preferences) if user is not None and is_signed_in else None
    return {
        "asker": asker,
        "person": person,
        "layout": "base.html" if asker is not None else "alone.html",
        "theme": user.theme if user is not None and is_signed_in else "system",
        "density": wishes.density if wishes is not None else "",
        "is_muted": wishes is not None and wishes.state_changes == preferences.MUTED,
        "themes": sign_in.THEMES,
        "places": _places(request, asker),
        "band": settings.NOVELLA_BAND,
        "band_colour": settings.NOVELLA_BAND_COLOUR,
        "session_left": sessions.seconds_left(request.session) if asker is not None else None,
        "sign_in_provider": settings.NOVELLA_OIDC_NAME if settings.NOVELLA_OIDC_ISSUER else "",
        "session_warning": sessions.warning_seconds(),
    }


def _places(request: HttpRequest, asker: Any) -> list[dict[str, Any]]:
    if asker is None:
        return []
    places: list[dict[str, Any]] = []
    for place in PLACES:
        if place.is_for_operators and not asker.is_admin:
            continue
        url = place.url
        is_here = request.path == url or (place.route != "home" and request.path.startswith(f"{url}/"))
        opens_group = place.group if not places or places[-1]["place"].group != place.group else ""
        places.append({"place": place, "url": url, "is_here": is_here, "opens_group": opens_group})
    return places
