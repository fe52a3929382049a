"""Canary tests of disabled hosts: a small server is built there and deleted. If that works, the host is enabled."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from conductor.api_db.models import Flavor, InstanceMapping
from conductor.cell_db.models import ComputeNode, Drain, Service
from conductor.cells.lookup import API_ALIAS
from conductor.core.canaries import TAG, launch_uuid
from conductor.core.context import RequestContext
from conductor.core.errors import Conflict, Invalid, NotFound, NovellaError, ResourceLocked
from conductor.core.identifiers import host_resource, host_use_resource
from conductor.core.messages import message, text_of
from conductor.core.states import RunState
from conductor.db.transactions import database_time, write_tx
from conductor.image.models import Image
from conductor.journal.models import ResourceLock, WorkflowRun
from conductor.rpc import outbox
from conductor.services.fleet import drains
from conductor.services.hosts import hosts
from conductor.services.servers import create_requests, instances
from conductor.services.servers.types import InstanceCreate

log = logging.getLogger(__name__)

FLOW = "try_host"
NEWS_TIME = timedelta(days=1)
LONGEST_NAME = 255


@dataclass(frozen=True)
class CanaryView:
    """The newest canary test of a host. `why` is the error. `build_uuid` is the workflow that built its server."""

    run_uuid: str
    host: str
    cell: str
    state: str
    is_over: bool
    instance_uuid: str
    build_uuid: str
    why: str
    began_at: datetime
    ended_at: datetime | None


def begin(context: RequestContext, host: str, *, flavor_ref: str = "", image_ref: str = "") -> str:
    """Test a disabled host, and enable it if the canary works. Return the workflow's uuid.

    Without a flavor and an image, the smallest ones are used that the host may start.

    Raises:
        NotFound: the host, flavor or image is unknown.
        Invalid: the flavor or image does not suit the host.
        Conflict: the host is enabled or down.
        ResourceLocked: the host is drained or tested.
    """
    service = drains.service_of(context, host)
    if not service.is_disabled:
        raise Conflict(message("canary.in_service", host=host))
    if not service.is_up:
        raise Conflict(message("canary.host_down", host=host))
    inputs = {
        "host": host,
        "flavor_ref": flavor_ref or _smallest_flavor(),
        "image_ref": image_ref or _smallest_image(service.cell, host),
    }
    create_requests.check(context, _requested(host, inputs, ""))
    with write_tx(service.cell):
        Service.objects.using(service.cell).select_for_update().get(uuid=service.uuid)
        held = ResourceLock.objects.using(service.cell).filter(resource=host_resource(host)).first()
        if held is not None:
            raise ResourceLocked(message("host.busy", host=host, holder=held.holder), resource=held.resource)
        run = outbox.open_run(
            service.cell,
            outbox.NewRun(
                flow=FLOW,
                action="try",
                context=context,
                resources=[host_use_resource(host, TAG)],
                instance_name=host,
                inputs=inputs,
            ),
        )
    return str(run.uuid)


def newest(context: RequestContext, host: str) -> CanaryView | None:
    """Return the newest canary test of a host. None if it was never tested. Raises NotFound."""
    service = drains.service_of(context, host)
    runs = WorkflowRun.objects.using(service.cell).filter(flow=FLOW, instance_name=host)
    run = runs.order_by("-pk").first()
    if run is None:
        return None
    tried = run.variables.get("BuildCanary", {})
    return CanaryView(
        run_uuid=str(run.uuid),
        host=host,
        cell=service.cell,
        state=run.state,
        is_over=run.finished_at is not None,
        instance_uuid=tried.get("instance_uuid", ""),
        build_uuid=tried.get("run_uuid", ""),
        began_at=run.created_at,
        ended_at=run.finished_at,
        why="" if run.state == RunState.DONE else run.cancel_reason or text_of(run.error),
    )


def news(context: RequestContext, host: str) -> CanaryView | None:
    """Return the newest canary test if it is current: it runs, was made today, or is why the host is disabled.

    A test from before the newest drain is not current. Raises NotFound.
    """
    found = newest(context, host)
    if found is None or Drain.objects.using(found.cell).filter(host=host, created_at__gt=found.began_at).exists():
        return None
    services = Service.objects.using(found.cell).filter(binary=hosts.COMPUTE, host=host)
    if bool(found.why) != services.filter(is_disabled=True).exists() and found.is_over:
        return None
    is_old = found.ended_at is not None and database_time(found.cell) - found.ended_at > NEWS_TIME
    return None if is_old and not found.why else found


def advance(alias: str) -> None:
    """Launch the servers of tests that have none yet, and delete those whose test is done."""
    live = WorkflowRun.objects.using(alias).live().filter(flow=FLOW)
    for run in live:
        if run.position == 0 and run.direction == "do" and not run.is_cancel_requested:
            _launch(alias, run)
            if not live.filter(pk=run.pk, is_cancel_requested=False).exists():  # cancelled just now
                _delete(run)
        else:
            _delete(run)


def _launch(alias: str, run: WorkflowRun) -> None:
    """Launch the canary server. Idempotent. A refused launch cancels the test with the error's message."""
    requested = _requested(run.instance_name, run.inputs, str(launch_uuid(run.uuid)))
    try:
        instances.create(_context(run), requested)
    except NovellaError as error:
        log.warning("canary refused: run=%s %s", run.uuid, error.message)
        with write_tx(alias):
            for held in outbox.hold(alias, uuid=run.uuid, finished_at=None):
                outbox.request_cancel(alias, held, message("canary.refused", reason=error.message)[:255])


def _delete(run: WorkflowRun) -> None:
    """Delete the canary's servers. Does nothing while a delete is under way."""
    launched = WorkflowRun.objects.using(API_ALIAS).filter(uuid=launch_uuid(run.uuid)).values_list("inputs", flat=True)
    for uuid in (uuid for inputs in launched for uuid in inputs["instance_uuids"]):
        if InstanceMapping.objects.filter(instance_uuid=uuid, is_deleted=False).exists():
            with suppress(NotFound):
                instances.delete(_context(run), uuid, is_forced=True)


def _context(run: WorkflowRun) -> RequestContext:
    return replace(RequestContext.from_json(run.context), project_id=run.project_id)


def _requested(host: str, inputs: dict[str, str], run_uuid: str) -> InstanceCreate:
    return InstanceCreate(
        name=f"{TAG}-{host}"[:LONGEST_NAME],
        flavor_ref=inputs["flavor_ref"],
        image_ref=inputs["image_ref"],
        networks=(),
        tags=(TAG,),
        description=f"Tries host {host} before others come to it; goes by itself.",
        forced_host=host,
        is_canary=True,
        run_uuid=run_uuid,
    )


def _smallest_flavor() -> str:
    rows = Flavor.objects.filter(is_public=True, is_disabled=False, extra_specs={})
    found = rows.order_by("memory_mb", "vcpus", "root_gb").values_list("flavor_id", flat=True).first()
    if found is None:
        raise Invalid(message("canary.no_flavor"), field="flavor")
    return found


def _smallest_image(cell: str, host: str) -> str:
    """Return the smallest public image. An image for this host's hypervisor comes before one for any."""
    nodes = ComputeNode.objects.using(cell).filter(host=host).values_list("hypervisor_type", flat=True)
    kinds = {kind.lower() for kind in nodes}
    images = Image.objects.filter(visibility="public", status="active", is_hidden=False, deleted_at=None)
    usable: list[tuple[bool, int, UUID]] = []
    for image in images.exclude(disk_format__in=("aki", "ari")):
        wanted = str(image.properties.get("img_hv_type", "")).lower()
        if wanted in ("", *kinds):
            usable.append((not wanted, image.size or 0, image.uuid))
    if not usable:
        raise Invalid(message("canary.no_image", host=host), field="image")
    return str(min(usable)[2])
