"""Routes of the volume API, below /volume. The project may stand behind the version, or not."""

from __future__ import annotations

from typing import Any

from django.urls import URLPattern, URLResolver, re_path

from portal.api.base import unknown_route
from portal.api.volume.versions import VERSIONS
from portal.api.volume.views import service, volumes

_VOLUME = r"volumes/(?P<volume_id>[^/]+)"


def _route(route: str, view: Any) -> Any:
    return re_path(rf"^v3/(?:[0-9a-f]{{32}}/)?{route}$", view)


urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"^$", service.Root.as_view()),
    re_path(r"^v3/?$", service.V3.as_view()),
    _route("volumes", volumes.Volumes.as_view()),
    _route("volumes/detail", volumes.Volumes.as_view(is_detailed=True)),
    _route(_VOLUME, volumes.VolumeById.as_view()),
    _route(rf"{_VOLUME}/action", volumes.VolumeAction.as_view()),
    _route(rf"{_VOLUME}/metadata", volumes.Metadata.as_view()),
    _route(rf"{_VOLUME}/metadata/(?P<key>[^/]+)", volumes.MetadataItem.as_view()),
    _route("types", service.Types.as_view()),
    _route("types/(?P<type_id>[^/]+)", service.TypeById.as_view()),
    _route("types/(?P<type_id>[^/]+)/extra_specs", service.TypeSpecs.as_view()),
    _route("snapshots", service.Empty.as_view(name="snapshots")),
    _route("snapshots/detail", service.Empty.as_view(name="snapshots")),
    _route("extensions", service.Empty.as_view(name="extensions")),
    _route("limits", service.Limits.as_view()),
    _route("os-quota-sets/(?P<project_id>[^/]+)", service.QuotaSet.as_view()),
    _route("os-quota-sets/(?P<project_id>[^/]+)/defaults", service.QuotaDefaults.as_view()),
    _route("os-availability-zone", service.Zones.as_view()),
    re_path("", unknown_route("volume", VERSIONS)),
]
