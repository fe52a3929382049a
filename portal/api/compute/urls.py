"""Routes of the Compute API, below /compute: versions, and the route table. A project id may precede the path."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, re_path

from portal.api.base import unknown_route
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.routes import ROUTES
from portal.api.compute.views import versions

urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"^$", versions.Root.as_view()),
    re_path(r"^v2/?$", versions.V20.as_view()),
    re_path(r"^v2\.1/?$", versions.V21.as_view()),
    re_path(r"^v2\.1/(?:[0-9a-f]{32}/)?", include([route.pattern() for route in ROUTES])),
    re_path("", unknown_route("compute", VERSIONS)),
]
