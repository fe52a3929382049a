"""Hosts: drains, canaries, evacuation, and maintenance notes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.services.fleet import canaries, drains, evacuations
from conductor.services.fleet.canaries import CanaryView
from conductor.services.fleet.drains import LONGEST_NOTE, DrainRequest, DrainView, PlannedMove
from conductor.services.hosts import hosts
from conductor.services.hosts.hosts import HypervisorQuery
from conductor.services.hosts.types import HypervisorView
from conductor.services.operations.announcements import moment
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.links import absolute
from portal.api.novella.bodies import BodySerializer, EmptyBody
from portal.api.novella.data import (
    DataSerializer,
    LinkSerializer,
    envelope,
    missing_cells,
    page,
    serializer_of,
    strings,
)
from portal.api.novella.fields import ChoiceField, CountField, LooseFlagField, NameField, TextField
from portal.api.novella.filters import FilterField, PageFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet


class HostSerializer(DataSerializer):
    """A node with its service and its capacity."""

    class Meta:
        dataclass = HypervisorView


class DrainRequestSerializer(DataSerializer):
    """The parameters of a drain."""

    deadline_at = serializers.DateTimeField(allow_null=True)

    class Meta:
        dataclass = DrainRequest


class DrainSerializer(DataSerializer):
    """The newest drain of a host."""

    requested = DrainRequestSerializer()
    links = LinkSerializer(many=True)

    class Meta:
        dataclass = DrainView

    def represent_links(self, drain: DrainView) -> list[dict[str, Any]]:
        request, uuid = self.context["request"], drain.run_uuid
        return [
            {"rel": "workflow", "href": absolute(request, f"/api/workflows/{uuid}")},
            {"rel": "alternate", "href": absolute(request, f"/workflows/{uuid}"), "type": "text/html"},
        ]


class HostStateSerializer(serializers.Serializer[Any]):
    """Availability of a host: whether it accepts new work, and whether it is up."""

    host = serializers.CharField()
    is_disabled = serializers.BooleanField()
    is_up = serializers.BooleanField()


class HostNoteSerializer(serializers.Serializer[Any]):
    """The maintenance note of a host that is out of service."""

    host = serializers.CharField()
    maintenance_note = serializers.CharField()


CanarySerializer = serializer_of(CanaryView)
PlannedMoveSerializer = serializer_of(PlannedMove)


class HostFilter(PageFilter):
    name = FilterField()
    host = FilterField()


class DrainCreate(BodySerializer):
    most_at_once = CountField(min_value=1, required=False)
    allows_cold = LooseFlagField(required=False)
    deadline_at = NameField(required=False)
    dry_run = LooseFlagField(required=False)


class DrainActionBody(BodySerializer):
    action = ChoiceField(("pause", "resume", "stop", "cancel"))
    deadline_at = NameField(required=False)


class CanaryCreate(BodySerializer):
    flavor = NameField(required=False)
    image = NameField(required=False)


class HostNoteBody(BodySerializer):
    note = TextField(max_length=LONGEST_NOTE)


DRAIN = envelope(drain=DrainSerializer)
CANARY = envelope(canary=CanarySerializer)


class HostViewSet(NovellaViewSet):
    lookup_url_kwarg = "host"

    @describes(page("hosts", HostSerializer, missing_cells=missing_cells()), query=HostFilter)
    def list(self, request: ApiRequest) -> Response:
        """List the nodes of all cells by name; filter by `host`, or by a part of the node's `name`."""
        self.authorize("novella:hosts:list")
        query = HostFilter.parse(request)
        named = (query["host"],) if query["host"] else ()
        found = hosts.list_hypervisors(
            request.context, HypervisorQuery(query["name"], query["limit"], query["marker"], hosts=named)
        )
        return self.page("hosts", HostSerializer, found, missing_cells=found.missing_cells)

    @describes(DRAIN)
    @action(detail=True)
    def drain(self, request: ApiRequest, host: str) -> Response:
        """Show the newest drain of the host, with the remaining servers."""
        self.authorize("novella:hosts:show")
        return self._drain(drains.get(request.context, host))

    @describes(DRAIN, 202, body=DrainCreate, others={200: envelope(plan=PlannedMoveSerializer(many=True))})
    @drain.mapping.post
    @idempotent
    def begin_drain(self, request: ApiRequest, host: str) -> Response:
        """Begin a drain; or with `dry_run` only predict the outcome for each server."""
        self.authorize("novella:hosts:drain")
        body = DrainCreate.parse(request.data)
        default = DrainRequest()
        wanted = DrainRequest(
            most_at_once=body.get("most_at_once", default.most_at_once),
            allows_cold=body.get("allows_cold", default.allows_cold),
            deadline_at=_deadline(body),
        )
        if body.get("dry_run", False):
            plan = drains.preview(request.context, host, wanted)
            return Response({"plan": self.shown(PlannedMoveSerializer, list(plan))})
        drains.begin(request.context, host, wanted)
        return self._drain(drains.get(request.context, host), 202)

    @describes(DRAIN, 202, body=DrainActionBody)
    @action(detail=True, methods=["post"], url_path="drain/action")
    @idempotent
    def drain_action(self, request: ApiRequest, host: str) -> Response:
        """Pause, resume (with another deadline), stop (the host stays closed) or cancel (it opens again) a drain."""
        self.authorize("novella:hosts:drain")
        body = DrainActionBody.parse(request.data)
        return self._drain(drains.act(request.context, host, body["action"], deadline_at=_deadline(body)), 202)

    @describes(CANARY)
    @action(detail=True)
    def canary(self, request: ApiRequest, host: str) -> Response:
        """Show the newest canary of the host."""
        self.authorize("novella:hosts:show")
        return self._canary(request, host)

    @describes(CANARY, 202, body=CanaryCreate)
    @canary.mapping.post
    @idempotent
    def begin_canary(self, request: ApiRequest, host: str) -> Response:
        """Test a closed host with a small server, and open the host if that becomes active."""
        self.authorize("novella:hosts:drain")
        body = CanaryCreate.parse(request.data or {})
        canaries.begin(request.context, host, flavor_ref=body.get("flavor", ""), image_ref=body.get("image", ""))
        return self._canary(request, host, 202)

    @describes(envelope(host=HostStateSerializer), body=EmptyBody)
    @action(detail=True, methods=["post"])
    @idempotent
    def open(self, request: ApiRequest, host: str) -> Response:
        """End the host's maintenance: it accepts new work."""
        self.authorize("novella:hosts:drain")
        EmptyBody.parse(request.data or {})
        service = drains.open_again(request.context, host)
        return Response({"host": HostStateSerializer(service).data})

    @describes(envelope(host=HostNoteSerializer), body=HostNoteBody)
    @action(detail=True, methods=["post"])
    @idempotent
    def note(self, request: ApiRequest, host: str) -> Response:
        """Set the maintenance note of a host, "" for none. The note is removed when the host is back in service."""
        self.authorize("novella:hosts:drain")
        drains.note(request.context, host, HostNoteBody.parse(request.data)["note"])
        return Response({"host": HostNoteSerializer(drains.service_of(request.context, host)).data})

    @describes(envelope(workflows=strings(), refused=strings()), 202, body=EmptyBody)
    @action(detail=True, methods=["post"])
    @idempotent
    def evacuate(self, request: ApiRequest, host: str) -> Response:
        """Rebuild every server of a dead host elsewhere; returns workflows by server, and refusals."""
        self.authorize("novella:hosts:evacuate")
        EmptyBody.parse(request.data or {})
        service = drains.service_of(request.context, host)
        begun, refused = evacuations.begin_all(request.context, service)
        return Response({"workflows": begun, "refused": refused}, status=202)

    def _drain(self, drain: DrainView, status: int = 200) -> Response:
        return Response({"drain": self.shown(DrainSerializer, drain)}, status=status)

    def _canary(self, request: ApiRequest, host: str, status: int = 200) -> Response:
        found = canaries.newest(request.context, host)
        if found is None:
            raise NotFound(f"Host {host} was never tried.")
        return Response({"canary": self.shown(CanarySerializer, found)}, status=status)


def _deadline(body: Mapping[str, Any]) -> datetime | None:
    return moment(body["deadline_at"], "deadline_at") if "deadline_at" in body else None
