"""The volume API itself: versions, zones, filters, extensions, and collections that are not offered."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from portal.api.base import ApiRequest
from portal.api.discovery import DiscoveryView, media_type, version_entry
from portal.api.microversions import since
from portal.api.volume.versions import VERSIONS
from portal.api.volume.view import VolumeView


class V3(DiscoveryView):
    """The only version."""

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
    """The same document with status 300."""

    status = 300


EXTENSIONS = {
    "backups": "Backups",
    "os-admin-actions": "AdminActions",
    "os-availability-zone": "AvailabilityZones",
    "os-extended-snapshot-attributes": "ExtendedSnapshotAttributes",
    "os-hosts": "Hosts",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-services": "Services",
    "os-snapshot-actions": "SnapshotActions",
    "os-types-extra-specs": "TypesExtraSpecs",
    "os-types-manage": "TypesManage",
    "os-used-limits": "UsedLimits",
    "os-vol-host-attr": "VolumeHostAttribute",
    "os-vol-image-meta": "VolumeImageMetadata",
    "os-vol-tenant-attr": "VolumeTenantAttribute",
    "os-volume-actions": "VolumeActions",
    "os-volume-transfer": "VolumeTransfer",
    "os-volume-type-access": "VolumeTypeAccess",
    "os-volume-manage": "VolumeManage",
    "os-volume-unmanage": "VolumeUnmanage",
    "os-snapshot-manage": "SnapshotManage",
    "os-snapshot-unmanage": "SnapshotUnmanage",
    "qos-specs": "Qos_specs_manage",
    "capabilities": "Capabilities",
    "scheduler-stats": "Scheduler_stats",
}
FILTERS_OF = {
    "volume": (
        "name",
        "status",
        "metadata",
        "bootable",
        "migration_status",
        "availability_zone",
        "group_id",
        "size",
        "created_at",
        "updated_at",
    ),
    "snapshot": ("name", "status", "volume_id", "metadata", "availability_zone"),
    "attachment": ("volume_id", "status", "instance_id", "attach_status"),
    "backup": ("name", "status", "volume_id"),
    "message": ("resource_uuid", "resource_type", "event_id", "request_id", "message_level"),
    "volume_type": ("is_public", "extra_specs"),
    "volume_transfer": ("name", "volume_id"),
    "pool": ("name", "volume_type"),
}


class Extensions(VolumeView):
    """/v3/extensions."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("discovery")
        shown = [
            {
                "alias": alias,
                "name": name,
                "description": f"{name} is part of this service.",
                "links": [],
                "updated": "2016-02-08T00:00:00+00:00",
            }
            for alias, name in EXTENSIONS.items()
        ]
        return Response({"extensions": shown})


class ResourceFilters(VolumeView):
    """/v3/resource_filters."""

    @since("3.33")
    def get(self, request: ApiRequest) -> Response:
        self.authorize("discovery")
        wanted = request.query_params.get("resource")
        shown = [
            {"resource": resource, "filters": list(filters)}
            for resource, filters in FILTERS_OF.items()
            if wanted in (None, resource)
        ]
        return Response({"resource_filters": shown})


class Empty(VolumeView):
    """A collection that is not offered: its list is empty, and creation is refused."""

    name: ClassVar[str] = ""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume:get_all")
        return Response({self.name: []})

    def post(self, request: ApiRequest) -> Response:
        self.authorize("volume:create")
        raise Invalid(
            f"This cloud keeps no {self.name.replace('_', ' ')}: take a snapshot, or make an image of the volume."
        )


class EmptyById(VolumeView):
    """An item of such a collection: not found."""

    name: ClassVar[str] = ""

    def get(self, request: ApiRequest, ref: str) -> Response:
        self.authorize("volume:get")
        raise NotFound(f"{self.name} {ref[:60]} could not be found.")

    def delete(self, request: ApiRequest, ref: str) -> Response:
        self.authorize("volume:delete")
        raise NotFound(f"{self.name} {ref[:60]} could not be found.")


class Zones(VolumeView):
    """/v3/os-availability-zone."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("availability_zone")
        return Response({"availabilityZoneInfo": [{"zoneName": "nova", "zoneState": {"available": True}}]})
