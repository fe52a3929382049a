"""Context of every page: navigation, project, theme, and the position of the event log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from conductor.services.accounts import preferences, sign_in
from portal import sessions


@dataclass(frozen=True)
class NavigationEntry:
    """An entry of the navigation. `keys` is its keyboard shortcut; `group` is its heading.

    `argument` is that of the route: the kind of resource. Phones show entries that are `is_near`, and the rest behind a
    button.
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
    NavigationEntry("Home", "home", "home", "g h", is_near=True),
    NavigationEntry("Servers", "servers", "server", "g s", is_near=True),
    NavigationEntry("Workflows", "workflows", "workflow", "g w", is_near=True),
    NavigationEntry("Images", "resources", "image", "g i", group="Compute", argument="images"),
    NavigationEntry("Flavors", "resources", "size", "g z", group="Compute", argument="flavors"),
    NavigationEntry("Server groups", "resources", "group", "g j", group="Compute", argument="server-groups"),
    NavigationEntry("Volumes", "resources", "disk", "g v", group="Storage", argument="volumes", is_near=True),
    NavigationEntry("Snapshots", "resources", "camera", "g m", group="Storage", argument="snapshots"),
    NavigationEntry("Backups", "resources", "history", "g b", group="Storage", argument="backups"),
    NavigationEntry("Networks", "resources", "network", "g n", group="Network", argument="networks"),
    NavigationEntry("Routers", "resources", "router", "g r", group="Network", argument="routers"),
    NavigationEntry("Floating IPs", "resources", "globe", "g f", group="Network", argument="floating-ips"),
    NavigationEntry("Load balancers", "resources", "balancer", "g .", group="Network", argument="load-balancers"),
    NavigationEntry("Security groups", "resources", "shield", "g x", group="Network", argument="security-groups"),
    NavigationEntry("Key pairs", "resources", "key", "g k", group="Access", argument="key-pairs"),
    NavigationEntry("Credentials", "resources", "lock", "g c", group="Access", argument="credentials"),
    NavigationEntry("Quota", "quotas", "meter", "g q", group="Project"),
    NavigationEntry("Usage", "usage", "coins", "g u", group="Project"),
    NavigationEntry("Activity", "activity", "history", "g a", group="Project"),
    NavigationEntry("Triage", "triage", "bell", "g t", group="Operators", is_for_operators=True),
    NavigationEntry("Fleet", "fleet", "size", "g e", group="Operators", is_for_operators=True),
    NavigationEntry("Hosts", "hosts", "host", "g o", group="Operators", is_for_operators=True),
    NavigationEntry("Cells", "cells", "network", "g l", group="Operators", is_for_operators=True),
    NavigationEntry("What if", "what-if", "meter", "g y", group="Operators", is_for_operators=True),
    NavigationEntry("Plugins", "plugins", "plugin", "g p", group="Operators", is_for_operators=True),
    NavigationEntry("Services", "service-list", "workflow", "g 1", group="Operators", is_for_operators=True),
    NavigationEntry("Host aggregates", "resources", "group", "g 2", True, "Operators", "aggregates"),
    NavigationEntry("System health", "system-health", "meter", "g 7", True, "Operators"),
    NavigationEntry("Settings", "setting-list", "more", "g 8", True, "Operators"),
    NavigationEntry("News", "resources", "bell", "g g", True, "Operators", "news"),
    NavigationEntry("Audit log", "audit-log", "history", "g d", group="Operators", is_for_operators=True),
    NavigationEntry("Projects", "resources", "project", "g 3", True, "People", "projects"),
    NavigationEntry("Project quotas", "quota-table", "meter", "g 9", True, "People"),
    NavigationEntry("Quota requests", "quota-requests", "coins", "g 0", True, "People"),
    NavigationEntry("Users", "resources", "user", "g 4", True, "People", "users"),
    NavigationEntry("Roles", "resources", "shield", "g 5", True, "People", "roles"),
    NavigationEntry("Role assignments", "resources", "key", "g 6", True, "People", "role-assignments"),
)


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context of every template that is rendered with a request."""
    user = getattr(request, "user", None)
    is_signed_in = bool(user is not None and user.is_authenticated)
    person = getattr(request, "caller", None)
    caller = person if person is not None and person.project_id else None
    user_preferences = preferences.read(user.preferences) if user is not None and is_signed_in else None
    return {
        "caller": caller,
        "person": person,
        "layout": "base.html" if caller is not None else "alone.html",
        "theme": user.theme if user is not None and is_signed_in else "system",
        "density": user_preferences.density if user_preferences is not None else "",
        "is_muted": user_preferences is not None and user_preferences.state_changes == preferences.MUTED,
        "themes": sign_in.THEMES,
        "places": _places(request, caller),
        "band": settings.NOVELLA_BAND,
        "band_colour": settings.NOVELLA_BAND_COLOUR,
        "session_left": sessions.seconds_left(request.session) if caller is not None else None,
        "sign_in_provider": settings.NOVELLA_OIDC_NAME if settings.NOVELLA_OIDC_ISSUER else "",
        "session_warning": sessions.warning_seconds(),
    }


def _places(request: HttpRequest, caller: Any) -> list[dict[str, Any]]:
    if caller is None:
        return []
    places: list[dict[str, Any]] = []
    for place in PLACES:
        if place.is_for_operators and not caller.is_admin:
            continue
        url = place.url
        is_here = request.path == url or (place.route != "home" and request.path.startswith(f"{url}/"))
        opens_group = place.group if not places or places[-1]["place"].group != place.group else ""
        places.append({"place": place, "url": url, "is_here": is_here, "opens_group": opens_group})
    return places
