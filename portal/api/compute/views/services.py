"""Services of all cells: whether each is up, and whether it accepts new work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid, NotFound
from conductor.core.identifiers import uuid_or_none
from conductor.services.fleet import enabling
from conductor.services.hosts import hosts
from conductor.services.hosts.types import ServiceView
from portal.api.base import ApiRequest
from portal.api.compute.representations import services as serializers
from portal.api.compute.schemas import services as schemas
from portal.api.compute.view import ComputeView
from portal.api.validation import as_boolean, validate

UUIDS_SINCE = "2.53"


class Services(ComputeView):
    def get(self, request: ApiRequest) -> Response:
        self.refuse_unknown_query(("host", "binary"))
        given = request.query_params
        found = hosts.list_services(request.context, host=given.get("host", ""), binary=given.get("binary", ""))
        shows_unknown = request.microversion.covers(serializers.DOWN_CELLS_SINCE)
        shown = [service for service in found.items if service.is_known or shows_unknown]
        return Response({"services": [serializers.show(service, request.microversion) for service in shown]})


class ServiceByRef(ComputeView):
    """A service by uuid; in older versions the last part of the path is the action, and the body names the service."""

    def put(self, request: ApiRequest, ref: str) -> Response:
        if not request.microversion.covers(UUIDS_SINCE):
            return self._by_name(ref)
        if uuid_or_none(ref) is None:
            raise Invalid(f"Invalid uuid {ref[:60]}", field="id")
        service = hosts.get_service(request.context, ref)
        changed = enabling.update(request.context, service, **_changes(validate(request.data, schemas.UPDATE)))
        return Response({"service": serializers.show(changed, request.microversion)})

    def delete(self, request: ApiRequest, ref: str) -> Response:
        """Delete a service, and its host if nothing is left on it."""
        if request.microversion.covers(UUIDS_SINCE) and uuid_or_none(ref) is None:
            raise Invalid(f"Invalid uuid {ref[:60]}", field="id")
        enabling.delete(request.context, hosts.get_service(request.context, ref))
        return Response(status=204)

    def _by_name(self, action: str) -> Response:
        schema = BY_NAME.get(action)
        if schema is None or (action == "force-down" and not self.request.microversion.covers("2.11")):
            raise NotFound("Unknown action")
        body = validate(self.request.data, schema)
        service = self._named(body["host"], body["binary"])
        changed = enabling.update(self.request.context, service, **_changes_by_name(action, body))
        return Response({"service": serializers.by_name(changed, action)})

    def _named(self, host: str, binary: str) -> ServiceView:
        for service in hosts.list_services(self.request.context, host=host, binary=binary).items:
            if service.is_known:
                return service
        raise NotFound(f"Could not find binary {binary} on host {host}.")


BY_NAME: Mapping[str, dict[str, Any]] = {
    "enable": schemas.SERVICE_BY_NAME,
    "disable": schemas.SERVICE_BY_NAME,
    "disable-log-reason": schemas.DISABLE_WITH_REASON,
    "force-down": schemas.FORCE_DOWN,
}


def _changes_by_name(action: str, body: Mapping[str, Any]) -> dict[str, Any]:
    if action == "force-down":
        return {"is_forced_down": as_boolean(body["forced_down"], "forced_down")}
    return {"is_disabled": action != "enable", "disabled_reason": body.get("disabled_reason")}


def _changes(body: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if body.get("disabled_reason") and body.get("status") != "disabled":
        raise Invalid("Specifying disabled_reason is only allowed when disabling the service.", field="disabled_reason")
    if "status" in body:
        is_disabled = body["status"] == "disabled"
        changes = {"is_disabled": is_disabled, "disabled_reason": body.get("disabled_reason") if is_disabled else None}
    if "forced_down" in body:
        changes["is_forced_down"] = as_boolean(body["forced_down"], "forced_down")
    return changes
