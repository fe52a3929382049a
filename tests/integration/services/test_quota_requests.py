"""Quota requests: a member's request, an operator's decision, once, and their audit records."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from conductor import row_limits
from conductor.api_db.models import Quota, QuotaRequest
from conductor.core.errors import Conflict, Forbidden, Invalid, NotFound
from conductor.journal.models import AuditRecord
from conductor.network import quotas as network_quotas
from conductor.network.models import NetworkQuota
from conductor.services.notifications import notices
from conductor.services.operations import triage
from conductor.services.operations.triage.values import WAITED_FOR
from conductor.services.quotas import quotas, requests, volume_quotas
from tests import factories
from tests.integration.page_clients import signed_in, text

pytestmark = pytest.mark.django_db(databases="__all__")
MORE = {"cores": 300, "gigabytes": 20_000, "router": 12, "address_scopes": 150}


@pytest.fixture
def requested(people: Any) -> Any:
    return requests.ask(people.ana.context(), MORE, "  the autumn\n sale ")


def limits_of(people: Any) -> dict[str, int]:
    project = people.ana.project.id
    found = {**quotas.limits(project), **volume_quotas.limits(project), **network_quotas.limits(project)}
    found |= row_limits.limits(project)
    return {name: found[name] for name in MORE}


def test_a_quota_request_changes_no_limit_until_it_is_approved(people: Any, requested: Any) -> None:
    before = {"cores": 200, "gigabytes": 10_000, "router": 10, "address_scopes": 100}
    assert limits_of(people) == before
    assert (requested.had, requested.reason, requested.state, requested.user_name) == (
        before,
        "the autumn sale",
        "open",
        "ana",
    )
    done = requests.approve(people.admin.context(), requested.uuid, "for this year")
    assert limits_of(people) == MORE
    assert (done.state, done.answer, done.decided_by) == ("approved", "for this year", "admin")


def test_each_is_decided_once(people: Any, requested: Any) -> None:
    requests.refuse(people.admin.context(), requested.uuid, "there is no room")
    for decide in (requests.approve, requests.refuse):
        with pytest.raises(Conflict, match="already refused"):
            decide(people.admin.context(), requested.uuid, "after all")
    with pytest.raises(Conflict):
        requests.withdraw(people.ana.context(), requested.uuid)
    assert limits_of(people)["cores"] == 200
    assert requests.get(people.ana.context(), requested.uuid).answer == "there is no room"


def test_the_requester_is_notified_in_the_bell_and_operators_in_the_triage(people: Any, requested: Any) -> None:
    factories.cells()
    operator, ana = people.admin.context(), people.ana.context()
    (line,) = triage.survey(operator).items
    assert (line.kind, line.name, line.level, line.key) == (
        "quota_request",
        "shop",
        WAITED_FOR,
        f"quota_request:{requested.uuid}",
    )
    assert line.why == "ana requests more: the autumn sale"
    page = signed_in("admin").get("/triage").content.decode()
    assert f'href="/quota-requests#request-{requested.uuid}"' in page
    assert notices.of(ana) == ([], 0)
    requests.refuse(operator, requested.uuid, "there is no room")
    assert triage.count(operator) == 0
    (lines,), count = notices.of(ana)
    assert (lines.title, lines.is_bad, lines.subscription_uuid, count) == (
        "Your quota request was declined: there is no room", True, "", 1,
    )  # fmt: skip
    assert notices.of(people.bo.context()) == notices.of(operator) == ([], 0)
    client = signed_in("ana")
    assert "Your quota request was declined: there is no room" in text(client.get("/notifications"))
    german = text(client.get("/notifications", headers={"accept-language": "de"}))
    assert "Ihr Kontingentantrag wurde abgelehnt: there is no room" in german
    client.post("/notifications/clear", {"notice": lines.uuid})
    assert notices.of(ana) == ([], 0)


def test_deciding_an_own_request_notifies_no_user(people: Any) -> None:
    operator = people.admin.context()
    mine = requests.ask(operator, MORE, "for myself")
    requests.approve(operator, mine.uuid)
    assert notices.of(operator) == ([], 0)


def test_approving_never_lowers_what_was_raised_meanwhile(people: Any, requested: Any) -> None:
    project = people.ana.project.id
    quotas.update(people.admin.context(), project, {"cores": 999})
    volume_quotas.update(project, {"gigabytes": -1})
    requests.approve(people.admin.context(), requested.uuid)
    assert limits_of(people) == {**MORE, "cores": 999, "gigabytes": -1}


def test_approving_sets_all_or_nothing(people: Any, requested: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the network's limits cannot be written")

    monkeypatch.setattr(network_quotas, "set_limits", breaks)
    with pytest.raises(RuntimeError):
        requests.approve(people.admin.context(), requested.uuid)
    assert limits_of(people)["cores"] == 200
    assert requests.get(people.ana.context(), requested.uuid).state == "open"
    assert not Quota.objects.exists()


@pytest.mark.parametrize(
    ("wanted", "field", "words"),
    [
        ({}, "wanted", "at least one"),
        ({"core": 300}, "wanted.core", "There is no limit core"),
        ({"cores": 200}, "wanted.cores", "more than the current limit, 200"),
        ({"cores": 2**31}, "wanted.cores", "at most"),
        ({"port": 10}, "wanted.port", "is unlimited"),
    ],
)
def test_invalid_questions_name_the_field(people: Any, wanted: dict[str, int], field: str, words: str) -> None:
    NetworkQuota.objects.create(project_id=people.ana.project.id, resource="port", limit=-1)
    with pytest.raises(Invalid, match=words) as refused:
        requests.ask(people.ana.context(), wanted, "because")
    assert refused.value.details["field"] == field
    assert not QuotaRequest.objects.exists()


@pytest.mark.parametrize("reason", ["", " \n", "x" * 256, "a\0b"])
def test_a_reason_is_needed_and_short(people: Any, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        requests.ask(people.ana.context(), MORE, reason)
    assert refused.value.details["field"] == "reason"
    assert not QuotaRequest.objects.exists()


def test_the_same_is_not_requested_twice_and_not_too_much_at_once(people: Any, requested: Any) -> None:
    with pytest.raises(Conflict, match="ana already requested more cores, router"):
        requests.ask(people.bo.context(), {"cores": 400, "router": 20, "ram": 10**6}, "me too")
    assert QuotaRequest.objects.count() == 1
    requests.withdraw(people.ana.context(), requested.uuid)
    requests.ask(people.bo.context(), {"cores": 400}, "now")
    QuotaRequest.objects.bulk_create(
        QuotaRequest(project_id=people.bo.project.id, user_id="x", wanted={}, created_at=requested.created_at)
        for _ in range(requests.MOST_OPEN - 1)
    )
    with pytest.raises(Conflict, match="10 requests"):
        requests.ask(people.bo.context(), {"ram": 10**6}, "one too many")


def test_requests_of_other_projects_are_not_found_and_roles_are_checked(people: Any, requested: Any) -> None:
    for look in (requests.get, requests.withdraw):
        with pytest.raises(NotFound):
            look(people.chi.context(), requested.uuid)
    assert requests.list_of(people.chi.context()).items == []
    with pytest.raises(Forbidden):
        requests.list_of(people.ana.context(), of_all=True)
    with pytest.raises(Forbidden, match="read-only"):
        requests.ask(people.rea.context(), MORE, "because")
    with pytest.raises(Forbidden, match="Only the requester"):
        requests.withdraw(people.bo.context(), requested.uuid)
    for decide in (requests.approve, requests.refuse):
        with pytest.raises(Forbidden):
            decide(people.ana.context(), requested.uuid, "for myself")
    assert [one.state for one in requests.list_of(people.admin.context(), of_all=True).items] == ["open"]
    assert limits_of(people)["cores"] == 200


def test_every_step_is_on_record(people: Any, requested: Any) -> None:
    requests.approve(people.admin.context(), requested.uuid, "for this year")
    rows = AuditRecord.objects.filter(action__startswith="quota_request.").order_by("pk")
    lines = [(row.action, row.user_name, row.on_behalf_of, row.reason, row.details["wanted"]) for row in rows]
    assert lines == [
        ("quota_request.create", "ana", "", "the autumn sale", MORE),
        ("quota_request.approve", "admin", "ana", "for this year", MORE),
    ]


def test_a_project_asks_and_an_operator_answers_in_the_portal(people: Any) -> None:
    ana, admin = signed_in("ana"), signed_in("admin")
    sent = {"cores": "250", "ram": "", "reason": "a <b>sale</b>"}
    assert ana.post("/quotas/more", sent)["Location"] == "/quotas"
    row = QuotaRequest.objects.get()
    page = text(ana.get("/quotas"))
    assert "pending" in page
    assert "vCPU: 200 → <strong>250</strong>" in page
    assert "open quota request" in text(admin.get("/"))
    assert "open quota request" not in text(ana.get("/"))
    listed = admin.get("/quota-requests").content.decode()
    assert "a &lt;b&gt;sale&lt;/b&gt;" in listed
    refused = admin.post(f"/quota-requests/{row.uuid}/refuse", {"answer": " "})
    assert refused.status_code == 400
    assert "Enter why the request is declined" in text(refused)
    row.refresh_from_db()
    assert row.state == "open"
    approved = admin.post(f"/quota-requests/{row.uuid}/approve", {"answer": ""}, follow=True)
    assert approved.redirect_chain == [("/quota-requests", 302)]
    assert "Request approved. shop has the new limits." in text(approved)
    assert "No pending requests." in text(approved)
    assert quotas.limits(people.ana.project.id)["cores"] == 250
    assert admin.post(f"/quota-requests/{row.uuid}/approve").status_code == 409
    assert "shop</a>" in text(admin.get("/quota-requests?state=approved"))
    assert "approved" in text(ana.get("/quotas"))


def test_typed_values_stay_after_a_refusal(people: Any) -> None:
    ana = signed_in("ana")
    page = ana.post("/quotas/more", {"cores": "250", "volumes": "7", "reason": "sale"})
    assert page.status_code == 400
    words = text(page)
    assert 'id="wrong-volumes"' in words
    for kept in ('value="250"', 'value="7"', 'value="sale"'):
        assert kept in words
    refused = text(ana.post("/quotas/more", {"cores": "-3", "reason": "sale"}))
    assert refused.count("It must be a whole number of at least 0.") == 2
    assert not QuotaRequest.objects.exists()


def test_readers_see_why_they_cannot_ask_and_tenants_no_list(people: Any) -> None:
    rea = signed_in("rea")
    assert "Read-only roles can't request more quota." in text(rea.get("/quotas"))
    assert rea.post("/quotas/more", {"cores": "250", "reason": "x"}).status_code == 403
    assert not QuotaRequest.objects.exists()
    assert signed_in("ana").get("/quota-requests").status_code == 404
    assert signed_in("ana").post("/quota-requests/x/approve").status_code == 404


def test_programs_ask_and_answer_too(people: Any) -> None:
    def client(name: str) -> Any:
        return Client(headers={"X-Auth-Token": people[name].token()})

    def post(name: str, path: str, body: Any) -> Any:
        return client(name).post(f"/api/quota-requests{path}", body, content_type="application/json")

    made = post("ana", "", {"wanted": {"volumes": 150}, "reason": "backups"})
    one = made.json()["quota_request"]
    assert (made.status_code, one["state"], one["had"]) == (201, "open", {"volumes": 100})
    assert made["Location"].endswith(f"/api/quota-requests/{one['uuid']}")
    assert post("ana", "", {"wanted": {"volumes": 0}, "reason": "x"}).status_code == 400
    assert post("ana", f"/{one['uuid']}/approve", {}).status_code == 403
    assert client("chi").get(f"/api/quota-requests/{one['uuid']}").status_code == 404
    listed = client("admin").get("/api/quota-requests?all_projects=true&state=open").json()["quota_requests"]
    assert [found["uuid"] for found in listed] == [one["uuid"]]
    assert post("admin", f"/{one['uuid']}/refuse", {"answer": "no"}).json()["quota_request"]["state"] == "refused"
    assert volume_quotas.limits(people.ana.project.id)["volumes"] == 100
