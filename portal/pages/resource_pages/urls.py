"""Routes of the shared resource pages."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path, register_converter
from django.urls.converters import StringConverter

from portal.pages.accounts import profile
from portal.pages.networking import topology
from portal.pages.operations import system
from portal.pages.projects import project
from portal.pages.resource_pages import actions, views
from portal.pages.resource_pages.catalog import BY_ID, RESOURCES


class KindConverter(StringConverter):
    """Matches the known kinds; other words are addresses of other pages."""

    regex = "|".join(sorted((resource.id for resource in RESOURCES), key=len, reverse=True))


class FormConverter(StringConverter):
    """Matches the same kinds, and servers, which use the shared forms."""

    regex = "|".join(sorted(BY_ID, key=len, reverse=True))


register_converter(KindConverter, "kind")
register_converter(FormConverter, "form")

urlpatterns: list[URLPattern | URLResolver] = [
    path("quotas", project.quota_page, name="quotas"),
    path("usage", project.usage_page, name="usage"),
    path("usage.csv", project.usage_csv, name="usage-csv"),
    path("profile", profile.profile, name="profile"),
    path("networks/topology", topology.topology, name="topology"),
    path("security-groups/reach", topology.reach, name="reach"),
    path("system", system.health, name="system-health"),
    path("settings", system.setting_list, name="setting-list"),
    path("snapshot-schedules", views.resource_list, {"resource_id": "snapshot-schedules"}, name="snapshot-schedules"),
    path("<kind:resource_id>", views.resource_list, name="resources"),
    path("<kind:resource_id>/of/<str:ident>", views.resource_page, name="resource"),
    path("<form:resource_id>/do/<slug:action_id>", actions.resource_action, name="resource-action"),
]
