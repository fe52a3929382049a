"""Routes of the network API, below /network."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal.api.network.resources import RESOURCES
from portal.api.network.views import collections, service

urlpatterns: list[URLPattern | URLResolver] = [
    path("", service.Root.as_view()),
    path("v2.0", service.V2.as_view()),
    path("v2.0/", service.V2.as_view()),
    path("v2.0/extensions", service.Extensions.as_view()),
    path("v2.0/extensions/<str:alias>", service.Extension.as_view()),
    path("v2.0/quotas", service.Quotas.as_view()),
    path("v2.0/quotas/<str:project_id>", service.Quota.as_view()),
    path("v2.0/quotas/<str:project_id>/default", service.Quota.as_view()),
    path("v2.0/availability_zones", service.Empty.as_view(name="availability_zones", rule="get_availability_zone")),
    path("v2.0/agents", service.Empty.as_view(name="agents", rule="get_agent")),
    path("v2.0/floatingips", service.Empty.as_view(name="floatingips", rule="get_floatingip")),
    path("v2.0/routers", service.Empty.as_view(name="routers", rule="get_router")),
]
for _segment, _resource in RESOURCES.items():
    urlpatterns += [
        path(f"v2.0/{_segment}", collections.Collection.as_view(resource=_resource)),
        path(f"v2.0/{_segment}/<str:item_id>", collections.Member.as_view(resource=_resource)),
    ]
