"""Files of the storage as volumes and snapshots: lists of files, and managing unmanaged ones."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.volumes import management
from conductor.services.volumes.management import ManageAsk
from conductor.volume import unmanaged_files
from conductor.volume.snapshots import SnapshotCreate
from conductor.volume.unmanaged_files import StorageFile
from portal.api import microversions
from portal.api.base import ApiRequest
from portal.api.pagination import next_links, parse_page
from portal.api.validation import as_boolean, validate
from portal.api.volume import listing
from portal.api.volume.representations.resources import snapshot
from portal.api.volume.representations.volumes import volume
from portal.api.volume.schemas import volumes as schemas
from portal.api.volume.view import VolumeView

SORT_KEYS = ("size", "reference")


class Files(VolumeView):
    """List of files; `kind`, `rule` and `noun` select the kind, `is_detailed` the format."""

    kind, noun, rule = unmanaged_files.VOLUME, "manageable-volumes", "volume_extension:list_manageable"
    is_detailed = False
    first_version = "3.0"

    def get(self, request: ApiRequest) -> Response:
        microversions.require(request.microversion, self.first_version, None)
        self.authorize(self.rule)
        management.require_host(self._host(request))
        page, shown = parse_page(request), [self._one(file) for file in self._sorted(request)]
        names = [str(one["reference"]["source-name"]) for one in shown]
        if page.marker and page.marker not in names:
            raise Invalid(f"Marker {page.marker[:60]} names no file of the list.", field="marker")
        begin = names.index(page.marker) + 1 if page.marker else 0
        found = shown[begin : begin + page.limit]
        last = names[begin + len(found) - 1] if found else None
        links = next_links(request, self.noun, last_id=last, has_more=begin + len(found) < len(shown))
        return Response({self.noun: found} | links)

    def _host(self, request: ApiRequest) -> str:
        host = request.query_params.get("host", "")
        if not host:
            raise Invalid("Host must be specified in query parameters: it is a host with its storage.", field="host")
        return str(host)

    def _sorted(self, request: ApiRequest) -> list[StorageFile]:
        found = unmanaged_files.found(self.kind)
        for key, is_descending in reversed(listing.sort_of(request.query_params) or [("reference", False)]):
            if key not in SORT_KEYS:
                raise Invalid(f"Invalid sort key: {key[:60]}. It must be size or reference.", field="sort")
            found.sort(key=attrgetter("size_gb" if key == "size" else "name"), reverse=is_descending)
        return found

    def _one(self, file: StorageFile) -> dict[str, Any]:
        owner = str(file.owner) if file.owner else None
        shown: dict[str, Any] = {
            "reference": {"source-name": file.name},
            "size": file.size_gb,
            "safe_to_manage": owner is None,
        }
        if self.kind == unmanaged_files.SNAPSHOT:
            source = str(file.volume) if file.volume else None
            shown["source_reference"] = {"source-name": source} if source else {}
        if self.is_detailed:
            shown |= {
                "reason_not_safe": "already managed" if owner else None,
                "cinder_id": owner,
                "extra_info": None,
            }
        return shown


class ManageVolume(Files):
    """/v3/os-volume-manage."""

    def post(self, request: ApiRequest) -> Response:
        microversions.require(request.microversion, self.first_version, None)
        self.authorize("volume_extension:volume_manage")
        given = validate(request.data, schemas.MANAGE)["volume"]
        host = given.get("host") or given.get("cluster")
        if not host:
            raise Invalid("Missing required element 'host' in request body.", field="volume.host")
        ask = ManageAsk(
            host=host,
            source_name=_source_name(given["ref"], "volume.ref"),
            name=given.get("name") or "",
            description=given.get("description"),
            type_ref=given.get("volume_type"),
            availability_zone=given.get("availability_zone"),
            metadata=given.get("metadata") or {},
            is_bootable=as_boolean(given.get("bootable") or False, "volume.bootable"),
        )
        made = management.manage(request.context, ask)
        return Response({"volume": volume(made, request, is_new=True)}, status=202)


class ManageSnapshot(Files):
    """/v3/os-snapshot-manage."""

    kind, noun, rule = unmanaged_files.SNAPSHOT, "manageable-snapshots", "snapshot_extension:list_manageable"

    def post(self, request: ApiRequest) -> Response:
        microversions.require(request.microversion, self.first_version, None)
        self.authorize("snapshot_extension:snapshot_manage")
        given = validate(request.data, schemas.MANAGE_SNAPSHOT)["snapshot"]
        requested = SnapshotCreate(
            name=given.get("name") or "",
            description=given.get("description"),
            metadata=given.get("metadata") or {},
        )
        name = _source_name(given["ref"], "snapshot.ref")
        made = management.manage_snapshot(request.context, given["volume_id"], name, requested)
        return Response({"snapshot": snapshot(made, request, is_detailed=False)}, status=202)


def _source_name(ref: dict[str, Any], field: str) -> str:
    """Return the file's name, by which the storage identifies it. Raises Invalid."""
    name = ref.get("source-name")
    if len(ref) != 1 or not isinstance(name, str):
        raise Invalid(f'Invalid reference {field}: it must be {{"source-name": the name of a file}}.', field=field)
    return name
