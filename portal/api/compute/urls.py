"""Routes of the Compute API."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path, re_path
from portal.api.base import unknown_route
from portal.api.compute.microversions import VERSIONS
from portal.api.compute.views import (
    aggregates,
    availability_zones,
    extensions,
    flavors,
    hypervisors,
    instance_actions,
    interfaces,
    keypairs,
    quotas,
    server_actions,
    server_addresses,
    server_groups,
    server_metadata,
    server_tags,
    servers,
    services,
    versions,
    volume_attachments,
)

_SERVER = "v2.1/servers/<str:server_id>"
_FLAVOR = "v2.1/flavors/<str:flavor_id>"
_QUOTA = "v2.1/os-quota-sets/<str:project_id>"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", versions.Root.as_view()),
    re_path(r"^v2/?$", versions.V20.as_view()),
    re_path(r"^v2\.1/?$", versions.V21.as_view()),
    path("v2.1/servers", servers.Servers.as_view()),
    path("v2.1/servers/detail", servers.ServersDetail.as_view()),
    path(_SERVER, servers.ServerById.as_view()),
    path(f"{_SERVER}/action", server_actions.ServerAction.as_view()),
    path(f"{_SERVER}/metadata", server_metadata.ServerMetadata.as_view()),
    path(f"{_SERVER}/metadata/<str:key>", server_metadata.ServerMetadataItem.as_view()),
    path(f"{_SERVER}/tags", server_tags.ServerTags.as_view()),
    path(f"{_SERVER}/tags/<str:tag>", server_tags.ServerTag.as_view()),
    path(f"{_SERVER}/ips", server_addresses.ServerAddresses.as_view()),
    path(f"{_SERVER}/ips/<str:network>", server_addresses.ServerAddressesByNetwork.as_view()),
    path(f"{_SERVER}/os-interface", interfaces.Interfaces.as_view()),
    path(f"{_SERVER}/os-interface/<str:port_id>", interfaces.InterfaceById.as_view()),
    path(f"{_SERVER}/os-volume_attachments", volume_attachments.VolumeAttachments.as_view()),
    path(f"{_SERVER}/os-volume_attachments/<str:volume_id>", volume_attachments.VolumeAttachment.as_view()),
    path(f"{_SERVER}/os-instance-actions", instance_actions.InstanceActions.as_view()),
    path(f"{_SERVER}/os-instance-actions/<str:request_id>", instance_actions.InstanceAction.as_view()),
    path("v2.1/flavors", flavors.Flavors.as_view()),
    path("v2.1/flavors/detail", flavors.FlavorsDetail.as_view()),
    path(_FLAVOR, flavors.FlavorById.as_view()),
    path(f"{_FLAVOR}/action", flavors.FlavorAction.as_view()),
    path(f"{_FLAVOR}/os-flavor-access", flavors.FlavorAccess.as_view()),
    path(f"{_FLAVOR}/os-extra_specs", flavors.FlavorExtraSpecs.as_view()),
    path(f"{_FLAVOR}/os-extra_specs/<str:key>", flavors.FlavorExtraSpec.as_view()),
    path("v2.1/os-keypairs", keypairs.KeyPairs.as_view()),
    path("v2.1/os-keypairs/<str:name>", keypairs.KeyPairByName.as_view()),
    path("v2.1/limits", quotas.Limits.as_view()),
    path(_QUOTA, quotas.QuotaSet.as_view()),
    path(f"{_QUOTA}/detail", quotas.QuotaSetDetail.as_view()),
    path(f"{_QUOTA}/defaults", quotas.QuotaSetDefaults.as_view()),
    path("v2.1/os-availability-zone", availability_zones.AvailabilityZones.as_view()),
    path("v2.1/os-availability-zone/detail", availability_zones.AvailabilityZonesDetail.as_view()),
    path("v2.1/os-hypervisors", hypervisors.Hypervisors.as_view()),
    path("v2.1/os-hypervisors/detail", hypervisors.HypervisorsDetail.as_view()),
    path("v2.1/os-hypervisors/statistics", hypervisors.HypervisorStatistics.as_view()),
    path("v2.1/os-hypervisors/<str:ref>", hypervisors.HypervisorById.as_view()),
    path("v2.1/os-hypervisors/<str:ref>/uptime", hypervisors.HypervisorUptime.as_view()),
    path("v2.1/os-hypervisors/<str:ref>/search", hypervisors.HypervisorSearch.as_view()),
    path("v2.1/os-hypervisors/<str:ref>/servers", hypervisors.HypervisorServers.as_view()),
    path("v2.1/os-services", services.Services.as_view()),
    path("v2.1/os-services/<str:ref>", services.ServiceByRef.as_view()),
    path("v2.1/os-server-groups", server_groups.ServerGroups.as_view()),
    path("v2.1/os-server-groups/<str:group_id>", server_groups.ServerGroup.as_view()),
    path("v2.1/os-aggregates", aggregates.Aggregates.as_view()),
    path("v2.1/os-aggregates/<str:ref>", aggregates.AggregateByRef.as_view()),
    path("v2.1/extensions", extensions.Extensions.as_view()),
    path("v2.1/extensions/<str:alias>", extensions.ExtensionByAlias.as_view()),
    re_path("", unknown_route("compute", VERSIONS)),
]
