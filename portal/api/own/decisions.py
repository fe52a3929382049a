"""Reading the scheduler's decisions, and asking them again."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import decision_replays, decisions
from conductor.services.decision_values import DecisionQuery
from portal.api.base import ApiRequest
from portal.api.own import schemas
from portal.api.own.view import OwnView, decision_body, plain
from portal.api.pagination import next_links, parse_page
from portal.api.validation import validate

USUAL_LIMIT = 100
FILTERS = frozenset({"run_uuid", "instance_uuid", "project_id", "outcome"})
TIMES = frozenset({"since", "until"})
PAGES = frozenset({"limit", "marker"})


class Decisions(OwnView):
    def get(self, request: ApiRequest) -> Response:
        """Newest first, narrowed by filters."""
        self.authorize("novella:decisions:list")
        _refuse_unknown(request, FILTERS | TIMES | PAGES)
        limit, marker = _page(request)
        query = DecisionQuery(
            since=_time(request, "since"),
            until=_time(request, "until"),
            limit=limit,
            marker=marker,
            **{name: request.query_params.get(name, "") for name in FILTERS},
        )
        found = decisions.list_page(request.context, query)
        body = {"decisions": [plain(asdict(one)) for one in found.items], "missing_cells": found.missing_cells}
        last = found.items[-1].uuid if found.items else None
        return Response(body | next_links(request, "decisions", last_id=last, has_more=found.has_more))


class Decision(OwnView):
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        self.authorize("novella:decisions:show")
        return Response({"decision": decision_body(decisions.get(request.context, decision_uuid))})


class Hosts(OwnView):
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        """The hosts with their verdicts as decided; `verdict` and `rejected_by` narrow, `marker` is a position."""
        self.authorize("novella:decisions:hosts")
        _refuse_unknown(request, PAGES | {"verdict", "rejected_by"})
        limit, marker = _page(request)
        if marker and not (marker.isascii() and marker.isdigit()):
            raise Invalid("The marker is the position that the link to the next page has.", field="marker")
        found = decisions.hosts_page(
            request.context,
            decision_uuid,
            verdict=request.query_params.get("verdict", ""),
            rejected_by=request.query_params.get("rejected_by", ""),
        )
        begin = int(marker or 0)
        end = begin + limit
        body = {"hosts": found[begin:end], "total": len(found)}
        return Response(body | next_links(request, "hosts", last_id=str(end), has_more=end < len(found)))


class Weights(OwnView):
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        """The heaviest hosts with what every weigher said."""
        self.authorize("novella:decisions:hosts")
        return Response({"weights": decisions.weights(request.context, decision_uuid)})


class Matrix(OwnView):
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        """Every filter about every host, as the hosts were then; those that few filters turn away first."""
        self.authorize("novella:decisions:hosts")
        _refuse_unknown(request, PAGES)
        limit, marker = _page(request)
        found = decision_replays.matrix(request.context, decision_uuid, limit=limit, marker=marker)
        last = f"{found.hosts[-1]['host']}/{found.hosts[-1]['node']}" if found.hosts else None
        links = next_links(request, "hosts", last_id=last, has_more=found.has_more)
        body: dict[str, Any] = asdict(found)
        del body["has_more"]
        return Response({"matrix": body} | links)


class Host(OwnView):
    def get(self, request: ApiRequest, decision_uuid: str, host: str) -> Response:
        """Why this host, or why not."""
        self.authorize("novella:decisions:hosts")
        return Response({"host": asdict(decision_replays.explain_host(request.context, decision_uuid, host))})


class FitsIf(OwnView):
    def get(self, request: ApiRequest, decision_uuid: str) -> Response:
        """The hosts that came nearest, and the smallest changes that would have made it fit."""
        self.authorize("novella:decisions:show")
        return Response(asdict(decision_replays.remedies(request.context, decision_uuid)))


class Evaluate(OwnView):
    def post(self, request: ApiRequest, decision_uuid: str) -> Response:
        """How it would end if it were decided again; nothing is claimed."""
        self.authorize("novella:decisions:evaluate")
        body = validate(request.data or {}, schemas.EVALUATE)
        found = decision_replays.evaluate(request.context, decision_uuid, body.get("fleet", decision_replays.THEN))
        return Response({"evaluation": asdict(found)})


def _page(request: ApiRequest) -> tuple[int, str]:
    page = parse_page(request)
    return (page.limit if "limit" in request.query_params else USUAL_LIMIT), page.marker


def _refuse_unknown(request: ApiRequest, known: frozenset[str]) -> None:
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        raise Invalid(f"There is no filter {unknown[0][:60]}; there are {', '.join(sorted(known))}.", field="query")


def _time(request: ApiRequest, name: str) -> datetime | None:
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text[:60]} is not a time such as 2026-01-31T12:00:00Z.", field=name) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
