"""Costs of a build and a delete, from the API to the end: counted statements, which do not depend on load."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.cell_db.models import Instance
from conductor.core.states import VmState
from conductor.image import seed as image_seed
from conductor.image.models import Image
from conductor.journal.models import OutboxMessage, WorkflowRun
from conductor.rpc.messages import StepAnswered
from conductor.services.servers import instances
from conductor.services.servers.types import InstanceCreate
from conductor.workflows.engine import executor
from tests.compute_rows import seed_cloud
from tests.counting import Counted, counted_in

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


@pytest.fixture
def ana(people: Any) -> Any:
    admin = people.admin.context()
    image_seed.seed(admin.project_id, None)
    seed_cloud(people, "sim-1", "sim-2")
    build(people.ana.context())  # caches are warm, and the project has its network
    return people.ana.context()


def build(context: Any) -> str:
    image = Image.objects.get(name="simulated-linux")
    requested = InstanceCreate(name="web-1", flavor_ref="1", image_ref=str(image.uuid))
    uuid = instances.create(context, requested).instance_uuids[0]
    executor.run("default", WorkflowRun.objects.using("default").order_by("-pk").first().uuid)
    take_to_the_end()
    assert Instance.objects.using("cell1").get(uuid=uuid).vm_state == VmState.ACTIVE
    return uuid


def take_to_the_end() -> None:
    """Take the newest run of the cell to its end: it sends its command, and its host answers."""
    run = WorkflowRun.objects.using("cell1").order_by("-pk").first()
    executor.run("cell1", run.uuid)
    command = OutboxMessage.objects.using("cell1").get(run_uuid=run.uuid)
    executor.answer(
        "cell1",
        StepAnswered(
            step_key=command.step_key,
            run_uuid=str(run.uuid),
            fencing_token=1,
            host=command.host,
            ok=True,
            result={},
            error=None,
        ),
    )


def remove(context: Any, uuid: str) -> None:
    instances.delete(context, uuid)
    take_to_the_end()
    assert Instance.objects.using("cell1").get(uuid=uuid).vm_state == VmState.DELETED


def count(work: Any, *args: Any) -> dict[str, Counted]:
    with counted_in("default", "cell1") as seen:
        work(*args)
    return seen


# Transactions to the last one; statements at most, as what is looked up on the way is other rooms' business.
BUILD = {"default": (7, 84), "cell1": (5, 56)}
DELETE = {"default": (2, 30), "cell1": (9, 100)}


def test_a_build_takes_twelve_transactions(ana: Any) -> None:
    seen = count(build, ana)
    assert {alias: found.transactions for alias, found in seen.items()} == _transactions(BUILD)
    _assert_no_more_statements(seen, BUILD)


def test_a_delete_takes_eleven_transactions(ana: Any) -> None:
    uuid = build(ana)
    seen = count(remove, ana, uuid)
    assert {alias: found.transactions for alias, found in seen.items()} == _transactions(DELETE)
    _assert_no_more_statements(seen, DELETE)


def _transactions(bar: dict[str, tuple[int, int]]) -> dict[str, int]:
    return {alias: transactions for alias, (transactions, _) in bar.items()}


def _assert_no_more_statements(seen: dict[str, Counted], bar: dict[str, tuple[int, int]]) -> None:
    for alias, (_, most) in bar.items():
        statements = seen[alias].statements
        assert len(statements) <= most, f"{alias}: {len(statements)} statements\n" + "\n".join(statements)
