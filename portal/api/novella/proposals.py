"""Proposals: changes of filters and weighers, applied or declined by a second operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.core.errors import Invalid
from conductor.services.plugins import proposals
from conductor.services.plugins.plugins import Difference
from conductor.services.plugins.proposals import LONGEST_QUESTION, ProposalView
from portal.api.base import ApiRequest
from portal.api.errors import ConditionNeeded
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.conditions import HEADER
from portal.api.novella.data import DataSerializer, envelope
from portal.api.novella.fields import ReasonField, TextField
from portal.api.novella.filters import ChoiceFilter, QuerySerializer
from portal.api.novella.operations import describes
from portal.api.novella.viewset import NovellaViewSet
from portal.api.novella.what_if import SupposedPlugins, changes_of

STATES = (proposals.OPEN, proposals.APPLIED, proposals.DECLINED)
_SEEN = re.compile(r'\A(?:W/)?"([a-z]+:\d{1,9}(?:,[a-z]+:\d{1,9})*)"\Z')
NEVER = -1  # no version is ever this one


class PluginDifferenceSerializer(DataSerializer):
    """A value that a proposal would change."""

    class Meta:
        dataclass = Difference


class ProposalSerializer(DataSerializer):
    """A proposal with its differences from the current settings."""

    differences = PluginDifferenceSerializer(many=True)

    class Meta:
        dataclass = ProposalView


class ProposalFilter(QuerySerializer):
    state = ChoiceFilter(STATES)


class ProposalCreate(BodySerializer):
    plugins = SupposedPlugins()
    reason = ReasonField()
    question = TextField(
        required=False,
        max_length=LONGEST_QUESTION,
        pattern=r"\A/what-if(\?[!-~]*)?\Z",
        message="It must be the address of a what-if question, from /what-if on.",
    )


class ProposalDecision(BodySerializer):
    reason = ReasonField()


ONE = envelope(proposal=ProposalSerializer)


class ProposalViewSet(NovellaViewSet):
    lookup_url_kwarg = "proposal_uuid"

    @describes(envelope(proposals=ProposalSerializer(many=True)), query=ProposalFilter)
    def list(self, request: ApiRequest) -> Response:
        """List the open proposals, then the newest of the others, fifty of each; each has its differences."""
        self.authorize("novella:proposals:list")
        state = ProposalFilter.parse(request)["state"]
        found = [one for one in proposals.newest(request.context) if state in ("", one.state)]
        return Response({"proposals": self.shown(ProposalSerializer, found)})

    @describes(ONE, 201, body=ProposalCreate)
    @idempotent
    def create(self, request: ApiRequest) -> Response:
        """Store a change for review: `plugins` as a what-if question has them. Nothing is changed yet."""
        self.authorize("novella:proposals:change")
        body = ProposalCreate.parse(request.data)
        changes = changes_of({"plugins": body["plugins"]}).plugins
        question = body.get("question", "")
        made = proposals.propose(request.context, changes, question=question, reason=body["reason"])
        answer = self._one(request, made, status=201)
        answer["Location"] = request.build_absolute_uri(f"/api/what-if/proposals/{made}")
        return answer

    @describes(ONE)
    def retrieve(self, request: ApiRequest, proposal_uuid: str) -> Response:
        """Show a proposal with its differences from the current settings; `ETag` has the versions of these."""
        self.authorize("novella:proposals:list")
        return self._one(request, proposal_uuid)

    @describes(ONE, body=ProposalDecision, takes_if_match=True)
    @action(detail=True, methods=["post"])
    @idempotent
    def apply(self, request: ApiRequest, proposal_uuid: str) -> Response:
        """Apply the change, all of it or nothing; `If-Match` is the `ETag` of the proposal that was read."""
        self.authorize("novella:proposals:change")
        body = ProposalDecision.parse(request.data)
        versions = _seen_versions(request, proposals.get(request.context, proposal_uuid))
        proposals.apply(request.context, proposal_uuid, reason=body["reason"], versions=versions)
        return self._one(request, proposal_uuid)

    @describes(ONE, body=ProposalDecision)
    @action(detail=True, methods=["post"])
    @idempotent
    def decline(self, request: ApiRequest, proposal_uuid: str) -> Response:
        """Decline a proposal: nothing changes. The operator who proposed it may do that too."""
        self.authorize("novella:proposals:change")
        body = ProposalDecision.parse(request.data)
        proposals.decline(request.context, proposal_uuid, reason=body["reason"])
        return self._one(request, proposal_uuid)

    def _one(self, request: ApiRequest, proposal_uuid: str, status: int = 200) -> Response:
        found = proposals.get(request.context, proposal_uuid)
        answer = Response({"proposal": self.shown(ProposalSerializer, found)}, status=status)
        if found.versions:
            versions = ",".join(f"{kind}:{number}" for kind, number in sorted(found.versions.items()))
            answer["ETag"] = f'"{versions}"'
        return answer


def _seen_versions(request: ApiRequest, found: ProposalView) -> Mapping[str, int]:
    """Return the versions that the caller has seen, of every kind that would change; none for any."""
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
