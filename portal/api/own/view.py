"""What holds for all views of our own API: a token or a browser's session, and our own words for faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from conductor.core.context import RequestContext
from conductor.services.decision_values import DecisionView
from conductor.services.flow_actions import ActionChoice, LeaseView, Panel
from conductor.services.values import EventView, RunView, StepView
from portal.api.authentication import TokenAuthentication
from portal.api.authorization import ADMIN, MANAGER, MEMBER, READER, RuleTable
from portal.api.base import ApiRequest, ApiView
from portal.api.links import absolute
from portal.api.own.openapi import LINKS
from portal.api.own.shapes import Part, Ref
from portal.askers import asker_of, user_of
from portal.request_ids import request_id_of

RULES: RuleTable = {
    "novella:workflows:list": READER,
    "novella:workflows:show": READER,
    "novella:workflows:events": READER,
    "novella:workflows:steer": MANAGER,
    "novella:events:list": READER,
    "novella:locks:list": READER,
    "novella:decisions:list": READER,
    "novella:decisions:show": READER,
    "novella:decisions:evaluate": READER,
    "novella:decisions:hosts": ADMIN,
    "novella:what_if:launch": READER,
    "novella:what_if:move": READER,
    "novella:what_if:drain": ADMIN,
    "novella:what_if:compare": ADMIN,
    "novella:what_if:replay": ADMIN,
    "novella:audit:list": READER,
    "novella:audit:seals": ADMIN,
    "novella:findings:list": ADMIN,
    "novella:triage:list": ADMIN,
    "novella:triage:change": ADMIN,
    "novella:plugins:list": ADMIN,
    "novella:plugins:change": ADMIN,
    "novella:servers:metrics": READER,
    "novella:servers:try_again": MEMBER,
    "novella:console_shares:list": READER,
    "novella:console_shares:change": MEMBER,
    "novella:proposals:list": ADMIN,
    "novella:proposals:change": ADMIN,
    "novella:agreements:list": ADMIN,
    "novella:subscriptions:list": READER,
    "novella:subscriptions:change": MEMBER,
    "novella:quota_requests:list": READER,
    "novella:quota_requests:ask": MEMBER,
    "novella:quota_requests:decide": ADMIN,
    "novella:budgets:list": ADMIN,
    "novella:budgets:show": READER,
    "novella:budgets:change": MANAGER,
    "novella:snapshot_schedules:list": READER,
    "novella:snapshot_schedules:change": MEMBER,
    "novella:announcements:list": READER,
    "novella:announcements:change": ADMIN,
    "novella:second_factors:show": ADMIN,
    "novella:second_factors:reset": ADMIN,
    "novella:cells:list": ADMIN,
    "novella:cells:change": ADMIN,
    "novella:hosts:list": ADMIN,
    "novella:hosts:show": ADMIN,
    "novella:hosts:drain": ADMIN,
    "novella:hosts:evacuate": ADMIN,
}


RUN = Part("Workflow", RunView, {"children": [Ref("Workflow")], "links": LINKS})
ABOUT_RUN = {"revision": str, "requested": str, "actions": [ActionChoice], "leases": [LeaseView]}
RUN_IN_FULL = Part("WorkflowInFull", RunView, {"children": [RUN], "links": LINKS, **ABOUT_RUN})
EVENT = Part("Event", EventView, {"cursor": str})


class SessionReading(BaseAuthentication):
    """The session of a page, for reading only: what changes something must show a token."""

    def authenticate(self, request: Request | HttpRequest) -> tuple[Any, RequestContext] | None:
        http_request = request._request if isinstance(request, Request) else request
        if http_request.method not in ("GET", "HEAD", "OPTIONS"):
            return None
        asker = asker_of(http_request.session, request_id_of(http_request))
        return (user_of(http_request.session), asker) if asker is not None else None


class OwnView(ApiView):
    """Base of the views below /api."""

    service = "own"
    policies = RULES
    authentication_classes = (TokenAuthentication, SessionReading)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Every list says which cells it lacks, in the words that its asker may read."""
        data = getattr(response, "data", None)
        if isinstance(data, dict) and "missing_cells" in data:
            data["missing_cells"] = missing_body(self.request, data["missing_cells"])
        return super().finalize_response(request, response, *args, **kwargs)


def missing_body(request: ApiRequest, missing: Mapping[str, str]) -> dict[str, str]:
    """Cells that did not answer. Why is for operators: it names databases and machines."""
    return dict(missing) if request.context.is_admin else dict.fromkeys(missing, "did not answer")


def run_body(request: ApiRequest, run: RunView) -> dict[str, Any]:
    """A workflow as JSON; `links` says where to look next."""
    body = plain(asdict(run))
    body["steps"] = [step_body(step) for step in run.steps]
    body["children"] = [run_body(request, child) for child in run.children]
    body["missing_cells"] = missing_body(request, run.missing_cells)
    path = f"/api/workflows/{run.uuid}"
    body["links"] = [
        {"rel": "self", "href": absolute(request, path)},
        {"rel": "events", "href": absolute(request, f"{path}/events")},
        {"rel": "alternate", "href": absolute(request, f"/workflows/{run.uuid}"), "type": "text/html"},
    ]
    return body


def panel_body(panel: Panel) -> dict[str, Any]:
    """What may be done to a workflow, for which revision, and who has owned it."""
    return {
        "revision": panel.revision,
        "requested": panel.requested,
        "actions": [asdict(action) for action in panel.actions],
        "leases": [plain(asdict(lease)) for lease in panel.leases],
    }


def step_body(step: StepView) -> dict[str, Any]:
    return plain(asdict(step))


def event_body(event: EventView) -> dict[str, Any]:
    """An event; `cursor` is the place after it in its log."""
    return {**plain(asdict(event)), "cursor": f"{event.alias}:{event.number}"}


def decision_body(decision: DecisionView) -> dict[str, Any]:
    return plain(asdict(decision))


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """A view's values as JSON: times and amounts of money become text."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else value
