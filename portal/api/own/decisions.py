"""Reading the scheduler's decisions, and asking them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import decision_replays, decision_values, decisions
from conductor.services.decision_values import DecisionQuery, DecisionSummary, DecisionView, HostExplained
from portal.api.base import ApiRequest
from portal.api.own import schemas
from portal.api.own.openapi import MISSING, described, next_page
from portal.api.own.queries import PAGES, page_of, refuse_unknown, time_of, word_of
from portal.api.own.shapes import Part
from portal.api.own.view import OwnView, decision_body, plain
from portal.api.pagination import next_links
from portal.api.validation import validate

FILTERS = frozenset({"run_uuid", "instance_uuid", "project_id", "outcome"})
TIMES = frozenset({"since", "until"})
MATRIX = Part("Matrix", decision_values.Matrix, without=("has_more",))
REMEDIES = Part("Remedies", decision_values.Remedies)
EVALUATION = Part("Evaluation", decision_values.Evaluation)


class Decisions(OwnView):
    @described(
        {"decisions": [DecisionSummary], "missing_cells": MISSING, **next_page("decisions")},
        query=FILTERS | TIMES | PAGES,
    )
    def get(self, request: ApiRequest) -> Response:
        """Newest first, narrowed by filters."""
        self.authorize("novella:decisions:list")
        refuse_unknown(request, FILTERS | TIMES | PAGES)
        limit, marker = page_of(request)
        query = DecisionQuery(
            since=time_of(request, "since"),
            until=time_of(request, "until"),
            limit=limit,
            marker=marker,
            **{name: word_of(request, name) for name in FILTERS},
        )
        found = decisions.list_page(request.context, query)
        body = {"decisions": [plain(asdict(one)) for one in found.items], "missing_cells": found.missing_cells}
        last = found.items[-1].uuid if found.items else None
        return Response(body | next_links(request, "decisions", last_id=last, has_more=found.has_more))


class Decision(OwnView):
    @described({"decision": DecisionView})
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        """How a host was chosen, or why none was."""
        self.authorize("novella:decisions:show")
        return Response({"decision": decision_body(decisions.get(request.context, decision_uuid))})


class Hosts(OwnView):
    @described(
        {"hosts": [Mapping[str, Any]], "total": int, **next_page("hosts")}, query=PAGES | {"verdict", "rejected_by"}
    )
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        """The hosts with their verdicts as decided; `verdict` and `rejected_by` narrow, `marker` is a position."""
        self.authorize("novella:decisions:hosts")
        refuse_unknown(request, PAGES | {"verdict", "rejected_by"})
        limit, marker = page_of(request)
        if marker and not (marker.isascii() and marker.isdigit()):
            raise Invalid("The marker is the position that the link to the next page has.", field="marker")
        found = decisions.hosts_page(
            request.context,
            decision_uuid,
            verdict=word_of(request, "verdict"),
            rejected_by=word_of(request, "rejected_by"),
        )
        begin = int(marker or 0)
        end = begin + limit
        body = {"hosts": found[begin:end], "total": len(found)}
        return Response(body | next_links(request, "hosts", last_id=str(end), has_more=end < len(found)))


class Weights(OwnView):
    @described({"weights": [Mapping[str, Any]]})
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        """The heaviest hosts with what every weigher said."""
        self.authorize("novella:decisions:hosts")
        return Response({"weights": decisions.weights(request.context, decision_uuid)})


class Matrix(OwnView):
    @described({"matrix": MATRIX, **next_page("hosts")}, query=PAGES)
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        """Every filter about every host, as the hosts were then; those that few filters turn away first."""
        self.authorize("novella:decisions:hosts")
        refuse_unknown(request, PAGES)
        limit, marker = page_of(request)
        found = decision_replays.matrix(request.context, decision_uuid, limit=limit, marker=marker)
        last = f"{found.hosts[-1]['host']}/{found.hosts[-1]['node']}" if found.hosts else None
        links = next_links(request, "hosts", last_id=last, has_more=found.has_more)
        body: dict[str, Any] = asdict(found)
        del body["has_more"]
        return Response({"matrix": body} | links)


class Host(OwnView):
    @described({"host": HostExplained})
    def get(self, request: ApiRequest, decision_uuid: str, host: str) -> Response:
        """Why this host, or why not."""
        self.authorize("novella:decisions:hosts")
        return Response({"host": asdict(decision_replays.explain_host(request.context, decision_uuid, host))})


class FitsIf(OwnView):
    @described(REMEDIES)
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        """The hosts that came nearest, and the smallest changes that would have made it fit."""
        self.authorize("novella:decisions:show")
        return Response(asdict(decision_replays.remedies(request.context, decision_uuid)))


class Evaluate(OwnView):
    @described({"evaluation": EVALUATION}, body=schemas.EVALUATE, is_body_optional=True)
    def post(self, request: ApiRequest, decision_uuid: str) -> Response:
        """How it would end if it were decided again; nothing is claimed."""
        self.authorize("novella:decisions:evaluate")
        body = validate(request.data or {}, schemas.EVALUATE)
        found = decision_replays.evaluate(request.context, decision_uuid, body.get("fleet", decision_replays.THEN))
        return Response({"evaluation": asdict(found)})
