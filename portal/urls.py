"""The root URL configuration: the APIs, the health checks and the portal's pages."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, re_path

from portal.api import errors
from portal.api.base import unknown_route
from portal.health import healthz, readyz


def api(root: str, service: str, package: str = "") -> list[URLPattern | URLResolver]:
    """Return the routes of one API. Its root answers with and without a trailing slash, without a redirect."""
    return [
        re_path(rf"^{root}(?:/|$)", include(f"portal.api.{package or service}.urls")),
        re_path(rf"^{root}/", unknown_route(service)),
    ]


urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    *api("identity", "identity"),
    *api("compute", "compute"),
    *api("image", "image"),
    *api("network", "network"),
    *api("load-balancer", "load-balancer", "network.load_balancing"),
    *api("volume", "volume"),
    *api("placement", "placement"),
    *api("api", "novella", "novella"),
    path("", include("portal.pages.urls")),
]

handler400 = errors.bad_request
handler403 = errors.permission_denied
handler404 = errors.page_not_found
handler500 = errors.server_error
