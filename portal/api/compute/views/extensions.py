"""Extensions: what old clients read to find out what is there. Everything has long been part of the API."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import NotFound
from portal.api.base import ApiRequest
from portal.api.compute.view import ComputeView

# Only what answers.
ALIASES = {
    "os-aggregates": "Aggregates",
    "os-availability-zone": "AvailabilityZone",
    "os-block-device-mapping-v2-boot": "BlockDeviceMappingV2Boot",
    "os-config-drive": "ConfigDrive",
    "os-console-output": "ConsoleOutput",
    "os-create-server-ext": "Createserverext",
    "os-extended-availability-zone": "ExtendedAvailabilityZone",
    "os-extended-server-attributes": "ExtendedServerAttributes",
    "os-extended-status": "ExtendedStatus",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-flavor-manage": "FlavorManage",
    "os-hypervisors": "Hypervisors",
    "os-instance-actions": "InstanceActions",
    "os-keypairs": "Keypairs",
    "os-multiple-create": "MultipleCreate",
    "os-quota-sets": "Quotas",
    "os-scheduler-hints": "SchedulerHints",
    "os-server-groups": "ServerGroups",
    "os-server-usage": "ServerUsage",
    "os-services": "Services",
    "os-used-limits": "UsedLimits",
    "os-user-data": "UserData",
}


class Extensions(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        return Response({"extensions": [_extension(alias) for alias in ALIASES]})


class ExtensionByAlias(ComputeView):
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
