"""Extensions, by which old clients discover features. All of them are long part of the API."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import NotFound
from portal.api.base import ApiRequest
from portal.api.compute.view import BARE_SINCE, ComputeView

# Alias and name of each extension. `os-consoles` only answers that it is gone.
ALIASES = {
    "NMN": "Multinic",
    "OS-DCF": "DiskConfig",
    "OS-EXT-AZ": "ExtendedAvailabilityZone",
    "OS-EXT-IMG-SIZE": "ImageSize",
    "OS-EXT-IPS": "ExtendedIps",
    "OS-EXT-IPS-MAC": "ExtendedIpsMac",
    "OS-EXT-SRV-ATTR": "ExtendedServerAttributes",
    "OS-EXT-STS": "ExtendedStatus",
    "OS-FLV-DISABLED": "FlavorDisabled",
    "OS-FLV-EXT-DATA": "FlavorExtraData",
    "OS-SCH-HNT": "SchedulerHints",
    "OS-SRV-USG": "ServerUsage",
    "os-admin-actions": "AdminActions",
    "os-aggregates": "Aggregates",
    "os-attach-interfaces": "AttachInterfaces",
    "os-availability-zone": "AvailabilityZone",
    "os-block-device-mapping-v2-boot": "BlockDeviceMappingV2Boot",
    "os-config-drive": "ConfigDrive",
    "os-console-output": "ConsoleOutput",
    "os-console-auth-tokens": "ConsoleAuthTokens",
    "os-consoles": "Consoles",
    "os-create-backup": "CreateBackup",
    "os-create-server-ext": "Createserverext",
    "os-deferred-delete": "DeferredDelete",
    "os-evacuate": "Evacuate",
    "os-extended-availability-zone": "ExtendedAvailabilityZone",
    "os-extended-evacuate-find-host": "ExtendedEvacuateFindHost",
    "os-extended-floating-ips": "ExtendedFloatingIps",
    "os-extended-hypervisors": "ExtendedHypervisors",
    "os-extended-quotas": "ExtendedQuotas",
    "os-extended-server-attributes": "ExtendedServerAttributes",
    "os-extended-services": "ExtendedServices",
    "os-extended-services-delete": "ExtendedServicesDelete",
    "os-extended-status": "ExtendedStatus",
    "os-extended-volumes": "ExtendedVolumes",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-flavor-rxtx": "FlavorRxtx",
    "os-flavor-swap": "FlavorSwap",
    "os-floating-ip-pools": "FloatingIpPools",
    "os-floating-ips": "FloatingIps",
    "os-hosts": "Hosts",
    "os-hypervisor-status": "HypervisorStatus",
    "os-hypervisors": "Hypervisors",
    "os-instance-actions": "InstanceActions",
    "os-instance_usage_audit_log": "OSInstanceUsageAuditLog",
    "os-keypairs": "Keypairs",
    "os-lock-server": "LockServer",
    "os-migrate-server": "MigrateServer",
    "os-migrations": "Migrations",
    "os-multiple-create": "MultipleCreate",
    "os-networks": "Networks",
    "os-pause-server": "PauseServer",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-remote-consoles": "Consoles",
    "os-rescue": "Rescue",
    "os-scheduler-hints": "SchedulerHints",
    "os-security-groups": "SecurityGroups",
    "os-server-diagnostics": "ServerDiagnostics",
    "os-server-external-events": "ServerExternalEvents",
    "os-server-group-quotas": "ServerGroupQuotas",
    "os-server-groups": "ServerGroups",
    "os-server-list-multi-status": "ServerListMultiStatus",
    "os-server-password": "ServerPassword",
    "os-server-sort-keys": "ServerSortKeys",
    "os-server-start-stop": "ServerStartStop",
    "os-server-usage": "ServerUsage",
    "os-services": "Services",
    "os-shelve": "Shelve",
    "os-simple-tenant-usage": "SimpleTenantUsage",
    "os-suspend-server": "SuspendServer",
    "os-tenant-networks": "OSTenantNetworks",
    "os-used-limits": "UsedLimits",
    "os-used-limits-for-admin": "UsedLimitsForAdmin",
    "os-user-data": "UserData",
    "os-user-quotas": "UserQuotas",
    "os-volume-attachment-update": "VolumeAttachmentUpdate",
    "os-volumes": "Volumes",
}


class Extensions(ComputeView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest) -> Response:
        return Response({"extensions": [_extension(alias) for alias in ALIASES]})


class ExtensionByAlias(ComputeView):
    bare_since = BARE_SINCE

    def get(self, request: ApiRequest, alias: str) -> Response:
        if alias not in ALIASES:
            raise NotFound(f"Extension {alias[:60]} could not be found.")
        return Response({"extension": _extension(alias)})


def _extension(alias: str) -> dict[str, Any]:
    return {
        "alias": alias,
        "name": ALIASES[alias],
        "description": ALIASES[alias],
        "namespace": f"urn:novella:compute:{alias}",
        "updated": "2014-12-03T00:00:00Z",
        "links": [],
    }
