"""Fields of the launch form besides name, image and size: groups, volumes, tags, user data, prices, retries."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from django.test import Client

from conductor.api_db.models import BuildRequest, InstanceMapping
from conductor.services.quotas import quotas
from conductor.services.servers import flavors, groups
from conductor.volume.models import Volume
from tests import factories
from tests.integration.page_clients import text
from tests.people import PASSWORD


@pytest.fixture
def ana(people: Any) -> Client:
    factories.cells()
    flavors.seed()
    client = Client()
    assert client.post("/sign-in", {"username": "ana", "password": PASSWORD}).status_code == 302
    return client


@pytest.fixture
def wares(people: Any) -> dict[str, str]:
    admin = people.admin.context()
    image = factories.image("simulated-linux", admin, is_simulated=True)
    network = factories.network("private", admin)
    return {"image": str(image.uuid), "flavor": "2", "network": str(network.uuid), "count": "1"}


def test_extras_reach_the_request(ana: Client, people: Any, wares: dict[str, str]) -> None:
    group = groups.create(people.ana.context(), "apart", "anti-affinity", {})
    extras = {"name": "web", "group": group.uuid, "tags": "blue green", "user_data": "#!/bin/sh\necho hi"}
    answer = ana.post("/servers/launch", {**wares, **extras})
    assert answer.status_code == 302, text(answer)
    kept = BuildRequest.objects.get()
    message = str(vars(kept))
    assert base64.b64encode(b"#!/bin/sh\necho hi").decode() in message
    assert "'blue'" in message
    assert group.uuid in message


def test_the_summary_shows_the_call_and_no_secret(ana: Client, wares: dict[str, str]) -> None:
    sent = {**wares, "name": "web", "tags": "blue", "user_data": "token-7", "group": ""}
    page = text(ana.post("/servers/launch/summary", sent))
    assert "--tag blue" in page
    assert "--user-data FILE" in page
    assert base64.b64encode(b"token-7").decode() not in page
    assert '"user_data": "…"' in page
    assert InstanceMapping.objects.count() == 0


def test_a_group_that_is_gone_is_refused_and_all_is_kept(ana: Client, wares: dict[str, str]) -> None:
    gone = "00000000-0000-4000-8000-000000000000"
    answer = ana.post("/servers/launch", {**wares, "name": "web", "group": gone, "tags": "blue", "user_data": "a\nb"})
    assert answer.status_code == 400
    page = text(answer)
    assert "Nothing was launched" in page
    assert 'value="blue"' in page
    assert InstanceMapping.objects.count() == 0


def test_tags_that_cannot_be_are_refused_at_their_field(ana: Client, wares: dict[str, str]) -> None:
    answer = ana.post("/servers/launch", {**wares, "name": "web", "tags": "a/b"})
    assert answer.status_code == 400
    assert 'id="field-tags" data-wrong' in text(answer)
    assert InstanceMapping.objects.count() == 0


def test_servers_boot_from_volumes_too(ana: Client, wares: dict[str, str]) -> None:
    ana.post("/volumes/do/create", {"name": "root", "size": "5"})
    volume = Volume.objects.get()
    refused = ana.post("/servers/launch", {**wares, "name": "web", "boot_volume": str(volume.uuid)})
    assert refused.status_code == 400
    assert "available, bootable" in text(refused)
    Volume.objects.update(is_bootable=True)
    assert "Or boot from a volume" in text(ana.get("/servers/launch"))
    answer = ana.post("/servers/launch", {**wares, "name": "web", "boot_volume": str(volume.uuid)})
    assert answer.status_code == 302, text(answer)
    assert InstanceMapping.objects.count() == 1


def test_a_volume_is_attached_in_addition_to_the_root_disk(ana: Client, wares: dict[str, str]) -> None:
    ana.post("/volumes/do/create", {"name": "data", "size": "5"})
    answer = ana.post("/servers/launch", {**wares, "name": "web", "volume": str(Volume.objects.get().uuid)})
    assert answer.status_code == 302, text(answer)


def test_a_server_is_launched_once_more(ana: Client, people: Any, wares: dict[str, str]) -> None:
    like = factories.instance(people.ana.context(), "web", tags=["blue"], addresses=[factories.address("10.64.0.9")])
    page = text(ana.get("/servers/launch", {"like": str(like.uuid)}))
    assert 'value="web-again"' in page
    assert 'value="blue"' in page
    assert f'value="{wares["network"]}" checked' in page
    chi = factories.instance(people.chi.context(), "secret-7")
    assert ana.get("/servers/launch", {"like": str(chi.uuid)}).status_code == 404


def test_prices_are_shown_where_there_are_any(ana: Client, wares: dict[str, str], settings: Any) -> None:
    assert "per hour" not in text(ana.post("/servers/launch/summary", wares))
    settings.NOVELLA_PRICES = {"currency": "EUR", "vcpu": 0.02, "memory_gb": 0.01, "disk_gb": 0.001}
    page = text(ana.post("/servers/launch/summary", {**wares, "count": "2"}))
    assert "0.0600 EUR per hour" in page


def test_of_several_networks_one_is_chosen_and_shown_at_its_field(
    ana: Client, people: Any, wares: dict[str, str]
) -> None:
    factories.network("other", people.admin.context(), cidr="10.65.0.0/24")
    page = text(ana.get("/servers/launch"))
    assert page.count('name="network" value=') == 3  # both, and none
    assert re.search(r'name="network" value="[0-9a-f-]{36}" checked', page)
    answer = ana.post("/servers/launch", {**wares, "name": "web", "network": "auto"})
    assert answer.status_code == 400
    assert '<a href="#field-networks">Select a network, or select none.</a>' in text(answer)
    assert InstanceMapping.objects.count() == 0


def test_sizes_beyond_the_quota_say_why_they_cannot_be_chosen(ana: Client, people: Any, wares: dict[str, str]) -> None:
    quotas.update(people.admin.context(), people.ana.project.id, {"cores": 1})
    page = text(ana.get("/servers/launch"))
    assert page.count("vCPU: 1 over quota") == page.count('name="flavor" value="3" disabled') == 1
    assert 'name="flavor" value="1" checked required' in page
