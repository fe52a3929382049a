"""Answers to what-if questions: launch, move or drain on the current or a changed fleet, and comparisons of plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.response import Response

from conductor.core.context import RequestContext
from conductor.core.errors import Invalid
from conductor.core.plugin_choice import KINDS
from conductor.core.scheduling.what_if import FleetChange, NewHosts
from conductor.services.fleet.drains import DrainRequest
from conductor.services.scheduling import what_if, what_if_batches, what_if_comparisons
from conductor.services.scheduling.what_if import DrainPreview, FitView, Refusal
from conductor.services.scheduling.what_if_batches import BATCHES, BatchResult
from conductor.services.scheduling.what_if_comparisons import (
    LARGEST_SUBSET,
    Comparison,
    HostDifference,
    StageDifference,
    WhatIfChanges,
    WhatIfRequest,
)
from conductor.services.servers.types import InstanceCreate
from portal.api.authorization import is_allowed
from portal.api.base import ApiRequest
from portal.api.compute.policies import RULES as COMPUTE_RULES
from portal.api.novella.bodies import BodySerializer
from portal.api.novella.data import DataSerializer, envelope, serializer_of
from portal.api.novella.fields import (
    ChoiceField,
    CountField,
    IntegerField,
    ListField,
    LooseFlagField,
    MapField,
    NameField,
    NumberField,
    UuidField,
    WordsField,
)
from portal.api.novella.operations import describes
from portal.api.novella.plugins import PluginChange, change_of
from portal.api.novella.viewset import NovellaViewSet

# Names in the services that differ from those in bodies.
FIELDS = {"without": "fleet.remove", "closed": "fleet.disable", "opened": "fleet.enable", "replay": "count"}
LAUNCH_FIELDS = ("flavor", "image", "availability_zone", "host", "scheduler_hints")


class StageDifferenceSerializer(DataSerializer):
    """The numbers of hosts that a filter leaves, now and with the changes."""

    by = serializers.IntegerField()

    class Meta:
        dataclass = StageDifference


class HostDifferenceSerializer(DataSerializer):
    """A host now and with the changes."""

    fate = serializers.CharField()

    class Meta:
        dataclass = HostDifference


class ComparisonSerializer(DataSerializer):
    """One request, now and with the changes."""

    stages = StageDifferenceSerializer(many=True)
    hosts = HostDifferenceSerializer(many=True)

    class Meta:
        dataclass = Comparison


FitSerializer = serializer_of(FitView)
DrainPreviewSerializer = serializer_of(DrainPreview)
BatchSerializer = serializer_of(BatchResult)


def _names() -> ListField:
    return ListField(NameField(), required=False, max_length=1000)


def _ratio() -> NumberField:
    return NumberField(required=False, above=0, max_value=1000, message="It must be a number above 0.")


class NewHostValues(BodySerializer):
    vcpus = CountField(required=False)
    memory_mb = CountField(required=False)
    disk_gb = CountField(required=False)
    cpu_ratio = _ratio()
    ram_ratio = _ratio()
    disk_ratio = _ratio()
    availability_zone = NameField(required=False)
    cell = NameField(required=False)
    traits = _names()


class NewHostsBody(BodySerializer):
    count = IntegerField(min_value=1, max_value=10_000)
    like = NameField(required=False)
    values = NewHostValues(required=False)


class FleetBody(BodySerializer):
    add = ListField(NewHostsBody(), required=False, max_length=20)
    remove = _names()
    enable = _names()
    disable = _names()


class FlavorChanges(BodySerializer):
    vcpus = CountField(min_value=1, required=False)
    memory_mb = CountField(min_value=1, required=False)
    root_gb = CountField(required=False)
    ephemeral_gb = CountField(required=False)
    swap_mb = CountField(required=False)
    extra_specs = MapField(NameField(), required=False, most=100)


class RequestBody(BodySerializer):
    """The server that the question is about, and the fleet."""

    image = NameField()
    flavor = NameField()
    count = IntegerField(required=False, min_value=1, max_value=1000)
    availability_zone = NameField(required=False)
    host = NameField(required=False)
    scheduler_hints = MapField(WordsField(), required=False, most=20)
    fleet = FleetBody(required=False)


class LaunchBody(RequestBody):
    flavor_changes = FlavorChanges(required=False)


class MoveBody(BodySerializer):
    server = UuidField()
    flavor = NameField(required=False)
    is_live = LooseFlagField(required=False)
    fleet = FleetBody(required=False)


class DrainPreviewBody(BodySerializer):
    host = NameField()
    allows_cold = LooseFlagField(required=False)
    fleet = FleetBody(required=False)


# Hypothetical settings of plugins, by kind.
SupposedPlugins: type[BodySerializer] = type(
    "SupposedPlugins", (BodySerializer,), {kind: MapField(PluginChange(), required=False, most=500) for kind in KINDS}
)


class CompareBody(RequestBody):
    schema_rules = {"anyOf": [{"required": ["decision"]}, {"required": ["flavor", "image"]}]}

    flavor = NameField(required=False)
    image = NameField(required=False)
    decision = UuidField(required=False)
    image_properties = MapField(NameField(), required=False, most=100)
    plugins = SupposedPlugins(required=False)
    subset = IntegerField(required=False, min_value=1, max_value=LARGEST_SUBSET)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "decision" not in attrs and not ("flavor" in attrs and "image" in attrs):
            raise serializers.ValidationError("Name a decision, or a flavor and an image.", code="together")
        return attrs


class ReplayBody(BodySerializer):
    count = ChoiceField(BATCHES)
    fleet = FleetBody(required=False)
    plugins = SupposedPlugins(required=False)
    subset = IntegerField(required=False, min_value=1, max_value=LARGEST_SUBSET)


class WhatIfViewSet(NovellaViewSet):
    @describes(envelope(fit=FitSerializer), body=LaunchBody)
    @action(detail=False, methods=["post"])
    def launch(self, request: ApiRequest) -> Response:
        """Ask whether so many servers would find hosts, what refuses them, and what would make them fit."""
        self.authorize("novella:what_if:launch")
        body = LaunchBody.parse(request.data)
        found = what_if.launch(
            request.context,
            _launch_of(body),
            fleet=_fleet_of(body),
            flavor=body.get("flavor_changes", {}),
            refusals=refusals(request.context, "os_compute_api:servers:create"),
        )
        return Response({"fit": self.shown(FitSerializer, found)})

    @describes(envelope(fit=FitSerializer), body=MoveBody)
    @action(detail=False, methods=["post"])
    def move(self, request: ApiRequest) -> Response:
        """Ask whether a server could move, or with `flavor` be resized."""
        self.authorize("novella:what_if:move")
        body = MoveBody.parse(request.data)
        is_live = body.get("is_live", False)
        rule = "os_compute_api:servers:resize"
        if "flavor" not in body:
            rule = f"os_compute_api:os-migrate-server:migrate{'_live' if is_live else ''}"
        found = what_if.move(
            request.context,
            body["server"],
            flavor_ref=body.get("flavor", ""),
            is_live=is_live,
            fleet=_fleet_of(body),
            refusals=refusals(request.context, rule),
        )
        return Response({"fit": self.shown(FitSerializer, found)})

    @describes(envelope(drain=DrainPreviewSerializer), body=DrainPreviewBody)
    @action(detail=False, methods=["post"])
    def drain(self, request: ApiRequest) -> Response:
        """Ask where each guest of a host would go."""
        self.authorize("novella:what_if:drain")
        body = DrainPreviewBody.parse(request.data)
        wanted = DrainRequest(allows_cold=body.get("allows_cold", DrainRequest().allows_cold))
        found = what_if.drain(request.context, body["host"], wanted, fleet=_fleet_of(body))
        return Response({"drain": self.shown(DrainPreviewSerializer, found)})

    @describes(envelope(comparison=ComparisonSerializer), body=CompareBody)
    @action(detail=False, methods=["post"])
    def compare(self, request: ApiRequest) -> Response:
        """Compare one request, of a stored decision or a launch, now and with the changes."""
        self.authorize("novella:what_if:compare")
        body = CompareBody.parse(request.data)
        with _fields_as_sent():
            found = what_if_comparisons.compare(request.context, _question_of(body), changes_of(body))
        return Response({"comparison": self.shown(ComparisonSerializer, found)})

    @describes(envelope(replay=BatchSerializer), body=ReplayBody)
    @action(detail=False, methods=["post"])
    def replay(self, request: ApiRequest) -> Response:
        """Replay the newest requests, each by itself: which would lose their host, and which would get one."""
        self.authorize("novella:what_if:replay")
        body = ReplayBody.parse(request.data)
        with _fields_as_sent():
            found = what_if_batches.replay(request.context, body["count"], changes_of(body))
        return Response({"replay": self.shown(BatchSerializer, found)})


def _launch_of(body: Mapping[str, Any]) -> InstanceCreate:
    """Return the launch that a checked body asks about."""
    return InstanceCreate(
        name="what-if",
        flavor_ref=body["flavor"],
        image_ref=body["image"],
        max_count=body.get("count", 1),
        min_count=body.get("count", 1),
        availability_zone=body.get("availability_zone", ""),
        scheduler_hints=body.get("scheduler_hints", {}),
        requested_host=body.get("host", ""),
    )


def refusals(context: RequestContext, rule: str) -> list[Refusal]:
    """Return the refusals by policy that the real request would get."""
    if is_allowed(COMPUTE_RULES[rule], context):
        return []
    return [Refusal("policy", f"Policy doesn't allow {rule} to be performed.")]


def _fleet_of(body: Mapping[str, Any]) -> FleetChange:
    """Return the change of the fleet in a checked body."""
    fleet = body.get("fleet", {})
    return FleetChange(
        add=tuple(_new_hosts(one) for one in fleet.get("add", ())),
        remove=tuple(fleet.get("remove", ())),
        enable=tuple(fleet.get("enable", ())),
        disable=tuple(fleet.get("disable", ())),
    )


def _new_hosts(body: Mapping[str, Any]) -> NewHosts:
    values = dict(body.get("values", {}))
    if "traits" in values:
        values["traits"] = frozenset(values["traits"])
    return NewHosts(body["count"], body.get("like", ""), values)


def changes_of(body: Mapping[str, Any]) -> WhatIfChanges:
    """Return the hypothetical changes in a checked body."""
    fleet = _fleet_of(body)
    return WhatIfChanges(
        without=fleet.remove,
        closed=fleet.disable,
        opened=fleet.enable,
        add=fleet.add,
        plugins={
            kind: {name: change_of(values) for name, values in named.items()}
            for kind, named in body.get("plugins", {}).items()
        },
        subset=body.get("subset", 0),
    )


def _question_of(body: Mapping[str, Any]) -> WhatIfRequest:
    properties = body.get("image_properties", {})
    if "decision" not in body:
        return WhatIfRequest(_launch_of(body), image_properties=properties)
    for name in LAUNCH_FIELDS:
        if name in body:
            raise Invalid(f"The decision says what was asked: name either it or a {name}.", field=name)
    return WhatIfRequest(decision_uuid=body["decision"], image_properties=properties, count=body.get("count", 0))


@contextmanager
def _fields_as_sent() -> Iterator[None]:
    """Rename the field of a service's error to the name in the body."""
    try:
        yield
    except Invalid as refused:
        field = FIELDS.get(named := str(refused.details.get("field", "")), named)
        message = refused.message if field in refused.message else f"{field}: {refused.message}"
        raise Invalid(message, **{**refused.details, "field": field}) from refused
