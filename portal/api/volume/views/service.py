"""What clients ask about the service itself: versions, types, limits, zones, and what it has none of."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.services import volumes
from portal.api.base import ApiRequest
from portal.api.discovery import DiscoveryView, media_type, version_entry
from portal.api.validation import as_boolean, validate
from portal.api.volume.schemas.volumes import QUOTAS
from portal.api.volume.serializers import volumes as serializers
from portal.api.volume.versions import VERSIONS
from portal.api.volume.view import VolumeView

SUMS = {
    "maxTotalVolumes": "volumes",
    "maxTotalVolumeGigabytes": "gigabytes",
    "maxTotalSnapshots": "snapshots",
    "maxTotalBackups": "backups",
    "maxTotalBackupGigabytes": "backup_gigabytes",
}
USED = {
    "totalVolumesUsed": "volumes",
    "totalGigabytesUsed": "gigabytes",
    "totalSnapshotsUsed": "snapshots",
    "totalBackupsUsed": "backups",
    "totalBackupGigabytesUsed": "backup_gigabytes",
}
LARGEST = 2**31 - 1


class V3(DiscoveryView):
    """The one version."""

    service = "volume"

    def document(self, request: ApiRequest) -> dict[str, Any]:
        entry = version_entry(
            request,
            "v3.0",
            path="/volume/v3/",
            status="CURRENT",
            version=str(VERSIONS.maximum),
            min_version=str(VERSIONS.minimum),
            updated="2016-02-08T12:20:21Z",
            **{"media-types": [media_type("volume", ";version=3")]},
        )
        return {"versions": [entry]}


class Root(V3):
    """The same with the code for "choose one"."""

    status = 300


class Types(VolumeView):
    """/v3/types: there is one."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume_extension:types")
        return Response({"volume_types": [serializers.volume_type()]})


class TypeById(VolumeView):
    """/v3/types/{id}; `default` names the one that volumes get."""

    def get(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("volume_extension:types")
        if type_id not in ("default", serializers.TYPE_ID):
            raise NotFound(f"Volume type {type_id[:60]} could not be found.")
        return Response({"volume_type": serializers.volume_type()})


class TypeSpecs(VolumeView):
    """/v3/types/{id}/extra_specs."""

    def get(self, request: ApiRequest, type_id: str) -> Response:
        self.authorize("volume_extension:types")
        if type_id != serializers.TYPE_ID:
            raise NotFound(f"Volume type {type_id[:60]} could not be found.")
        return Response({"extra_specs": {}})


class Empty(VolumeView):
    """A collection of things that are not offered: its list is empty, and nothing can be made."""

    name: ClassVar[str] = ""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("snapshots")
        return Response({self.name: []})


class Limits(VolumeView):
    """/v3/limits."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("limits")
        by_name = {quota.resource: quota for quota in volumes.quotas(request.context.project_id)}
        absolute = {shown: by_name[name].limit for shown, name in SUMS.items()}
        absolute |= {shown: by_name[name].in_use for shown, name in USED.items()}
        return Response({"limits": {"rate": [], "absolute": absolute}})


class QuotaSet(VolumeView):
    """/v3/os-quota-sets/{project}."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("volume_extension:quotas:show", target_project_id=project_id)
        found = volumes.quotas(project_id)
        if as_boolean(request.query_params.get("usage", False), "usage"):
            shown: dict[str, Any] = {
                quota.resource: {"limit": quota.limit, "in_use": quota.in_use, "reserved": 0} for quota in found
            }
        else:
            shown = {quota.resource: quota.limit for quota in found}
        return Response({"quota_set": {"id": project_id, **shown}})

    def put(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("volume_extension:quotas:update")
        given = dict(validate(request.data, QUOTAS)["quota_set"])
        for name in ("tenant_id", "force"):
            given.pop(name, None)
        limits = {name: _limit(name, value) for name, value in given.items()}
        return Response({"quota_set": {q.resource: q.limit for q in volumes.update_quotas(project_id, limits)}})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("volume_extension:quotas:delete")
        volumes.reset_quotas(project_id)
        return Response(status=200)


class QuotaDefaults(VolumeView):
    """/v3/os-quota-sets/{project}/defaults."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("volume_extension:quotas:show", target_project_id=project_id)
        return Response({"quota_set": {"id": project_id, **volumes.DEFAULTS}})


class Zones(VolumeView):
    """/v3/os-availability-zone."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("availability_zone")
        return Response({"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}}]})


def _limit(name: str, value: Any) -> int:
    """Raises Invalid for an unknown resource, or what is no number of at least -1."""
    if name not in volumes.DEFAULTS:
        raise Invalid(f"Bad key(s) in quota set: {name[:60]}", field=f"quota_set.{name[:60]}")
    try:
        number = int(value) if not isinstance(value, bool) else -2
    except (TypeError, ValueError):
        number = -2
    if not -1 <= number <= LARGEST:
        raise Invalid(
            f"Invalid input for field/attribute quota_set.{name}. It must be a number from -1 to {LARGEST}.",
            field=f"quota_set.{name}",
        )
    return number
