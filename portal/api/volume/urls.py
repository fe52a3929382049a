"""Routes of the volume API, below /volume. A project id may follow the version."""

from __future__ import annotations

from typing import Any

from django.urls import URLPattern, URLResolver, re_path

from portal.api.base import unknown_route
from portal.api.volume.versions import VERSIONS
from portal.api.volume.views import (
    attachments,
    backups,
    groups,
    management,
    messages,
    operators,
    qos,
    quotas,
    service,
    snapshots,
    transfers,
    types,
    volume_actions,
    volumes,
)

_VOLUME = r"volumes/(?P<volume_id>[^/]+)"
_SNAPSHOT = r"snapshots/(?P<snapshot_id>[^/]+)"
_TYPE = r"types/(?P<type_id>[^/]+)"
_QOS = r"qos-specs/(?P<qos_id>[^/]+)"
_TRANSFER = r"(?P<transfer_id>[^/]+)"
_ATTACHMENT = r"attachments/(?P<attachment_id>[^/]+)"
_BACKUP = r"backups/(?P<backup_id>[^/]+)"
_GROUP_SNAPSHOT = r"group_snapshots/(?P<ref>[^/]+)"
_GROUP_TYPE = r"group_types/(?P<type_id>[^/]+)"


def _route(route: str, view: Any) -> Any:
    return re_path(rf"^v3/(?:[0-9a-f]{{32}}/)?{route}$", view)


def _detailed(noun: str, view: Any, **attributes: Any) -> Any:
    """Route of a detailed list, which has no POST: creation is at the plain list."""
    return _route(noun, view.as_view(**attributes, http_method_names=["get", "head", "options"]))


def _transfers(noun: str, *, is_newer: bool) -> list[Any]:
    """Routes of transfers, which exist below two names."""
    return [
        _route(noun, transfers.Transfers.as_view(is_newer=is_newer)),
        _detailed(f"{noun}/detail", transfers.Transfers, is_newer=is_newer, is_detailed=True),
        _route(f"{noun}/{_TRANSFER}", transfers.TransferById.as_view(is_newer=is_newer)),
        _route(f"{noun}/{_TRANSFER}/accept", transfers.Accept.as_view(is_newer=is_newer)),
    ]


def _files(older: str, newer: str, view: Any) -> list[Any]:
    """Routes of manageable files below two names, the newer one from 3.8 on; a POST manages a file."""
    return [
        _route(older, view.as_view()),
        _detailed(f"{older}/detail", view, is_detailed=True),
        _route(newer, view.as_view(first_version="3.8")),
        _detailed(f"{newer}/detail", view, is_detailed=True, first_version="3.8"),
    ]


def _nothing(noun: str, name: str) -> list[Any]:
    """Routes of a collection that is not offered."""
    return [
        _route(noun, service.Empty.as_view(name=noun)),
        _detailed(f"{noun}/detail", service.Empty, name=noun),
        _route(rf"{noun}/(?P<ref>[^/]+)", service.EmptyById.as_view(name=name)),
    ]


urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"^$", service.Root.as_view()),
    re_path(r"^v3/?$", service.V3.as_view()),
    _route("volumes", volumes.Volumes.as_view()),
    _detailed("volumes/detail", volumes.Volumes, is_detailed=True),
    _route("volumes/summary", volumes.Summary.as_view()),
    _route(_VOLUME, volumes.VolumeById.as_view()),
    _route(rf"{_VOLUME}/action", volume_actions.VolumeAction.as_view()),
    _route(rf"{_VOLUME}/metadata", volumes.Metadata.as_view()),
    _route(rf"{_VOLUME}/metadata/(?P<key>[^/]+)", volumes.MetadataItem.as_view()),
    _route("snapshots", snapshots.Snapshots.as_view()),
    _detailed("snapshots/detail", snapshots.Snapshots, is_detailed=True),
    _route(_SNAPSHOT, snapshots.SnapshotById.as_view()),
    _route(rf"{_SNAPSHOT}/action", snapshots.SnapshotAction.as_view()),
    _route(rf"{_SNAPSHOT}/metadata", snapshots.Metadata.as_view()),
    _route(rf"{_SNAPSHOT}/metadata/(?P<key>[^/]+)", snapshots.MetadataItem.as_view()),
    _route("types", types.Types.as_view()),
    _route(_TYPE, types.TypeById.as_view()),
    _route(rf"{_TYPE}/action", types.TypeAction.as_view()),
    _route(rf"{_TYPE}/os-volume-type-access", types.TypeAccess.as_view()),
    _route(rf"{_TYPE}/extra_specs", types.ExtraSpecs.as_view()),
    _route(rf"{_TYPE}/extra_specs/(?P<key>[^/]+)", types.ExtraSpec.as_view()),
    _route(rf"{_TYPE}/encryption", types.Encryption.as_view()),
    _route(rf"{_TYPE}/encryption/(?P<encryption_id>[^/]+)", types.EncryptionById.as_view()),
    _route("qos-specs", qos.QosSpecs.as_view()),
    _route(_QOS, qos.QosSpecById.as_view()),
    _route(rf"{_QOS}/delete_keys", qos.DeleteKeys.as_view()),
    _route(rf"{_QOS}/associations", qos.Associations.as_view()),
    *(_route(rf"{_QOS}/{verb}", qos.Associate.as_view(verb=verb)) for verb in qos.VERBS),
    *_transfers("os-volume-transfer", is_newer=False),
    *_transfers("volume-transfers", is_newer=True),
    _route("attachments", attachments.Attachments.as_view()),
    _detailed("attachments/(?:detail|summary)", attachments.Attachments, is_detailed=True),
    _route(_ATTACHMENT, attachments.AttachmentById.as_view()),
    _route(rf"{_ATTACHMENT}/action", attachments.AttachmentAction.as_view()),
    _route("backups", backups.Backups.as_view()),
    _detailed("backups/detail", backups.Backups, is_detailed=True),
    _route("backups/import_record", backups.ImportRecord.as_view()),
    _route(_BACKUP, backups.BackupById.as_view()),
    _route(rf"{_BACKUP}/action", backups.BackupAction.as_view()),
    _route(rf"{_BACKUP}/restore", backups.Restore.as_view()),
    _route(rf"{_BACKUP}/export_record", backups.ExportRecord.as_view()),
    _route("groups", groups.Groups.as_view()),
    _detailed("groups/detail", groups.Groups, is_detailed=True),
    _route("groups/action", groups.GroupFromSource.as_view()),
    _route(r"groups/(?P<group_id>[^/]+)", groups.GroupById.as_view()),
    _route(r"groups/(?P<group_id>[^/]+)/action", groups.GroupAction.as_view()),
    _route("group_snapshots", groups.GroupSnapshots.as_view()),
    _detailed("group_snapshots/detail", groups.GroupSnapshots, is_detailed=True),
    _route(_GROUP_SNAPSHOT, groups.GroupSnapshotById.as_view()),
    _route(rf"{_GROUP_SNAPSHOT}/action", groups.GroupSnapshotAction.as_view()),
    _route("group_types", groups.GroupTypes.as_view()),
    _route(_GROUP_TYPE, groups.GroupTypeById.as_view()),
    _route(rf"{_GROUP_TYPE}/group_specs", groups.GroupSpecs.as_view()),
    _route(rf"{_GROUP_TYPE}/group_specs/(?P<key>[^/]+)", groups.GroupSpec.as_view()),
    _route("messages", messages.Messages.as_view()),
    _route(r"messages/(?P<message_id>[^/]+)", messages.MessageById.as_view()),
    _route("limits", quotas.Limits.as_view()),
    _route(r"os-quota-sets/(?P<project_id>[^/]+)", quotas.QuotaSet.as_view()),
    _route(r"os-quota-sets/(?P<project_id>[^/]+)/defaults", quotas.QuotaDefaults.as_view()),
    _route(r"os-quota-class-sets/(?P<name>[^/]+)", quotas.QuotaClass.as_view()),
    _route("os-services", operators.Services.as_view()),
    _route(r"os-services/(?P<verb>[^/]+)", operators.ServiceUpdate.as_view()),
    *_files("os-volume-manage", "manageable_volumes", management.ManageVolume),
    *_files("os-snapshot-manage", "manageable_snapshots", management.ManageSnapshot),
    _route("os-hosts", operators.Hosts.as_view()),
    _route(r"os-hosts/(?P<host>[^/]+)", operators.HostById.as_view()),
    _route("scheduler-stats/get_pools", operators.Pools.as_view()),
    _route(r"capabilities/(?P<host>[^/]+)", operators.Capabilities.as_view()),
    _route("extensions", service.Extensions.as_view()),
    _route("resource_filters", service.ResourceFilters.as_view()),
    _route("os-availability-zone", service.Zones.as_view()),
    *_nothing("consistencygroups", "ConsistencyGroup"),
    *_nothing("cgsnapshots", "CgSnapshot"),
    re_path("", unknown_route("volume", VERSIONS)),
]
