"""Limits of projects and of quota classes."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.quotas import volume_quotas
from portal.api.base import ApiRequest
from portal.api.validation import as_boolean, validate
from portal.api.volume.representations.quotas import limits
from portal.api.volume.schemas.volumes import QUOTA_CLASS, QUOTAS
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


class Limits(VolumeView):
    """/v3/limits."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("limits_extension:used_limits")
        project_id = request.context.project_id
        if request.microversion.covers("3.39") and self.may("volume_extension:quotas:update"):
            given = request.query_params
            project_id = given.get("project_id") or given.get("tenant_id") or project_id
        by_name = {quota.resource: quota for quota in volume_quotas.show(project_id)}
        absolute = {shown: by_name[name].limit for shown, name in SUMS.items()}
        absolute |= {shown: by_name[name].in_use for shown, name in USED.items()}
        return Response({"limits": {"rate": [], "absolute": absolute}})


class QuotaSet(VolumeView):
    """/v3/os-quota-sets/{project}."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("volume_extension:quotas:show", target_project_id=project_id)
        found = volume_quotas.show(project_id)
        if as_boolean(request.query_params.get("usage", False), "usage"):
            shown: dict[str, Any] = {
                quota.resource: {"limit": quota.limit, "in_use": quota.in_use, "reserved": 0} for quota in found
            }
        else:
            shown = {quota.resource: quota.limit for quota in found}
        return Response({"quota_set": {"id": project_id, **shown}})

    def put(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("volume_extension:quotas:update")
        wanted = limits(validate(request.data, QUOTAS)["quota_set"], "quota_set")
        found = volume_quotas.update(project_id, wanted)
        return Response({"quota_set": {quota.resource: quota.limit for quota in found}})

    def delete(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("volume_extension:quotas:delete")
        volume_quotas.reset(project_id)
        return Response(status=200)


class QuotaDefaults(VolumeView):
    """/v3/os-quota-sets/{project}/defaults."""

    def get(self, request: ApiRequest, project_id: str) -> Response:
        self.authorize("volume_extension:quotas:show", target_project_id=project_id)
        return Response({"quota_set": {"id": project_id, **volume_quotas.class_limits()}})


class QuotaClass(VolumeView):
    """/v3/os-quota-class-sets/{class}."""

    def get(self, request: ApiRequest, name: str) -> Response:
        self.authorize("volume_extension:quota_classes:get")
        return Response({"quota_class_set": {"id": name, **volume_quotas.class_limits(name)}})

    def put(self, request: ApiRequest, name: str) -> Response:
        self.authorize("volume_extension:quota_classes:update")
        if not 1 <= len(name) <= 255:
            raise Invalid("The name of a quota class has 1 to 255 characters.", field="class_name")
        wanted = limits(validate(request.data, QUOTA_CLASS)["quota_class_set"], "quota_class_set")
        return Response({"quota_class_set": volume_quotas.update_class(name, wanted)})
