"""Routes of the network API, below /network."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal.api.network.resources import RESOURCES
from portal.api.network.views import collections, qos, quotas, routers, service, tags

urlpatterns: list[URLPattern | URLResolver] = [
    path("", service.Root.as_view()),
    path("v2.0", service.V2.as_view()),
    path("v2.0/", service.V2.as_view()),
    path("v2.0/extensions", service.Extensions.as_view()),
    path("v2.0/extensions/<str:alias>", service.Extension.as_view()),
    path("v2.0/quotas", quotas.Quotas.as_view()),
    path("v2.0/quotas/project", quotas.QuotaProject.as_view(name="project")),
    path("v2.0/quotas/tenant", quotas.QuotaProject.as_view(name="tenant")),
    path("v2.0/quotas/<str:project_id>", quotas.Quota.as_view()),
    path("v2.0/quotas/<str:project_id>/default", quotas.Defaults.as_view()),
    path("v2.0/quotas/<str:project_id>/details", quotas.Details.as_view()),
    path("v2.0/availability_zones", service.AvailabilityZones.as_view()),
    path("v2.0/agents", service.Empty.as_view(name="agents", rule="get_agent")),
    path("v2.0/service-providers", service.Empty.as_view(name="service_providers", rule="get_service_provider")),
    path("v2.0/network-ip-availabilities", service.IpAvailabilities.as_view()),
    path("v2.0/network-ip-availabilities/<str:network_id>", service.IpAvailability.as_view()),
    path("v2.0/auto-allocated-topology/<str:project_id>", service.AutoTopology.as_view()),
    path("v2.0/routers/<str:router_id>/add_router_interface", routers.AddInterface.as_view()),
    path("v2.0/routers/<str:router_id>/remove_router_interface", routers.RemoveInterface.as_view()),
    path("v2.0/routers/<str:router_id>/add_extraroutes", routers.AddRoutes.as_view()),
    path("v2.0/routers/<str:router_id>/remove_extraroutes", routers.RemoveRoutes.as_view()),
    path("v2.0/qos/rule-types", qos.RuleTypes.as_view()),
    path("v2.0/qos/rule-types/<str:kind>", qos.RuleType.as_view()),
    path("v2.0/qos/policies/<str:policy_id>/bandwidth_limit_rules", qos.Limits.as_view()),
    path("v2.0/qos/policies/<str:policy_id>/bandwidth_limit_rules/<str:rule_id>", qos.Limit.as_view()),
    path("v2.0/qos/policies/<str:policy_id>/<str:kind>", qos.OtherRules.as_view()),
    path("v2.0/qos/policies/<str:policy_id>/<str:kind>/<str:rule_id>", qos.OtherRules.as_view()),
]
for _segment, _resource in RESOURCES.items():
    urlpatterns += [
        path(f"v2.0/{_segment}", collections.Collection.as_view(resource=_resource)),
        path(f"v2.0/{_segment}/<str:item_id>", collections.Member.as_view(resource=_resource)),
    ]
    if _resource.is_tagged:
        urlpatterns += [
            path(f"v2.0/{_segment}/<str:item_id>/tags", tags.Tags.as_view(resource=_resource)),
            path(f"v2.0/{_segment}/<str:item_id>/tags/<str:tag>", tags.Tag.as_view(resource=_resource)),
        ]
