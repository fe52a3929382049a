"""Reading workflows, their steps and their events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from rest_framework.response import Response

from conductor.core.states import RunState
from conductor.services import event_log, flow_actions, flow_search, flows
from conductor.services.event_log import Cursor
from conductor.services.flow_actions import ActionChoice
from conductor.services.flow_search import FACETS, RunQuery
from conductor.services.values import EventView, StepView
from portal.api.base import ApiRequest
from portal.api.own.openapi import MISSING, PARAMETERS, TEXT, described, next_page, several
from portal.api.own.queries import PAGES, page_of, refuse_unknown, time_of, word_of, words_of
from portal.api.own.shapes import Part
from portal.api.own.view import EVENT, RUN, RUN_IN_FULL, OwnView, event_body, panel_body, run_body, step_body
from portal.api.pagination import next_links

WORDS = frozenset({"cell", "project_id", "user_id", "request_id", "instance_uuid", "parent_uuid"})
TIMES = frozenset({"since", "until"})
MOST_EVENTS = 1000
SEVERAL = {"state": several(*RunState), "flow": several(), "action": several()}
PARAMETERS_OF_PAGES = {name: PARAMETERS.get(name, TEXT) for name in sorted(PAGES | TIMES)}
STEP = Part("StepOfWorkflow", StepView, {"run_uuid": str})
FACET_COUNTS = Mapping[str, Mapping[str, int]]
EVENTS = {"events": [EVENT], "cursor": str}


class Workflows(OwnView):
    @described(
        {
            "workflows": [RUN],
            "facets": FACET_COUNTS,
            "missing_cells": MISSING,
            **next_page("workflows"),
        },
        query={**dict.fromkeys(sorted(WORDS), TEXT), **SEVERAL, **PARAMETERS_OF_PAGES},
    )
    def get(self, request: ApiRequest) -> Response:
        """Newest first. `state`, `flow` and `action` may be given several times; `facets` counts what each leaves."""
        self.authorize("novella:workflows:list")
        refuse_unknown(request, PAGES | TIMES | WORDS | set(FACETS))
        limit, marker = page_of(request)
        query = RunQuery(
            state=words_of(request, "state", list(RunState)),
            flow=words_of(request, "flow"),
            action=words_of(request, "action"),
            since=time_of(request, "since"),
            until=time_of(request, "until"),
            limit=limit,
            marker=marker,
            **{name: word_of(request, name) for name in WORDS},
        )
        found = flow_search.search(request.context, query)
        page = found.page
        body = {
            "workflows": [run_body(request, run) for run in page.items],
            "facets": found.facets,
            "missing_cells": page.missing_cells,
        }
        last = page.items[-1].uuid if page.items else None
        return Response(body | next_links(request, "workflows", last_id=last, has_more=page.has_more))


class Workflow(OwnView):
    @described({"workflow": RUN_IN_FULL})
    def get(self, request: ApiRequest, run_uuid: str) -> Response:
        """With `revision` and `actions`: what may be done to it now, and why not."""
        self.authorize("novella:workflows:show")
        panel = flow_actions.panel(request.context, run_uuid)
        run = run_body(request, flows.get(request.context, run_uuid))
        answer = Response({"workflow": {**run, **panel_body(panel)}})
        answer["ETag"] = f'"{panel.revision}"'
        return answer


class WorkflowSteps(OwnView):
    @described({"steps": [STEP]})
    def get(self, request: ApiRequest, run_uuid: str) -> Response:
        """What was tried, in order, and what is planned; then the steps of the workflows that it handed work to."""
        self.authorize("novella:workflows:show")
        run = flows.get(request.context, run_uuid)
        steps = [{"run_uuid": one.uuid, **step_body(step)} for one in (run, *run.children) for step in one.steps]
        return Response({"steps": steps})


class WorkflowActions(OwnView):
    @described({"revision": str, "actions": [ActionChoice]})
    def get(self, request: ApiRequest, run_uuid: str) -> Response:
        """What may be done to it now, and why not; `ETag` is the revision to send with `If-Match`."""
        self.authorize("novella:workflows:show")
        panel = flow_actions.panel(request.context, run_uuid)
        answer = Response({"revision": panel.revision, "actions": [asdict(one) for one in panel.actions]})
        answer["ETag"] = f'"{panel.revision}"'
        return answer


class WorkflowEvents(OwnView):
    @described(EVENTS, query={"after", "limit"})
    def get(self, request: ApiRequest, run_uuid: str) -> Response:
        """What happened after `after`, and the cursor to ask with next time."""
        self.authorize("novella:workflows:events")
        refuse_unknown(request, {"after", "limit"})
        after = event_log.read_cursor(request.query_params.get("after", ""))
        found, reached = flows.events_since(request.context, run_uuid, after, _most(request))
        return _events(request, found, reached)


class Events(OwnView):
    @described(EVENTS, query={"after", "limit", "topic", "kind"})
    def get(self, request: ApiRequest) -> Response:
        """Everything that happened in the project after `after`; without it, nothing but where the log stands."""
        self.authorize("novella:events:list")
        refuse_unknown(request, {"after", "limit", "topic", "kind"})
        topic, kind = word_of(request, "topic", longest=128), word_of(request, "kind", longest=64)
        if "after" not in request.query_params:
            return _events(request, [], event_log.here())
        after = event_log.read_cursor(request.query_params["after"])
        found, reached = flows.events_of_project(request.context, after, _most(request), topic=topic, kind=kind)
        return _events(request, found, reached)


def _events(request: ApiRequest, found: list[EventView], reached: Cursor) -> Response:
    """A page of events; the header tells a stream (portal.live.event_streams) whose events it should wake for."""
    body = {"events": [event_body(event) for event in found], "cursor": event_log.write_cursor(reached)}
    follow = "all" if request.context.is_admin else request.context.project_id
    return Response(body, headers={"Novella-Follow": follow, "Novella-Caller": request.context.user_id})


def _most(request: ApiRequest) -> int:
    limit, _ = page_of(request)
    return max(1, limit) if "limit" in request.query_params else MOST_EVENTS
