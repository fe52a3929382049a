"""Views of live migrations in Novella's API: their progress, and the actions on a running migration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.response import Response

from conductor.core.errors import Conflict, Forbidden, NotFound, NotSupported
from conductor.core.live_steering import STEERINGS, Steering
from conductor.services.audit import audit
from conductor.services.server_migrations import progress
from conductor.services.server_migrations.convergence import ConvergenceVerdict, Sample
from conductor.services.server_migrations.live_interventions import ABORT, FINISH
from conductor.services.server_migrations.permitted_actions import MigrationAction
from conductor.services.server_migrations.progress import MigrationPanel, OrderView
from portal.api.base import ApiRequest
from portal.api.idempotency import idempotent
from portal.api.novella.bodies import BodySerializer, EmptyBody
from portal.api.novella.data import DataSerializer, envelope
from portal.api.novella.fields import IntegerField
from portal.api.novella.operations import describes
from portal.api.novella.viewset import ACCEPTED, NovellaViewSet, accepted


class MigrationVerdictSerializer(DataSerializer):
    """Verdict on a live migration: whether it will converge, and why not."""

    class Meta:
        dataclass = ConvergenceVerdict


class MigrationActionSerializer(DataSerializer):
    """An action on a live migration, with the reason if it is not permitted now."""

    class Meta:
        dataclass = MigrationAction


class MigrationOrderSerializer(DataSerializer):
    """A requested action on a live migration."""

    class Meta:
        dataclass = OrderView


class MigrationSampleSerializer(DataSerializer):
    """The latest figures from the source host."""

    class Meta:
        dataclass = Sample


class LiveMigrationSerializer(DataSerializer):
    """The progress of a live migration."""

    verdict = MigrationVerdictSerializer()
    actions = MigrationActionSerializer(many=True)
    orders = MigrationOrderSerializer(many=True)
    last = MigrationSampleSerializer(required=False)

    class Meta:
        dataclass = MigrationPanel
        exclude = ("samples", "rates")

    def represent_last(self, panel: MigrationPanel) -> Any:
        return MigrationSampleSerializer(panel.samples[-1]).data if panel.samples else None

    def to_representation(self, instance: MigrationPanel) -> dict[str, Any]:
        body = super().to_representation(instance)
        return body if instance.samples else {name: value for name, value in body.items() if name != "last"}


def _body_of(one: Steering) -> type[BodySerializer]:
    """Return the serializer of an action's body: the amount, if the action has one."""
    if not one.field:
        return EmptyBody
    amount = IntegerField(min_value=one.least, max_value=one.most)
    return type(f"{one.field.capitalize()}Body", (BodySerializer,), {one.field: amount})


BODIES: Mapping[str, type[BodySerializer]] = {
    **dict.fromkeys((ABORT, FINISH), EmptyBody),
    **{one.kind: _body_of(one) for one in STEERINGS.values()},
}


class LiveMigrationViewSet(NovellaViewSet):
    order: ClassVar[str] = ""

    @describes(envelope(migration=LiveMigrationSerializer))
    def retrieve(self, request: ApiRequest, run_uuid: str) -> Response:
        """Show the progress of the workflow's live migration, and its actions, with the reason if not permitted."""
        self.authorize("novella:workflows:show")
        return Response({"migration": self.shown(LiveMigrationSerializer, _panel(request, run_uuid))})

    @describes(ACCEPTED, 202, body=lambda view: BODIES[view.order])
    @idempotent
    def create(self, request: ApiRequest, run_uuid: str) -> Response:
        """Request this action on a live migration; the response is the workflow that carries it out."""
        panel: MigrationPanel | None = None
        try:
            self.authorize("novella:workflows:steer")
            body = BODIES[self.order].parse(request.data or {})
            panel = _panel(request, run_uuid)
            ordered = progress.order(request.context, run_uuid, self.order, next(iter(body.values()), 0))
        except (Conflict, Forbidden, NotSupported) as error:
            about = panel.instance_uuid if panel is not None else ""
            audit.record_refusal(request.context, f"live_migration.{self.order.replace('-', '_')}", about, error)
            raise
        return accepted(request, ordered)


def _panel(request: ApiRequest, run_uuid: str) -> MigrationPanel:
    panel = progress.of_run(request.context, run_uuid)
    if panel is None:
        raise NotFound(f"Workflow {run_uuid} moves no guest.")
    return panel
