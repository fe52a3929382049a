"""Views for operators: services, hosts, pools and capabilities of the storage."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.volume import backends
from conductor.volume.capabilities import BACKEND, CAPABILITIES, HOST, POOL
from portal.api.base import ApiRequest
from portal.api.validation import as_boolean, validate
from portal.api.volume.representations import resources as serializers
from portal.api.volume.schemas import resources as schemas
from portal.api.volume.view import VolumeView


class Services(VolumeView):
    """/v3/os-services. A host is named whole, or up to its `@`."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume_extension:services:index")
        binary, host = request.query_params.get("binary"), request.query_params.get("host")
        found = [
            row
            for row in backends.list_services(binary=binary)
            if host in (None, "", row.host, row.host.partition("@")[0])
        ]
        return Response({"services": [serializers.service(row, request) for row in found]})


class ServiceUpdate(VolumeView):
    """/v3/os-services/{enable, disable, disable-log-reason, freeze, thaw, …}."""

    def put(self, request: ApiRequest, verb: str) -> Response:
        self.authorize("volume_extension:services:update")
        if verb not in _VERBS:
            raise NotFound(f"Unknown action: {verb[:60]}")
        if verb in ("freeze", "thaw"):
            return self._freeze(verb == "freeze")
        given = validate(request.data, schemas.SERVICE)
        binary = given.get("binary") or given.get("service")
        if not binary or not given.get("host"):
            raise Invalid("Missing required element 'host' or 'binary' in request body.", field="binary")
        return self._turn(verb, str(binary), given["host"], given.get("disabled_reason"))

    def _turn(self, verb: str, binary: str, host: str, reason: str | None) -> Response:
        has_reason = verb == "disable-log-reason"
        if has_reason and not (reason or "").strip():
            raise Invalid(
                "Disabled reason contains invalid characters or is too long or empty.", field="disabled_reason"
            )
        is_disabled = verb != "enable"
        backends.update_service(binary, host, is_disabled=is_disabled, disabled_reason=reason if has_reason else None)
        shown: dict[str, Any] = {
            "host": host,
            "service": binary,
            "binary": binary,
            "disabled": is_disabled,
            "status": "disabled" if is_disabled else "enabled",
        }
        if verb != "disable":
            shown["disabled_reason"] = reason if has_reason else None
        return Response(shown)

    def _freeze(self, is_frozen: bool) -> Response:
        host = validate(self.request.data, schemas.HOST)["host"]
        try:
            backends.update_service(backends.VOLUME, host, is_frozen=is_frozen)
        except NotFound:
            raise Invalid(f"Host {host[:60]} runs no volume service.", field="host") from None
        return Response(status=200)


_VERBS = ("enable", "disable", "disable-log-reason", "freeze", "thaw")


class Hosts(VolumeView):
    """/v3/os-hosts."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("volume_extension:hosts")
        service = request.query_params.get("service")
        shown = [
            {
                "service-status": "available",
                "service": row.binary,
                "zone": "nova",
                "service-state": "disabled" if row.is_disabled else "enabled",
                "host_name": row.host,
                "last-update": row.updated_at.strftime("%Y-%m-%dT%H:%M:%S.%f"),
            }
            for row in backends.list_services(binary=service)
        ]
        return Response({"hosts": shown})


class HostById(VolumeView):
    """/v3/os-hosts/{host}."""

    def get(self, request: ApiRequest, host: str) -> Response:
        self.authorize("volume_extension:hosts")
        return Response({"host": [serializers.host_totals(row, host) for row in backends.totals(host)]})


class Pools(VolumeView):
    """/v3/scheduler-stats/get_pools."""

    def get(self, request: ApiRequest) -> Response:
        self.authorize("scheduler_extension:scheduler_stats:get_pools")
        given = request.query_params
        if given.get("name", BACKEND) != BACKEND:
            return Response({"pools": []})
        shown: dict[str, Any] = {"name": BACKEND}
        if as_boolean(given.get("detail", False), "detail"):
            shown["capabilities"] = backends.pool()
        return Response({"pools": [shown]})


class Capabilities(VolumeView):
    """/v3/capabilities/{host}."""

    def get(self, request: ApiRequest, host: str) -> Response:
        self.authorize("volume_extension:capabilities")
        if host not in (HOST, BACKEND):
            raise NotFound(f"Host {host[:60]} could not be found.")
        flags = {name: value for name, value in CAPABILITIES.items() if value in ("True", "False")}
        return Response(
            {
                "namespace": f"OS::Storage::Capabilities::{HOST}",
                "vendor_name": CAPABILITIES["vendor_name"],
                "volume_backend_name": CAPABILITIES["volume_backend_name"],
                "pool_name": POOL,
                "driver_version": CAPABILITIES["driver_version"],
                "storage_protocol": CAPABILITIES["storage_protocol"],
                "display_name": "Files",
                "description": "One sparse file for each volume",
                "visibility": "public",
                "replication_targets": [],
                "properties": {
                    name: {"title": name, "description": f"Whether the storage offers {name}.", "type": "boolean"}
                    for name in flags
                },
            }
        )
