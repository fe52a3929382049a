"""Security groups of a server that runs: on all of its ports, or on none."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.errors import Conflict, NotFound
from conductor.journal.models import WorkflowRun
from conductor.network import security_groups
from conductor.network.models import Port
from conductor.services.servers import instances
from conductor.services.servers import security_groups as server_security_groups
from tests.fixtures.builds import ana, instance_of, launch, run_to_the_end

__all__ = ["ana"]


@pytest.fixture
def web(ana: Any) -> str:
    security_groups.create_group(ana, {"name": "doors"})
    uuid = launch(ana)
    run_to_the_end()
    return uuid


def groups(uuid: str) -> list[str]:
    port = Port.objects.get(device_id=uuid)
    return sorted(port.security_groups.values_list("name", flat=True))


def actions(uuid: str) -> list[str]:
    runs = WorkflowRun.objects.using("cell1").filter(instance_uuid=uuid, flow="at_once").order_by("pk")
    return [run.action for run in runs]


def test_a_group_comes_and_goes_and_both_are_on_record(web: str, ana: Any) -> None:
    server_security_groups.add(ana, web, "doors")
    server_security_groups.add(ana, web, "doors")  # again: nothing new
    assert groups(web) == ["default", "doors"]
    assert instances.get(ana, web).security_groups == ("default", "doors")
    server_security_groups.remove(ana, web, "doors")
    assert (groups(web), instance_of(web).security_groups) == (["default"], ["default"])
    assert actions(web) == ["addSecurityGroup", "addSecurityGroup", "removeSecurityGroup"]


def test_what_is_not_there_is_named_and_nothing_changes(web: str, ana: Any, people: Any) -> None:
    with pytest.raises(NotFound, match="windows"):
        server_security_groups.add(ana, web, "windows")
    with pytest.raises(NotFound, match="is not associated with"):
        server_security_groups.remove(ana, web, "doors")
    with pytest.raises(NotFound, match=f"Instance {web}"):
        server_security_groups.add(people.chi.context(), web, "doors")
    assert (groups(web), actions(web)) == (["default"], [])


def test_a_server_without_ports_has_none(web: str, ana: Any) -> None:
    Port.objects.filter(device_id=web).update(is_plugged=False)
    with pytest.raises(Conflict, match="no ports"):
        server_security_groups.add(ana, web, "doors")
    assert actions(web) == []
