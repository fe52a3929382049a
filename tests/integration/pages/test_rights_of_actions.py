"""Policies of the resource pages' actions: a page refuses what the API refuses, with the same status and message."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from conductor.core.errors import Forbidden
from conductor.journal.models import AuditRecord
from portal.pages import policies
from portal.pages.resource_pages.catalog import BY_ID
from portal.pages.resources import forms, service_calls
from portal.pages.resources.model import SubmittedForm
from tests import factories
from tests.api_client import ApiClient

ACTIONS = [(resource, action) for resource in BY_ID.values() for action in resource.actions if action.execute]
LATEST = {"OpenStack-API-Version": "compute latest,volume latest"}
ID = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(("resource", "action"), ACTIONS, ids=lambda one: one.id)
def test_a_page_refuses_an_action_as_the_api_does(people: Any, resource: Any, action: Any) -> None:
    item = defaultdict(str, {"id": ID, "uuid": ID, "name": "x", "size": 1})
    item["path"] = f"projects/{ID}/users/{ID}/roles/{ID}"
    if resource.id == "server":  # the API answers 404 before 403 for a server that does not exist
        factories.cells()
        item["id"] = str(factories.instance(people.ana.context(), "web").uuid)
    requested = SubmittedForm(item, forms.beginnings(action, item, {"name": "x"}))
    call, executed = action.call(requested), []
    guarded = replace(action, execute=lambda caller, requested: executed.append(caller))
    for person in (people.rea, people.ana):
        if policies.may(person.context(), action.service or resource.service, action.rule):
            continue
        result = service_calls.execute(person.context(), resource, guarded, requested, call)
        recorded = records()
        answer = ApiClient(person.token()).call(call.method, call.path, call.body, headers=LATEST)
        assert (result.status, executed) == (answer.status_code, []) == (403, [])
        assert result.message in str(answer.json())
        assert recorded == records()


def records() -> list[dict[str, Any]]:
    """Return the audit records of refusals, and remove them.

    A page's record has the body too; most views of the API refuse before they read it.
    """
    found = list(AuditRecord.objects.values("action", "result", "error", "reason", "details", "user_id"))
    AuditRecord.objects.all().delete()
    for record in found:
        record["details"].pop("sent", None)
    return found


@pytest.mark.parametrize("resource", [one for one in BY_ID.values() if one.reader], ids=lambda one: one.id)
def test_a_page_reads_what_the_policy_allows(people: Any, resource: Any) -> None:
    caller = replace(people.ana.context(), roles=frozenset())
    if policies.may(caller, resource.service, resource.rule):
        return
    with pytest.raises(Forbidden, match=resource.rule):
        service_calls.list_items(caller, resource, {"limit": 1})
    with pytest.raises(Forbidden):
        service_calls.get_item(caller, resource, ID)
