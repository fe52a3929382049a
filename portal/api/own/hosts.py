"""Emptying hosts for maintenance and opening them again; having all of a dead one built anew elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from conductor.core.errors import NotFound
from conductor.services import canaries, drains, evacuations, hosts
from conductor.services.announcements import moment
from conductor.services.canaries import CanaryView
from conductor.services.drains import DrainView, PlannedMove, Wish
from conductor.services.hosts import HypervisorQuery
from conductor.services.values import HypervisorView
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.links import absolute
from portal.api.own import schemas
from portal.api.own.openapi import LINKS, MISSING, described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, word_of
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, plain
from portal.api.pagination import next_links
from portal.api.validation import as_boolean, validate

HOST = Part("Host", HypervisorView)
DRAIN = Part("Drain", DrainView, {"links": LINKS})


class Hosts(OwnView):
    @described({"hosts": [HOST], "missing_cells": MISSING, **next_page("hosts")}, query=PAGES | {"name", "host"})
    def get(self, request: ApiRequest) -> Response:
        """Nodes of all cells by name, with their service; a part of the node's `name`, or the `host`, narrow."""
        self.authorize("novella:hosts:list")
        refuse_unknown(request, PAGES | {"name", "host"})
        limit, marker = page_of(request)
        host = word_of(request, "host")
        query = HypervisorQuery(word_of(request, "name"), limit, marker, hosts=(host,) if host else ())
        found = hosts.list_hypervisors(request.context, query)
        body = {"hosts": [host_body(one) for one in found.items], "missing_cells": found.missing_cells}
        last = found.items[-1].uuid if found.items else None
        return Response(body | next_links(request, "hosts", last_id=last, has_more=found.has_more))


class Drain(OwnView):
    @described({"drain": DRAIN})
    def get(self, request: ApiRequest, host: str) -> Response:
        """The newest drain of the host, with the servers that are left."""
        self.authorize("novella:hosts:show")
        return Response({"drain": drain_body(request, drains.get(request.context, host))})

    @described({"drain": DRAIN}, 202, body=schemas.DRAIN, others={200: {"plan": [PlannedMove]}})
    @idempotent
    def post(self, request: ApiRequest, host: str) -> Response:
        """Begin; or with `dry_run` only say what would become of each server."""
        self.authorize("novella:hosts:drain")
        body = validate(request.data, schemas.DRAIN)
        usual = Wish()
        wish = Wish(
            most_at_once=int(body.get("most_at_once", usual.most_at_once)),
            allows_cold=as_boolean(body.get("allows_cold", usual.allows_cold), "allows_cold"),
            deadline_at=moment(body["deadline_at"], "deadline_at") if "deadline_at" in body else None,
        )
        if as_boolean(body.get("dry_run", False), "dry_run"):
            return Response({"plan": plan_body(drains.preview(request.context, host, wish))})
        drains.begin(request.context, host, wish)
        return Response({"drain": drain_body(request, drains.get(request.context, host))}, status=202)


class DrainAction(OwnView):
    @described({"drain": DRAIN}, 202, body=schemas.DRAIN_ACTION)
    @idempotent
    def post(self, request: ApiRequest, host: str) -> Response:
        """Pause, resume (with another deadline), stop (the host stays closed) or cancel (it is opened again)."""
        self.authorize("novella:hosts:drain")
        body = validate(request.data, schemas.DRAIN_ACTION)
        deadline_at = moment(body["deadline_at"], "deadline_at") if "deadline_at" in body else None
        view = drains.act(request.context, host, body["action"], deadline_at=deadline_at)
        return Response({"drain": drain_body(request, view)}, status=202)


class Open(OwnView):
    @described({"host": {"host": str, "is_disabled": bool, "is_up": bool}}, body=schemas.NOTHING, is_body_optional=True)
    @idempotent
    def post(self, request: ApiRequest, host: str) -> Response:
        """End the host's maintenance: it takes new work."""
        self.authorize("novella:hosts:drain")
        validate(request.data or {}, schemas.NOTHING)
        service = drains.open_again(request.context, host)
        return Response({"host": {"host": service.host, "is_disabled": service.is_disabled, "is_up": service.is_up}})


class Note(OwnView):
    @described({"host": {"host": str, "maintenance_note": str}}, body=schemas.HOST_NOTE)
    @idempotent
    def post(self, request: ApiRequest, host: str) -> Response:
        """Say what is done to a host that is out of service; "" for nothing. It goes when the host is back."""
        self.authorize("novella:hosts:drain")
        body = validate(request.data, schemas.HOST_NOTE)
        drains.note(request.context, host, body["note"])
        service = drains.service_of(request.context, host)
        return Response({"host": {"host": service.host, "maintenance_note": service.maintenance_note}})


class Canary(OwnView):
    @described({"canary": CanaryView})
    def get(self, request: ApiRequest, host: str) -> Response:
        """The newest try of the host."""
        self.authorize("novella:hosts:show")
        return Response({"canary": _canary(request, host)})

    @described({"canary": CanaryView}, 202, body=schemas.CANARY, is_body_optional=True)
    @idempotent
    def post(self, request: ApiRequest, host: str) -> Response:
        """Try a closed host with a small server, and open it if that lives."""
        self.authorize("novella:hosts:drain")
        body = validate(request.data or {}, schemas.CANARY)
        canaries.begin(request.context, host, flavor_ref=body.get("flavor", ""), image_ref=body.get("image", ""))
        return Response({"canary": _canary(request, host)}, status=202)


def _canary(request: ApiRequest, host: str) -> dict[str, Any]:
    found = canaries.newest(request.context, host)
    if found is None:
        raise NotFound(f"Host {host} was never tried.")
    return dict(plain(asdict(found)))


class Evacuate(OwnView):
    @described(
        {"workflows": Mapping[str, str], "refused": Mapping[str, str]}, 202, body=schemas.NOTHING, is_body_optional=True
    )
    @idempotent
    def post(self, request: ApiRequest, host: str) -> Response:
        """Have every server of a dead host built anew; workflows by server, and why others cannot be."""
        self.authorize("novella:hosts:evacuate")
        validate(request.data or {}, schemas.NOTHING)
        service = drains.service_of(request.context, host)
        begun, refused = evacuations.begin_all(request.context, service)
        return Response({"workflows": begun, "refused": refused}, status=202)


def host_body(view: HypervisorView) -> dict[str, Any]:
    return {**asdict(view), "service": plain(asdict(view.service))}


def drain_body(request: Request, view: DrainView) -> dict[str, Any]:
    body = asdict(view)
    body["links"] = [
        {"rel": "workflow", "href": absolute(request, f"/api/workflows/{view.run_uuid}")},
        {"rel": "alternate", "href": absolute(request, f"/workflows/{view.run_uuid}"), "type": "text/html"},
    ]
    return body


def plan_body(plan: Sequence[PlannedMove]) -> list[dict[str, Any]]:
    return [asdict(row) for row in plan]
