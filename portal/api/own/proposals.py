"""Other choices of filters and weighers, proposed by one operator, and applied or declined by another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services import plugin_proposals
from conductor.services.plugin_proposals import ProposalView
from conductor.services.plugins import Difference
from portal.api.base import ApiRequest
from portal.api.errors import ConditionNeeded
from portal.api.idempotency import idempotent
from portal.api.own import schemas
from portal.api.own.conditions import HEADER
from portal.api.own.openapi import described
from portal.api.own.queries import refuse_unknown, word_of
from portal.api.own.shapes import Part
from portal.api.own.suppositions import supposition_of
from portal.api.own.view import OwnView, plain
from portal.api.validation import validate

CHANGED = Part("PluginDifference", Difference)  # `Difference` is another one's name
PROPOSAL = Part("Proposal", ProposalView, {"differences": [CHANGED]})
ONE = {"proposal": PROPOSAL}
STATES = (plugin_proposals.OPEN, plugin_proposals.APPLIED, plugin_proposals.DECLINED)
_SEEN = re.compile(r'\A(?:W/)?"([a-z]+:\d{1,9}(?:,[a-z]+:\d{1,9})*)"\Z')
NEVER = -1  # no version is ever this one


class Proposals(OwnView):
    @described({"proposals": [PROPOSAL]}, query={"state"})
    def get(self, request: ApiRequest) -> Response:
        """The open ones first, then the newest of the others, fifty of each; what one changes stands with the one."""
        self.authorize("novella:proposals:list")
        refuse_unknown(request, frozenset({"state"}))
        state = word_of(request, "state", STATES)
        found = [one for one in plugin_proposals.newest(request.context) if state in ("", one.state)]
        return Response({"proposals": [plain(asdict(one)) for one in found]})

    @described(ONE, 201, body=schemas.PROPOSE)
    @idempotent
    def post(self, request: ApiRequest) -> Response:
        """Keep a change for review: `plugins` as a what-if question has them; nothing is changed by it."""
        self.authorize("novella:proposals:change")
        body = validate(request.data, schemas.PROPOSE)
        changes = supposition_of({"plugins": body["plugins"]}).plugins
        question = body.get("question", "")
        made = plugin_proposals.propose(request.context, changes, question=question, reason=body["reason"])
        answer = _one(request, made, status=201)
        answer["Location"] = request.build_absolute_uri(f"/api/what-if/proposals/{made}")
        return answer


class Proposal(OwnView):
    @described(ONE)
    def get(self, request: ApiRequest, proposal_uuid: str) -> Response:
        """With the difference from what is chosen now; the `ETag` says which versions that was."""
        self.authorize("novella:proposals:list")
        return _one(request, proposal_uuid)


class Apply(OwnView):
    @described(ONE, body=schemas.DECIDE_PROPOSAL, takes_if_match=True)
    @idempotent
    def post(self, request: ApiRequest, proposal_uuid: str) -> Response:
        """Make the change, all of it or nothing; `If-Match` is the difference that was looked at."""
        self.authorize("novella:proposals:change")
        body = validate(request.data, schemas.DECIDE_PROPOSAL)
        versions = _seen_versions(request, plugin_proposals.get(request.context, proposal_uuid))
        plugin_proposals.apply(request.context, proposal_uuid, reason=body["reason"], versions=versions)
        return _one(request, proposal_uuid)


class Decline(OwnView):
    @described(ONE, body=schemas.DECIDE_PROPOSAL)
    @idempotent
    def post(self, request: ApiRequest, proposal_uuid: str) -> Response:
        """Leave all as it is; whoever proposed may do that too."""
        self.authorize("novella:proposals:change")
        body = validate(request.data, schemas.DECIDE_PROPOSAL)
        plugin_proposals.decline(request.context, proposal_uuid, reason=body["reason"])
        return _one(request, proposal_uuid)


def _one(request: ApiRequest, proposal_uuid: str, status: int = 200) -> Response:
    found = plugin_proposals.get(request.context, proposal_uuid)
    answer = Response({"proposal": plain(asdict(found))}, status=status)
    if found.versions:
        answer["ETag"] = '"{}"'.format(",".join(f"{kind}:{number}" for kind, number in sorted(found.versions.items())))
    return answer


def _seen_versions(request: ApiRequest, found: ProposalView) -> Mapping[str, int]:
    """The versions that the asker has seen, of every kind that would change; none for any."""
    text = request.headers.get(HEADER, "").strip()
    if text == "*":
        return {}
    if not text:
        raise ConditionNeeded(
            'Send If-Match with the ETag of the proposal that you have seen, such as "filter:3", or *.'
        )
    match = _SEEN.match(text)
    if match is None:
        raise Invalid('If-Match is the ETag of the proposal, such as "filter:3", or *.', field=HEADER)
    pairs: Any = (one.split(":") for one in match[1].split(","))
    seen = {kind: int(number) for kind, number in pairs}
    return {kind: seen.get(kind, NEVER) for kind in found.versions}
