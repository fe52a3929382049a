"""A store from before there were trees: every provider becomes a root, and keeps its traits and consumers."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from conductor.core.placement.query import CandidateQuery, RequestGroup
from conductor.placement import candidates, consumers_allocations, inventories, providers, traits

pytestmark = pytest.mark.usefixtures("databases")

BEFORE = ("placement", "0002_expand_change_counter")


def migrate(*targets: tuple[str, str]) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate(list(targets))
    return executor.loader.project_state(list(targets)).apps


def newest() -> list[tuple[str, str]]:
    """Read anew: a database in the middle of its steps knows nothing of the one that stands for them all."""
    return [node for node in MigrationExecutor(connection).loader.graph.leaf_nodes() if node[0] == "placement"]


def test_rows_of_before_are_found_by_the_words_of_now() -> None:
    apps = migrate(BEFORE)
    try:
        old = {name: apps.get_model("placement", name) for name in ("ResourceProvider", "Inventory", "Consumer")}
        host = old["ResourceProvider"].objects.create(uuid=uuid4(), name="host", traits=["COMPUTE_NODE"])
        old["Inventory"].objects.create(provider=host, resource_class="VCPU", total=4, used=1)
        consumer = old["Consumer"].objects.create(uuid=uuid4(), project_id="p", user_id="u")
        apps.get_model("placement", "Allocation").objects.create(
            consumer=consumer, provider=host, resource_class="VCPU", amount=1
        )
    finally:
        migrate(*newest())
    uuid = str(host.uuid)
    assert providers.view(uuid).root_uuid == uuid
    assert traits.names(is_associated=True) == ["COMPUTE_NODE"]
    query = CandidateQuery({"": RequestGroup({"VCPU": 3}, (frozenset({"COMPUTE_NODE"}),))})
    assert [list(way.resources_by_provider) for way in candidates.search(query).requests] == [[uuid]]
    assert consumers_allocations.of_consumer(consumer.uuid).consumer_type == "INSTANCE"
    inventories.report(uuid, "host", {}, [])
    assert traits.of_provider(uuid)[1] == [], "the host had reported it, and reports it no more"
