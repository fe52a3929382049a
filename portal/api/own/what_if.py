"""Asking before doing: a launch, a move, a drain, on today's fleet or on another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.core.context import RequestContext
from conductor.core.scheduling.what_if import FleetChange, NewHosts
from conductor.services import what_if
from conductor.services.drains import Wish
from conductor.services.values import BuildWish
from conductor.services.what_if import DrainPreview, FitView, Refusal
from portal.api.authorization import is_allowed
from portal.api.base import ApiRequest
from portal.api.compute.policies import RULES as COMPUTE_RULES
from portal.api.own import schemas
from portal.api.own.openapi import described
from portal.api.own.view import OwnView
from portal.api.validation import as_boolean, validate

NUMBERS = ("vcpus", "memory_mb", "disk_gb", "root_gb", "ephemeral_gb", "swap_mb")


class Launch(OwnView):
    @described({"fit": FitView}, body=schemas.WHAT_IF_LAUNCH)
    def post(self, request: ApiRequest) -> Response:
        """Would so many servers find hosts, what would refuse them, and what would make them fit?"""
        self.authorize("novella:what_if:launch")
        body = validate(request.data, schemas.WHAT_IF_LAUNCH)
        found = what_if.launch(
            request.context,
            wish_of(body),
            fleet=fleet_of(body.get("fleet", {})),
            flavor=_numbered(body.get("flavor_changes", {})),
            refusals=refusals(request.context, "os_compute_api:servers:create"),
        )
        return Response({"fit": asdict(found)})


class Move(OwnView):
    @described({"fit": FitView}, body=schemas.WHAT_IF_MOVE)
    def post(self, request: ApiRequest) -> Response:
        """Could a server move, or with `flavor` be resized?"""
        self.authorize("novella:what_if:move")
        body = validate(request.data, schemas.WHAT_IF_MOVE)
        is_live = as_boolean(body.get("is_live", False), "is_live")
        rule = "os_compute_api:servers:resize"
        if "flavor" not in body:
            rule = f"os_compute_api:os-migrate-server:migrate{'_live' if is_live else ''}"
        found = what_if.move(
            request.context,
            body["server"],
            flavor_ref=body.get("flavor", ""),
            is_live=is_live,
            fleet=fleet_of(body.get("fleet", {})),
            refusals=refusals(request.context, rule),
        )
        return Response({"fit": asdict(found)})


class Drain(OwnView):
    @described({"drain": DrainPreview}, body=schemas.WHAT_IF_DRAIN)
    def post(self, request: ApiRequest) -> Response:
        """Where would each guest of a host go?"""
        self.authorize("novella:what_if:drain")
        body = validate(request.data, schemas.WHAT_IF_DRAIN)
        wish = Wish(allows_cold=as_boolean(body.get("allows_cold", Wish().allows_cold), "allows_cold"))
        found = what_if.drain(request.context, body["host"], wish, fleet=fleet_of(body.get("fleet", {})))
        return Response({"drain": asdict(found)})


def wish_of(body: Mapping[str, Any]) -> BuildWish:
    """The launch that a checked body asks about."""
    return BuildWish(
        name="what-if",
        flavor_ref=body["flavor"],
        image_ref=body["image"],
        max_count=int(body.get("count", 1)),
        min_count=int(body.get("count", 1)),
        availability_zone=body.get("availability_zone", ""),
        scheduler_hints={name: _words(value) for name, value in body.get("scheduler_hints", {}).items()},
        requested_host=body.get("host", ""),
    )


def refusals(context: RequestContext, rule: str) -> list[Refusal]:
    """What the policy of the real thing would say."""
    if is_allowed(COMPUTE_RULES[rule], context):
        return []
    return [Refusal("policy", f"Policy doesn't allow {rule} to be performed.")]


def fleet_of(body: Mapping[str, Any]) -> FleetChange:
    """The change of the fleet that a checked body asks about."""
    return FleetChange(
        add=tuple(_new_hosts(one) for one in body.get("add", ())),
        remove=tuple(body.get("remove", ())),
        enable=tuple(body.get("enable", ())),
        disable=tuple(body.get("disable", ())),
    )


def _new_hosts(body: Mapping[str, Any]) -> NewHosts:
    values = _numbered(body.get("values", {}))
    if "traits" in values:
        values["traits"] = frozenset(values["traits"])
    return NewHosts(body["count"], body.get("like", ""), values)


def _numbered(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers may come as text."""
    return {name: int(value) if name in NUMBERS else value for name, value in values.items()}


def _words(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
