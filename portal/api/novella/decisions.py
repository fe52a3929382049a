"""Scheduling decisions: show them, and evaluate them again."""

from __future__ import annotations

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.scheduling import decisions, replays, types
from conductor.services.scheduling.types import DecisionQuery, DecisionSummary, DecisionView, HostExplained
from portal.api.base import ApiRequest
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import DataSerializer, envelope, missing_cells, objects, page, serializer_of
from portal.api.novella.fields import ChoiceField
from portal.api.novella.filters import FilterField, PageFilter, TimestampFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet
from portal.api.pagination import next_links


class DecisionSerializer(DataSerializer):
    """The choice of a host, or the reason for choosing none."""

    class Meta:
        dataclass = DecisionView


class MatrixSerializer(DataSerializer):
    """The verdict of every filter on every host."""

    class Meta:
        dataclass = types.Matrix
        exclude = ("has_more",)


DecisionSummarySerializer = serializer_of(DecisionSummary)
HostExplainedSerializer = serializer_of(HostExplained)
RemediesSerializer = serializer_of(types.Remedies)
EvaluationSerializer = serializer_of(types.Evaluation)


class DecisionFilter(PageFilter):
    run_uuid = FilterField()
    instance_uuid = FilterField()
    project_id = FilterField()
    outcome = FilterField()
    since = TimestampFilter()
    until = TimestampFilter()


class DecisionHostFilter(PageFilter):
    verdict = FilterField()
    rejected_by = FilterField()


class EvaluateBody(BodySerializer):
    fleet = ChoiceField(("then", "now"), required=False)


class DecisionViewSet(NovellaViewSet):
    lookup_url_kwarg = "decision_uuid"

    @describes(page("decisions", DecisionSummarySerializer, missing_cells=missing_cells()), query=DecisionFilter)
    def list(self, request: ApiRequest) -> Response:
        """List decisions, the newest first."""
        self.authorize("novella:decisions:list")
        found = decisions.list_page(request.context, DecisionQuery(**DecisionFilter.parse(request)))
        return self.page("decisions", DecisionSummarySerializer, found, missing_cells=found.missing_cells)

    @describes(envelope(decision=DecisionSerializer))
    def retrieve(self, request: ApiRequest, decision_uuid: str) -> Response:
        """Show how a host was chosen, or why none was."""
        self.authorize("novella:decisions:show")
        return Response({"decision": self.shown(DecisionSerializer, decisions.get(request.context, decision_uuid))})

    @describes(page("hosts", None, hosts=objects(), total=serializers.IntegerField()), query=DecisionHostFilter)
    @action(detail=True)
    def hosts(self, request: ApiRequest, decision_uuid: str) -> Response:
        """List the hosts with their verdicts as decided; a `marker` is a position."""
        self.authorize("novella:decisions:hosts")
        query = DecisionHostFilter.parse(request)
        limit, marker = query.pop("limit"), query.pop("marker")
        if marker and not (marker.isascii() and marker.isdigit()):
            raise Invalid("The marker is the position that the link to the next page has.", field="marker")
        found = decisions.hosts_page(request.context, decision_uuid, **query)
        begin = int(marker or 0)
        end = begin + limit
        body = {"hosts": found[begin:end], "total": len(found)}
        return Response(body | next_links(request, "hosts", last_id=str(end), has_more=end < len(found)))

    @describes(envelope(host=HostExplainedSerializer))
    @action(detail=True, url_path="hosts/<str:host>")
    def host(self, request: ApiRequest, decision_uuid: str, host: str) -> Response:
        """Explain why this host was chosen, or why not."""
        self.authorize("novella:decisions:hosts")
        found = replays.explain_host(request.context, decision_uuid, host)
        return Response({"host": self.shown(HostExplainedSerializer, found)})

    @describes(envelope(weights=objects()))
    @action(detail=True)
    def weights(self, request: ApiRequest, decision_uuid: str) -> Response:
        """List the heaviest hosts with the weight from every weigher."""
        self.authorize("novella:decisions:hosts")
        return Response({"weights": decisions.weights(request.context, decision_uuid)})

    @describes(page("hosts", None, matrix=MatrixSerializer()), query=PageFilter)
    @action(detail=True)
    def matrix(self, request: ApiRequest, decision_uuid: str) -> Response:
        """Show the verdict of every filter on every host at that time; hosts that few filters reject come first."""
        self.authorize("novella:decisions:hosts")
        query = PageFilter.parse(request)
        found = replays.matrix(request.context, decision_uuid, **query)
        last = f"{found.hosts[-1]['host']}/{found.hosts[-1]['node']}" if found.hosts else None
        links = next_links(request, "hosts", last_id=last, has_more=found.has_more)
        return Response({"matrix": self.shown(MatrixSerializer, found)} | links)

    @describes(RemediesSerializer)
    @action(detail=True, url_path="fits-if")
    def fits_if(self, request: ApiRequest, decision_uuid: str) -> Response:
        """List the hosts that came nearest, and the smallest changes that would have made the server fit."""
        self.authorize("novella:decisions:show")
        return Response(self.shown(RemediesSerializer, replays.remedies(request.context, decision_uuid)))

    @describes(envelope(evaluation=EvaluationSerializer), body=EvaluateBody)
    @action(detail=True, methods=["post"])
    def evaluate(self, request: ApiRequest, decision_uuid: str) -> Response:
        """Evaluate the request again without a claim, on the fleet of that time or of now."""
        self.authorize("novella:decisions:evaluate")
        body = EvaluateBody.parse(request.data or {})
        found = replays.evaluate(request.context, decision_uuid, body.get("fleet", replays.THEN))
        return Response({"evaluation": self.shown(EvaluationSerializer, found)})
