"""Routes of the placement API, below /placement."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path, re_path

from portal.api.placement.view import UnknownRoute
from portal.api.placement.views import root

urlpatterns: list[URLPattern | URLResolver] = [
    path("", root.Root.as_view()),
    re_path("", UnknownRoute.as_view()),
]
