"""Workflows with their steps and events."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.core.states import RunState
from conductor.services.workflows import actions as workflow_actions
from conductor.services.workflows import event_log, search, workflows
from conductor.services.workflows.actions import ActionPanel, AvailableIntervention, LeaseView
from conductor.services.workflows.search import RunQuery
from conductor.services.workflows.types import RunView, StepView
from portal.api.base import ApiRequest
from portal.api.links import absolute
from portal.api.novella.data import (
    DataSerializer,
    LinkSerializer,
    envelope,
    missing_cells,
    numbers,
    page,
    serializer_of,
)
from portal.api.novella.events import EVENTS, EventPageFilter, event_page, most_of
from portal.api.novella.filters import FilterField, ManyFilter, PageFilter, TimestampFilter
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet, missing_body, quoted

ActionSerializer = serializer_of(AvailableIntervention)
LeaseSerializer = serializer_of(LeaseView)


class WorkflowSerializer(DataSerializer):
    """A workflow with its steps and its child workflows."""

    links = LinkSerializer(many=True)

    class Meta:
        dataclass = RunView

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {**super().get_fields(), "children": WorkflowSerializer(many=True)}

    def represent_missing_cells(self, run: RunView) -> dict[str, str]:
        return missing_body(self.context["request"], run.missing_cells)

    def represent_links(self, run: RunView) -> list[dict[str, Any]]:
        request, path = self.context["request"], f"/api/workflows/{run.uuid}"
        return [
            {"rel": "self", "href": absolute(request, path)},
            {"rel": "events", "href": absolute(request, f"{path}/events")},
            {"rel": "alternate", "href": absolute(request, f"/workflows/{run.uuid}"), "type": "text/html"},
        ]


class WorkflowInFullSerializer(WorkflowSerializer):
    """A workflow with the actions that are permitted now; the context has the `panel`."""

    revision = serializers.CharField()
    requested = serializers.CharField()
    actions = ActionSerializer(many=True)
    leases = LeaseSerializer(many=True)

    def to_representation(self, instance: RunView) -> dict[str, Any]:
        panel: ActionPanel = self.context["panel"]
        return {
            **WorkflowSerializer(context=self.context).to_representation(instance),
            "revision": panel.revision,
            "requested": panel.requested,
            "actions": [asdict(one) for one in panel.actions],
            "leases": LeaseSerializer(panel.leases, many=True).data,
        }


class WorkflowStepSerializer(DataSerializer):
    """A step, with the workflow that it belongs to; the context has its `run_uuid`."""

    run_uuid = serializers.CharField()

    class Meta:
        dataclass = StepView

    def represent_run_uuid(self, step: StepView) -> str:
        return str(self.context["run_uuid"])


class WorkflowFilter(PageFilter):
    cell = FilterField()
    project_id = FilterField()
    user_id = FilterField()
    request_id = FilterField()
    instance_uuid = FilterField()
    parent_uuid = FilterField()
    state = ManyFilter([one.value for one in RunState])
    flow = ManyFilter()
    action = ManyFilter()
    since = TimestampFilter()
    until = TimestampFilter()


FACETS = serializers.DictField(child=numbers())


class WorkflowViewSet(NovellaViewSet):
    lookup_url_kwarg = "run_uuid"

    @describes(
        page("workflows", WorkflowSerializer, facets=FACETS, missing_cells=missing_cells()), query=WorkflowFilter
    )
    def list(self, request: ApiRequest) -> Response:
        """List workflows, the newest first.

        `state`, `flow` and `action` may be given several times; `facets` counts what each leaves.
        """
        self.authorize("novella:workflows:list")
        found = search.search(request.context, RunQuery(**WorkflowFilter.parse(request)))
        rows, facets = found.page, found.facets
        return self.page("workflows", WorkflowSerializer, rows, facets=facets, missing_cells=rows.missing_cells)

    @describes(envelope(workflow=WorkflowInFullSerializer))
    def retrieve(self, request: ApiRequest, run_uuid: str) -> Response:
        """Show a workflow with its `revision` and `actions`: what is permitted now, and why the rest is not."""
        self.authorize("novella:workflows:show")
        return workflow_in_full(request, run_uuid)

    @describes(envelope(steps=WorkflowStepSerializer(many=True)))
    @action(detail=True)
    def steps(self, request: ApiRequest, run_uuid: str) -> Response:
        """List the steps in order, done and planned; then those of the child workflows."""
        self.authorize("novella:workflows:show")
        run = workflows.get(request.context, run_uuid)
        rows = [
            row
            for one in (run, *run.children)
            for row in WorkflowStepSerializer(one.steps, many=True, context={"run_uuid": one.uuid}).data
        ]
        return Response({"steps": rows})

    @describes(envelope(revision=serializers.CharField, actions=ActionSerializer(many=True)))
    @action(detail=True)
    def actions(self, request: ApiRequest, run_uuid: str) -> Response:
        """List the permitted actions, and why others are not permitted; `ETag` is the revision for `If-Match`."""
        self.authorize("novella:workflows:show")
        panel = workflow_actions.panel(request.context, run_uuid)
        body = {"revision": panel.revision, "actions": [asdict(one) for one in panel.actions]}
        return Response(body, headers=quoted(panel.revision))

    @describes(EVENTS, query=EventPageFilter)
    @action(detail=True)
    def events(self, request: ApiRequest, run_uuid: str) -> Response:
        """List the workflow's events after `after`, with the cursor for the next request."""
        self.authorize("novella:workflows:events")
        query = EventPageFilter.parse(request)
        after = event_log.read_cursor(query["after"])
        found, reached = workflows.events_since(request.context, run_uuid, after, most_of(query))
        return event_page(request, found, reached)


def workflow_in_full(request: ApiRequest, run_uuid: str, status: int = 200) -> Response:
    """Return a workflow with the actions that are permitted now; `ETag` is its revision."""
    panel = workflow_actions.panel(request.context, run_uuid)
    run = workflows.get(request.context, run_uuid)
    body = WorkflowInFullSerializer(run, context={"request": request, "panel": panel}).data
    return Response({"workflow": body}, status=status, headers=quoted(panel.revision))
