"""Reading workflows and their events."""

from __future__ import annotations

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.core.states import RunState
from conductor.services import event_log, flow_actions, flows
from portal.api.base import ApiRequest
from portal.api.own.view import OwnView, event_body, panel_body, run_body
from portal.api.pagination import next_links, parse_page

USUAL_LIMIT = 100


class Workflows(OwnView):
    def get(self, request: ApiRequest) -> Response:
        """Newest first. `state` may be given several times."""
        self.authorize("novella:workflows:list")
        page = parse_page(request)
        wanted = request.query_params.getlist("state")
        for state in wanted:
            if state not in list(RunState):
                raise Invalid(f"Unknown state {state[:60]}; it is one of {', '.join(RunState)}.", field="state")
        limit = page.limit if "limit" in request.query_params else USUAL_LIMIT
        found = flows.list_runs(request.context, states=wanted or None, limit=limit, marker=page.marker)
        body = {"workflows": [run_body(request, run) for run in found.items], "missing_cells": found.missing_cells}
        last = found.items[-1].uuid if found.items else None
        return Response(body | next_links(request, "workflows", last_id=last, has_more=found.has_more))


class Workflow(OwnView):
    def get(self, request: ApiRequest, run_uuid: str) -> Response:
        """With `revision` and `actions`: what may be done to it now, and why not."""
        self.authorize("novella:workflows:show")
        panel = flow_actions.panel(request.context, run_uuid)
        run = run_body(request, flows.get(request.context, run_uuid))
        answer = Response({"workflow": {**run, **panel_body(panel)}})
        answer["ETag"] = f'"{panel.revision}"'
        return answer


class WorkflowEvents(OwnView):
    def get(self, request: ApiRequest, run_uuid: str) -> Response:
        """What happened after `after`, and the cursor to ask with next time."""
        self.authorize("novella:workflows:events")
        after = event_log.read_cursor(request.query_params.get("after", ""))
        found, reached = flows.events_since(request.context, run_uuid, after)
        return Response({"events": [event_body(event) for event in found], "cursor": event_log.write_cursor(reached)})
