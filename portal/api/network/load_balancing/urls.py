"""Routes of the load balancer API, below /load-balancer."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal.api.network.load_balancing import views
from portal.api.network.load_balancing.resources import RESOURCES

ROOT = "v2.0/lbaas"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.Root.as_view()),
    path(f"{ROOT}/providers", views.Providers.as_view()),
    path(f"{ROOT}/quotas", views.Quotas.as_view()),
    path(f"{ROOT}/quotas/defaults", views.Defaults.as_view()),
    path(f"{ROOT}/quotas/<str:project_id>", views.BalancerQuota.as_view()),
    path(f"{ROOT}/loadbalancers/<str:item_id>", views.Balancer.as_view()),
    path(f"{ROOT}/loadbalancers/<str:item_id>/status", views.Status.as_view()),
    path(f"{ROOT}/pools/<str:pool_id>/members", views.Members.as_view()),
    path(f"{ROOT}/pools/<str:pool_id>/members/<str:item_id>", views.MemberItem.as_view()),
]
for _segment, _resource in RESOURCES.items():
    urlpatterns += [
        path(f"{ROOT}/{_segment}", views.Collection.as_view(resource=_resource)),
        path(f"{ROOT}/{_segment}/<str:item_id>", views.Item.as_view(resource=_resource)),
    ]
