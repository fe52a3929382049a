"""Names that break lines and terminals, and names of users that look like those of others."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core.errors import Conflict
from conductor.identity import provider_accounts
from conductor.identity.models import User
from conductor.identity.provider_accounts import ProviderClaims
from tests.api.image.calls import BASE as IMAGES
from tests.api.image.calls import create, patch
from tests.api.network.calls import V2, make_network
from tests.compute_rows import seed_cloud

IDENTITY, COMPUTE, VOLUME = "/identity/v3", "/compute/v2.1", "/volume/v3"
NOWHERE = "ffffffff-ffff-ffff-ffff-ffffffffffff"
BREAKING = ["a\nb", "a\rb", "a\x1b[2Jb", "a\x7fb", "a\x85b", "a\u2028b", "a\u2029b"]
# A name of each kind of resource: its path, and the body around the name.
NAMED: dict[str, tuple[str, Any]] = {
    "user": (f"{IDENTITY}/users", lambda name: {"user": {"name": name}}),
    "project": (f"{IDENTITY}/projects", lambda name: {"project": {"name": name}}),
    "group": (f"{IDENTITY}/groups", lambda name: {"group": {"name": name}}),
    "role": (f"{IDENTITY}/roles", lambda name: {"role": {"name": name}}),
    "domain": (f"{IDENTITY}/domains", lambda name: {"domain": {"name": name}}),
    "service": (f"{IDENTITY}/services", lambda name: {"service": {"name": name, "type": "x"}}),
    "image": (IMAGES, lambda name: {"name": name}),
    "namespace": (f"{IMAGES[:-7]}/metadefs/namespaces", lambda name: {"namespace": name}),
    "title of a namespace": (
        f"{IMAGES[:-7]}/metadefs/namespaces", lambda name: {"namespace": "n", "display_name": name}
    ),
    "network": (f"{V2}/networks", lambda name: {"network": {"name": name}}),
    "port": (f"{V2}/ports", lambda name: {"port": {"name": name, "network_id": NOWHERE}}),
    "router": (f"{V2}/routers", lambda name: {"router": {"name": name}}),
    "security group": (f"{V2}/security-groups", lambda name: {"security_group": {"name": name}}),
    "old security group": (
        f"{COMPUTE}/os-security-groups", lambda name: {"security_group": {"name": name, "description": ""}}
    ),
    "subnet pool": (f"{V2}/subnetpools", lambda name: {"subnetpool": {"name": name, "prefixes": ["10.0.0.0/8"]}}),
    "QoS policy": (f"{V2}/qos/policies", lambda name: {"policy": {"name": name}}),
    "address scope": (f"{V2}/address-scopes", lambda name: {"address_scope": {"name": name, "ip_version": 4}}),
    "volume": (f"{VOLUME}/volumes", lambda name: {"volume": {"name": name, "size": 1}}),
    "title of a volume": (f"{VOLUME}/volumes", lambda name: {"volume": {"display_name": name, "size": 1}}),
    "snapshot": (f"{VOLUME}/snapshots", lambda name: {"snapshot": {"name": name, "volume_id": NOWHERE}}),
    "backup": (f"{VOLUME}/backups", lambda name: {"backup": {"name": name, "volume_id": NOWHERE}}),
    "volume type": (f"{VOLUME}/types", lambda name: {"volume_type": {"name": name}}),
    "qos": (f"{VOLUME}/qos-specs", lambda name: {"qos_specs": {"name": name}}),
    "flavor": (
        f"{COMPUTE}/flavors", lambda name: {"flavor": {"name": name, "ram": 1, "vcpus": 1, "disk": 1, "id": "f1"}}
    ),
    "aggregate": (f"{COMPUTE}/os-aggregates", lambda name: {"aggregate": {"name": name}}),
    "zone": (f"{COMPUTE}/os-aggregates", lambda name: {"aggregate": {"name": "a", "availability_zone": name}}),
    "server": (
        f"{COMPUTE}/servers",
        lambda name: {"server": {"name": name, "flavorRef": "1", "imageRef": NOWHERE, "networks": "none"}},
    ),
    "provider": ("/placement/resource_providers", lambda name: {"name": name}),
}  # fmt: skip
# Forms of ana's name that look the same: invisible characters, full-width letters, a change of direction.
LOOKALIKES = ["ana\u200b", "a\u200dna", "\ufeffana", "\uff41\uff4e\uff41", "ana\u202e", "an\u00ada"]


@pytest.fixture
def admin(people: Any, api_client: Any, settings: Any, tmp_path: Any) -> Any:
    settings.NOVELLA_IMAGE_DIR = settings.NOVELLA_DATA = tmp_path
    seed_cloud(people, "sim-1")
    return api_client("admin", version="2.87")


@pytest.mark.parametrize("kind", NAMED)
def test_no_name_breaks_a_line_or_a_terminal(admin: Any, api_client: Any, kind: str) -> None:
    path, body = NAMED[kind]
    if kind == "old security group":  # gone since 2.36
        admin = api_client("admin")
    answers = {name: admin.post(path, body(name)) for name in BREAKING}
    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(BREAKING, 400)
    assert all("control characters" in answer.content.decode() for answer in answers.values()), kind


@pytest.mark.parametrize("kind", ["image", "network", "volume", "project", "security group"])
def test_any_other_name_comes_back_as_it_was_sent(admin: Any, kind: str) -> None:
    path, body = NAMED[kind]
    for name in ("\uff41na", "a\u0308", "\U0001f469\u200d\U0001f4bb", "\u0645\u06cc\u200c\u062e", "Gr\u00f6\u00dfe"):
        answer = admin.post(path, body(name))
        assert answer.status_code in (201, 202), answer.content
        shown = answer.json()
        assert (shown if kind == "image" else next(iter(shown.values())))["name"] == name


def test_no_change_of_a_name_breaks_a_line(admin: Any) -> None:
    image = create(admin, name="plain")["id"]
    assert patch(admin, image, {"op": "replace", "path": "/name", "value": "a\nb"}).status_code == 400
    network, _ = make_network(admin)
    assert admin.put(f"{V2}/networks/{network}", {"network": {"name": "a\x1b[2J"}}).status_code == 400
    assert admin.post("/api/subscriptions", {"name": "a\x1b[2J", "channel": "bell"}).status_code == 400


@pytest.mark.parametrize("name", LOOKALIKES)
def test_no_user_has_a_name_that_only_looks_like_anothers(people: Any, api_client: Any, name: str) -> None:
    admin = api_client("admin")
    refused = admin.post(f"{IDENTITY}/users", {"user": {"name": name}})
    assert refused.status_code == 400
    assert "'ana'" in refused.json()["error"]["message"]
    change = {"user": {"name": name}}
    assert admin.patch(f"{IDENTITY}/users/{people.bo.user.id}", change).status_code == 400
    assert set(User.objects.values_list("username", flat=True)) == {"admin", "ana", "bo", "chi", "rea"}


@pytest.mark.parametrize("name", ["Ana", "ANA", "aNa"])
def test_no_user_has_a_name_that_differs_from_anothers_by_case(people: Any, api_client: Any, name: str) -> None:
    admin, bo = api_client("admin"), people.bo.user.id
    assert admin.post(f"{IDENTITY}/users", {"user": {"name": name}}).status_code == 409
    assert admin.patch(f"{IDENTITY}/users/{bo}", {"user": {"name": name}}).status_code == 409
    assert admin.patch(f"{IDENTITY}/users/{bo}", {"user": {"name": "Bo"}}).status_code == 200  # the own name
    home = admin.post(f"{IDENTITY}/domains", {"domain": {"name": "home"}}).json()["domain"]["id"]
    assert admin.post(f"{IDENTITY}/users", {"user": {"name": name, "domain_id": home}}).status_code == 201
    with pytest.raises(Conflict, match="belongs to another account"):
        provider_accounts.enter(ProviderClaims("https://id.example", "1", name), [])


def test_a_user_of_a_provider_has_the_name_in_plain_characters(people: Any) -> None:
    entry = provider_accounts.enter(ProviderClaims("https://id.example", "1", "\uff44an\u200b"), [])
    assert entry.user.username == "dan"
    with pytest.raises(Conflict, match="belongs to another account"):
        provider_accounts.enter(ProviderClaims("https://id.example", "2", "an\u200ba"), [])
