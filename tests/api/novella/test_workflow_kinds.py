"""Data of one kind of workflow requested for another, in a database without tables for it."""

from __future__ import annotations

from typing import Any

from tests import factories


def test_every_page_of_a_run_answers_in_either_kind_of_database(people: Any, api_client: Any) -> None:
    factories.cells()
    ana = people.ana.context()
    values = {"flow": "build_instances", "action": "create", "inputs": {"migration_uuid": "0" * 32}}
    for alias in ("default", "cell1"):
        run = factories.run(ana, alias, **values)
        found = {
            part: api_client("ana").get(f"/api/workflows/{run.uuid}{part}").status_code
            for part in ("", "/steps", "/actions", "/events", "/migration")
        }
        assert found == {"": 200, "/steps": 200, "/actions": 200, "/events": 200, "/migration": 404}, alias
        assert api_client("admin").post(f"/api/workflows/{run.uuid}/migration/abort").status_code == 404
