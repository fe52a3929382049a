"""Pages of resources: lists, details, forms, errors at their fields, and numbers of queries."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from conductor.api_db.models import KeyPair
from conductor.volume.models import Volume
from portal.pages.policies import RULES
from portal.pages.resource_pages.catalog import BY_ID, RESOURCES, may_do
from tests import factories
from tests.counting import Captured
from tests.integration.page_clients import signed_in, text

PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAkO8wRy7D4Jy2Fz2yl5d0RtmVv5Ijq2kCsmmRRcnq7Y ana@laptop"
UNKNOWN_UUID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def ana(people: Any) -> Client:
    factories.cells()
    return signed_in("ana")


def made(client: Client, name: str = "data", size: int = 3) -> Volume:
    answer = client.post("/volumes/do/create", {"name": name, "size": str(size)})
    assert answer.status_code == 302, text(answer)
    return Volume.objects.get(name=name)


@pytest.mark.parametrize("resource", [one for one in RESOURCES if not one.is_for_operators], ids=lambda one: one.id)
def test_every_kind_has_its_pages(ana: Client, people: Any, resource: Any) -> None:
    page = ana.get(f"/{resource.id}")
    assert page.status_code == 200
    body = page.content.decode()
    assert f"<h1>{resource.title}</h1>" in body
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", body)
    for action in resource.actions:
        assert action.rule in RULES[action.service or resource.service]
        if not may_do(people.ana.context(), resource, action):
            assert ana.get(f"/{resource.id}/do/{action.id}").status_code == 403
        elif action.is_creation:
            form = ana.get(f"/{resource.id}/do/{action.id}")
            assert form.status_code == 200
            assert 'name="csrfmiddlewaretoken"' in form.content.decode()
            tool = "curl " if resource.service == "novella" else "openstack "
            assert tool in form.content.decode()
        else:
            assert ana.get(f"/{resource.id}/do/{action.id}").status_code == 302
    assert ana.get(f"/{resource.id}/of/{UNKNOWN_UUID}").status_code == 404
    assert ana.get(f"/{resource.id}/do/nothing").status_code == 404


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: one.id)
def test_anonymous_users_sign_in_first(databases: None, resource: Any) -> None:
    for path in (
        f"/{resource.id}",
        f"/{resource.id}/of/{UNKNOWN_UUID}",
        f"/{resource.id}/do/{resource.actions[0].id}" if resource.actions else f"/{resource.id}",
    ):
        assert Client().get(path)["Location"].startswith("/sign-in?next=")


def test_a_key_is_uploaded_shown_and_deleted(ana: Client) -> None:
    answer = ana.post("/key-pairs/do/create", {"name": "laptop key", "type": "ssh", "public_key": PUBLIC})
    assert answer["Location"] == "/key-pairs/of/laptop%20key"
    page = text(ana.get(answer["Location"]))
    assert "Upload key pair completed: laptop key." in page
    assert KeyPair.objects.get().fingerprint in page
    assert "laptop key" in text(ana.get("/key-pairs"))
    assert "laptop key" not in text(signed_in("bo").get("/key-pairs"))
    assert ana.post("/key-pairs/do/delete", {"item": "laptop key"})["Location"] == "/key-pairs"
    assert not KeyPair.objects.exists()


def test_a_refused_key_says_so_at_its_field_and_keeps_what_was_typed(ana: Client) -> None:
    answer = ana.post("/key-pairs/do/create", {"name": "mine", "type": "ssh", "public_key": "no key"})
    assert answer.status_code == 400
    page = text(answer)
    assert 'id="field-public_key" data-wrong' in page
    assert "failed to generate fingerprint" in page
    assert 'value="mine"' in page
    assert ">no key</textarea>" in page
    assert not KeyPair.objects.exists()


def test_a_name_that_is_taken_is_refused(ana: Client) -> None:
    sent = {"name": "mine", "type": "ssh", "public_key": PUBLIC}
    ana.post("/key-pairs/do/create", sent)
    answer = ana.post("/key-pairs/do/create", sent)
    assert answer.status_code == 409
    assert "already exists" in text(answer)
    assert KeyPair.objects.count() == 1


def test_a_private_key_is_shown_once_and_kept_nowhere(ana: Client) -> None:
    answer = ana.post("/key-pairs/do/generate", {"name": "made", "type": "ssh"})
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    assert "BEGIN OPENSSH PRIVATE KEY" in text(answer)
    assert "PRIVATE KEY" not in text(ana.get("/key-pairs/of/made"))
    assert "PRIVATE KEY" not in json.dumps(list(KeyPair.objects.values()), default=str)


def test_a_volume_is_created_changed_and_deleted_by_forms(ana: Client) -> None:
    volume = made(ana)
    page = text(ana.get(f"/volumes/of/{volume.uuid}"))
    assert "available" in page
    assert "3 GB" in page
    assert ana.post("/volumes/do/extend", {"item": str(volume.uuid), "new_size": "7"}).status_code == 302
    assert Volume.objects.get().size_gb == 7
    assert (
        ana.post("/volumes/do/edit", {"item": str(volume.uuid), "name": "logs", "description": "d"}).status_code == 302
    )
    assert Volume.objects.get().name == "logs"
    assert ana.post("/volumes/do/delete", {"item": str(volume.uuid)})["Location"] == "/volumes"
    assert ana.get(f"/volumes/of/{volume.uuid}").status_code == 404


def test_refusals_of_the_service_change_nothing(ana: Client) -> None:
    volume = made(ana, size=5)
    answer = ana.post("/volumes/do/extend", {"item": str(volume.uuid), "new_size": "2"})
    assert answer.status_code == 400
    assert 'value="2"' in text(answer)
    assert Volume.objects.get().size_gb == 5
    assert ana.post("/volumes/do/extend", {"item": str(volume.uuid), "new_size": ""}).status_code == 400
    assert ana.post("/volumes/do/extend", {"item": str(volume.uuid), "new_size": "many"}).status_code == 400
    assert Volume.objects.get().size_gb == 5


def test_a_quota_that_is_used_up_is_shown(ana: Client) -> None:
    answer = ana.post("/volumes/do/create", {"name": "huge", "size": "99999"})
    assert answer.status_code == 413
    assert "Quota exceeded for gigabytes" in text(answer)
    assert not Volume.objects.exists()


def test_several_are_deleted_with_a_result_for_each(ana: Client) -> None:
    first, second = made(ana, "one"), made(ana, "two")
    Volume.objects.filter(pk=second.pk).update(status="in-use")
    ids = [str(first.uuid), str(second.uuid)]
    assert "2 volumes" in text(ana.get("/volumes/do/delete", {"item": ids}))
    page = text(ana.post("/volumes/do/delete", {"item": ids}))
    assert "1 completed, 1 refused" in page
    assert not Volume.objects.filter(uuid=first.uuid).exists()
    assert Volume.objects.get(uuid=second.uuid).status == "in-use"


def test_readers_are_offered_no_actions_and_are_refused_them(ana: Client) -> None:
    volume = made(ana)
    rea = signed_in("rea")
    page = text(rea.get(f"/volumes/of/{volume.uuid}"))
    assert "/volumes/do/delete" not in page
    assert "Create volume" not in text(rea.get("/volumes"))
    for action, values in (("delete", {"item": str(volume.uuid)}), ("create", {"name": "x", "size": "1"})):
        assert rea.post(f"/volumes/do/{action}", values).status_code == 403
    assert Volume.objects.count() == 1


def test_forms_by_their_address_are_for_whom_they_are_offered(people: Any) -> None:
    """One rule decides about offering an action and about opening its form by address."""
    factories.cells()
    rea, caller = signed_in("rea"), people.rea.context()
    refused = set()
    for resource in (one for one in BY_ID.values() if not one.is_for_operators):
        for action in (one for one in resource.actions if not may_do(caller, resource, one)):
            address = f"/{resource.id}/do/{action.id}"
            refused.add(address)
            answer = rea.get(address, {"item": "any"})
            assert (answer.status_code, "Your role in this project" in text(answer)) == (403, True), address
    assert {"/volumes/do/create", "/volumes/do/attach", "/server/do/resize", "/images/do/create"} <= refused
    assert "/key-pairs/do/create" not in refused, "keys are their user's"
    for address in (
        "/servers/launch",
        "/servers/launch/summary",
        "/servers/do/stop",
        "/servers/delete",
        "/quotas/more",
    ):
        assert rea.get(address).status_code == 403, address


def test_resources_shared_by_other_projects_can_be_used_and_not_changed(ana: Client, people: Any) -> None:
    """Nothing is offered that would be refused, no page is named that is for operators alone."""
    image = factories.image("linux", people.admin.context())
    network = factories.network("private", people.admin.context())
    for address in (f"/images/of/{image.uuid}", f"/networks/of/{network.uuid}"):
        page = text(ana.get(address))
        assert "The resource belongs to another project." in page
        assert "?item=" not in page
        assert "/subnets/do/create" not in page
        assert "/projects/of/" not in page
    mine = text(ana.get(ana.post("/networks/do/create", {"name": "mine"})["Location"]))
    assert "?item=" in mine
    assert "/subnets/do/create" in mine


def test_the_group_that_every_project_has_stays(ana: Client) -> None:
    (default,) = re.findall(r'href="(/security-groups/of/[^"]+)"', text(ana.get("/security-groups")))
    assert "Every project keeps its default group." in text(ana.get(default))


@pytest.mark.parametrize(
    "address",
    [
        "/volumes/of/ж",
        "/networks/of/ж",
        "/key-pairs/of/ж",
        "/volumes/do/edit?item=ж",
        "/server/do/rename?item=ж",
        "/usage?from=9999-12-31&to=9999-12-31",
    ],
)
def test_an_impossible_address_is_answered_404(ana: Client, address: str) -> None:
    assert ana.get(address).status_code in (400, 404)


def test_typed_values_are_escaped_in_paths(ana: Client, people: Any) -> None:
    server = factories.instance(people.ana.context(), "web-1")
    for port in ("ж", "../../../../volume/v3/volumes"):
        refused = ana.post("/server/do/detach-port", {"item": str(server.uuid), "port": port})
        assert (refused.status_code, "Couldn't save" in text(refused)) == (404, True)


def test_resources_of_other_projects_are_not_found(ana: Client) -> None:
    volume = made(ana, "secret-9")
    chi = signed_in("chi")
    assert "secret-9" not in text(chi.get("/volumes"))
    assert chi.get(f"/volumes/of/{volume.uuid}").status_code == 404
    assert chi.post("/volumes/do/delete", {"item": str(volume.uuid)}).status_code == 404
    assert Volume.objects.count() == 1


def test_forms_show_the_call_that_they_make(ana: Client) -> None:
    values = {"name": "logs", "size": "4"}
    piece = ana.post("/volumes/do/create", values, headers={"HX-Request": "true"})
    page = text(piece)
    assert "openstack volume create --size 4 logs" in page
    assert "POST /volume/v3/volumes" in page
    assert '"size": 4' in page
    assert not Volume.objects.exists()


def test_filters_orders_and_pages_are_the_services(ana: Client) -> None:
    for number in range(3):
        made(ana, f"data-{number}", size=number + 1)
    assert re.findall(r"data-drawer>(data-\d)<", text(ana.get("/volumes", {"q": "a-1"}))) == ["data-1"]
    up = text(ana.get("/volumes", {"sort": "size:asc"}))
    assert re.findall(r"data-drawer>(data-\d)<", up) == ["data-0", "data-1", "data-2"]
    assert 'aria-sort="ascending"' in up
    down = text(ana.get("/volumes", {"sort": "size:desc"}))
    assert re.findall(r"data-drawer>(data-\d)<", down) == ["data-2", "data-1", "data-0"]
    assert "No volume matches" in text(ana.get("/volumes", {"status": "error"}))
    assert ana.get("/volumes", {"marker": UNKNOWN_UUID}).status_code in (400, 404)


def test_a_long_list_can_be_one_page(ana: Client, people: Any) -> None:
    now, user_id = factories.ago(0), people.ana.user.pk
    names = [f"key-{number:02}" for number in range(60)]
    KeyPair.objects.bulk_create(KeyPair(user_id=user_id, name=name, fingerprint=name, created_at=now) for name in names)
    page = text(ana.get("/key-pairs"))
    assert (page.count("data-drawer>key-"), "Next page" in page) == (50, True)
    longer = re.search(r'href="([^"]+)">500 per page<', page)
    assert longer is not None
    page = text(ana.get(longer[1]))
    assert (page.count("data-drawer>key-"), "Next page" in page, ">50 per page<" in page) == (60, False, True)


def queries(client: Client, path: str) -> int:
    with Captured(connections["default"]) as seen:
        assert client.get(path).status_code == 200
    return len(seen)


def test_more_rows_cost_no_more_queries(ana: Client) -> None:
    made(ana, "first")
    ana.get("/volumes")
    few = queries(ana, "/volumes")
    for number in range(6):
        made(ana, f"more-{number}")
    assert queries(ana, "/volumes") == few


def test_clients_cannot_impersonate_users_by_headers(people: Any) -> None:
    factories.cells()
    for headers in ({"Novella-Spoken-For": "admin"}, {"novella_spoken_for": "admin"}):
        assert Client().get("/volume/v3/volumes/detail", headers=headers).status_code == 401


def test_a_field_says_what_is_wrong_without_its_name_in_the_api(ana: Client) -> None:
    answer = ana.post("/key-pairs/do/create", {"name": "a/b", "type": "ssh", "public_key": PUBLIC})
    assert answer.status_code == 400
    assert "field/attribute" not in text(answer)
    assert 'value="a/b"' in text(answer)


@pytest.mark.parametrize(
    ("form", "typed", "language", "shown"),
    [
        ("volumes", {"size": "-7"}, "de", "Es muss eine ganze Zahl von 1 bis 999.999 sein."),
        ("volumes", {"size": "1.5"}, "en", "It must be a whole number from 1 to 999,999."),
        ("networks", {"mtu": "-7"}, "en", "It must be a whole number from 68 to 9,216."),
        ("images", {"min_disk": "-1"}, "en", "It must be a whole number of at least 0."),
        ("images", {"min_ram": "9" * 12}, "en", "It must be a whole number from 0 to 2,147,483,647."),
        ("server-groups", {"max_server_per_host": "many"}, "en", "It must be a whole number of at least 1."),
    ],
)
def test_a_number_that_cannot_be_is_answered_with_those_that_can(
    ana: Client, form: str, typed: dict[str, str], language: str, shown: str
) -> None:
    sent = {"name": "data", "policy": "anti-affinity", **typed}
    answer = ana.post(f"/{form}/do/create", sent, headers={"Accept-Language": language})
    assert answer.status_code == 400
    assert text(answer).count(shown) == 2  # at the top, and at its field
    assert f'value="{next(iter(typed.values()))}"' in text(answer)


def test_every_number_field_of_every_form_has_a_minimum() -> None:
    fields = [field for resource in RESOURCES for action in resource.actions for field in action.fields]
    numbers = [field for field in fields if field.kind == "number"]
    assert len(numbers) > 20
    assert [field.name for field in numbers if field.least is None] == []
