"""Routes of the placement API, below /placement."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path, re_path

from portal.api.placement.view import UnknownRoute
from portal.api.placement.views import (
    aggregates,
    allocations,
    candidates,
    inventories,
    providers,
    reshaper,
    resource_classes,
    root,
    traits,
    usages,
)

_PROVIDER = "resource_providers/<str:uuid>"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", root.Root.as_view()),
    path("resource_classes", resource_classes.ResourceClasses.as_view()),
    path("resource_classes/<str:name>", resource_classes.ResourceClass.as_view()),
    path("resource_providers", providers.Providers.as_view()),
    path(_PROVIDER, providers.Provider.as_view()),
    path(f"{_PROVIDER}/inventories", inventories.Inventories.as_view()),
    path(f"{_PROVIDER}/inventories/<str:name>", inventories.Inventory.as_view()),
    path(f"{_PROVIDER}/usages", usages.ProviderUsages.as_view()),
    path(f"{_PROVIDER}/aggregates", aggregates.Aggregates.as_view()),
    path(f"{_PROVIDER}/allocations", allocations.ProviderAllocations.as_view()),
    path(f"{_PROVIDER}/traits", traits.ProviderTraits.as_view()),
    path("allocations", allocations.Allocations.as_view()),
    path("allocations/<str:consumer>", allocations.ConsumerAllocation.as_view()),
    path("allocation_candidates", candidates.AllocationCandidates.as_view()),
    path("usages", usages.Usages.as_view()),
    path("reshaper", reshaper.Reshaper.as_view()),
    path("traits", traits.Traits.as_view()),
    path("traits/<str:name>", traits.Trait.as_view()),
    re_path("", UnknownRoute.as_view()),
]
