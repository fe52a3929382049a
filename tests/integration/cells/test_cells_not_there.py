"""The scheduler with a cell that is closed or does not answer: it uses the other cells."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.api_db.models import CellMapping, SchedulingDecision
from conductor.core.errors import NoValidHost
from conductor.core.messages import unpack
from tests.fixtures.destinations import check_rebuild, select
from tests.fleet import add_host, requested

pytestmark = pytest.mark.usefixtures("databases")


def test_hosts_of_a_closed_cell_are_not_chosen() -> None:
    add_host("one", "cell1", size=(8, 32768, 100))
    add_host("two", "cell2")
    assert select(requested())[0][0].host == "one"
    CellMapping.objects.filter(name="cell1").update(is_disabled=True, disabled_reason="new racks")
    assert select(requested(), step_key="step")[0][0].host == "two"
    decision = SchedulingDecision.objects.get(step_key="step")
    first, second = decision.summary["funnel"][:2]
    assert (first["filter"], first["before"], first["after"], first["rejected"]) == ("closed_cells", 2, 1, 1)
    assert second["before"] == 1
    assert [unpack(text) for text in decision.summary["advice"]] == [
        "1 of 2 hosts is eligible.",
        "1 of 2 hosts: cell cell1 is closed to new servers.",
    ]
    assert "new racks" not in str(decision.summary), "the operator's words are not for tenants"
    one = next(host for host in decision.details["hosts"] if host["host"] == "one")
    assert (one["passed"], one["rejected_by"], one["have"]) == (False, "closed_cells", "new racks")
    CellMapping.objects.filter(name="cell1").update(is_disabled=False)
    assert select(requested())[0][0].host == "one"


def test_a_server_in_a_closed_cell_may_have_another_image() -> None:
    """It stays on its host; only a host that cannot be checked is refused."""
    add_host("one", "cell1")
    CellMapping.objects.filter(name="cell1").update(is_disabled=True)
    check_rebuild(requested(), "one")
    with pytest.raises(NoValidHost, match="names another host"):
        check_rebuild(requested(), "two")
    add_host("two", "cell2")
    check_rebuild(requested(), "two")


def test_a_cell_that_does_not_answer_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from conductor.scheduler import host_facts

    add_host("one", "cell1", size=(8, 32768, 100))
    add_host("two", "cell2")
    ask = host_facts.read

    def read(alias: str, known: Any, **options: Any) -> Any:
        if alias == "cell1":
            raise ConnectionError("no route")
        return ask(alias, known, **options)

    with monkeypatch.context() as patch:
        patch.setattr(host_facts, "read", read)
        assert select(requested(), step_key="step")[0][0].host == "two"
    summary = SchedulingDecision.objects.get(step_key="step").summary
    assert summary["missing_cells"] == {"cell1": "ConnectionError: no route"}
    assert unpack(summary["advice"][-1]) == "Cell cell1 did not answer: its hosts were not considered."
    assert select(requested())[0][0].host == "one"
