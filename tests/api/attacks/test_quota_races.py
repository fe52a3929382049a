"""Concurrent requests for a quota with three units left: exactly three are accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connections

from conductor.identity.models import RegisteredLimit
from conductor.network import seed as network_seed
from tests.api.network.calls import V2, make, make_network
from tests.fixtures.volume_requests import NEWEST, ROOT, made, settled, volume
from tests.waiting import WAIT_SECONDS

AT_ONCE, MORE = 8, 3
IDENTITY, COMPUTE, IMAGES = "/identity/v3", "/compute/v2.1", "/image/v2/images"
Post = tuple[str, dict[str, Any]]  # path and body


@pytest.fixture(autouse=True)
def storage(people: Any, settings: Any, tmp_path: Path) -> None:
    settings.NOVELLA_DATA = tmp_path
    settings.NOVELLA_IMAGE_DIR = tmp_path / "images"
    network_seed.seed(people.admin.context().project_id)


@dataclass(frozen=True)
class Cloud:
    """The users: ana, who creates rows, and admin, who sets limits."""

    ana: Any
    admin: Any
    people: Any

    @property
    def project_id(self) -> str:
        return str(self.people.ana.project.id)


def _network(cloud: Cloud, resource: str, limit: int) -> None:
    answer = cloud.admin.put(f"{V2}/quotas/{cloud.project_id}", {"quota": {resource: limit}})
    assert answer.json()["quota"][resource] == limit


def _compute(cloud: Cloud, resource: str, limit: int) -> None:
    answer = cloud.admin.put(f"{COMPUTE}/os-quota-sets/{cloud.project_id}", {"quota_set": {resource: limit}})
    assert answer.json()["quota_set"][resource] == limit


def _volume(cloud: Cloud, resource: str, limit: int) -> None:
    answer = cloud.admin.put(f"{ROOT}/os-quota-sets/{cloud.project_id}", {"quota_set": {resource: limit}})
    assert answer.json()["quota_set"][resource] == limit


def _image(cloud: Cloud, resource: str, limit: int) -> None:
    RegisteredLimit.objects.create(service_id="image", resource_name=resource, default_limit=limit)


def _rows(cloud: Cloud, resource: str, limit: int) -> None:
    answer = cloud.admin.put("/api/quota-defaults", {"limits": {resource: limit}})
    assert answer.json()["defaults"][resource] == limit


def _networks(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        yield f"{V2}/networks", {"network": {"name": f"n{number}"}}


def _subnets(cloud: Cloud) -> Iterator[Post]:
    network_id = make(cloud.ana, "networks", name="inner")["id"]
    for number in range(AT_ONCE):
        wanted = {"network_id": network_id, "cidr": f"10.{number}.0.0/24", "ip_version": 4}
        yield f"{V2}/subnets", {"subnet": wanted}


def _subnet_pools(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        wanted = {"name": f"p{number}", "prefixes": [f"10.{number}.0.0/24"], "default_prefixlen": "26"}
        yield f"{V2}/subnetpools", {"subnetpool": wanted}


def _ports(cloud: Cloud) -> Iterator[Post]:
    network_id, _ = make_network(cloud.ana)
    for _ in range(AT_ONCE):
        yield f"{V2}/ports", {"port": {"network_id": network_id}}


def _routers(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        yield f"{V2}/routers", {"router": {"name": f"r{number}"}}


def _floating_ips(cloud: Cloud) -> Iterator[Post]:
    network_id, _ = make_network(cloud.admin, "192.0.2.0/26", **{"router:external": True})
    for _ in range(AT_ONCE):
        yield f"{V2}/floatingips", {"floatingip": {"floating_network_id": network_id}}


def _security_groups(cloud: Cloud) -> Iterator[Post]:
    cloud.ana.get(f"{V2}/security-groups")  # the group `default` is made
    for number in range(AT_ONCE):
        yield f"{V2}/security-groups", {"security_group": {"name": f"g{number}"}}


def _security_group_rules(cloud: Cloud) -> Iterator[Post]:
    group_id = cloud.ana.get(f"{V2}/security-groups").json()["security_groups"][0]["id"]
    for number in range(AT_ONCE):
        ports = {"port_range_min": 80 + number, "port_range_max": 80 + number}
        wanted = {"security_group_id": group_id, "direction": "ingress", "protocol": "tcp", **ports}
        yield f"{V2}/security-group-rules", {"security_group_rule": wanted}


def _rbac_policies(cloud: Cloud) -> Iterator[Post]:
    network_id, _ = make_network(cloud.ana)
    for number in range(AT_ONCE):
        wanted = {"object_type": "network", "object_id": network_id, "action": "access_as_shared"}
        yield f"{V2}/rbac-policies", {"rbac_policy": {**wanted, "target_tenant": f"{number:032x}"}}


def _address_scopes(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        yield f"{V2}/address-scopes", {"address_scope": {"name": f"s{number}", "ip_version": 4}}


def _qos_policies(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        yield f"{V2}/qos/policies", {"policy": {"name": f"q{number}"}}


def _key_pairs(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        yield f"{COMPUTE}/os-keypairs", {"keypair": {"name": f"k{number}"}}


def _server_groups(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        yield f"{COMPUTE}/os-server-groups", {"server_group": {"name": f"g{number}", "policies": ["affinity"]}}


def _volumes(cloud: Cloud) -> Iterator[Post]:
    for _ in range(AT_ONCE):
        yield f"{ROOT}/volumes", {"volume": {"size": 1}}


def _snapshots(cloud: Cloud) -> Iterator[Post]:
    sources = [volume(cloud.ana) for _ in range(AT_ONCE)]
    settled()
    for source in sources:
        yield f"{ROOT}/snapshots", {"snapshot": {"volume_id": source}}


def _backups(cloud: Cloud) -> Iterator[Post]:
    sources = [volume(cloud.ana) for _ in range(AT_ONCE)]
    settled()
    for source in sources:
        yield f"{ROOT}/backups", {"backup": {"volume_id": source}}


def _group_type(cloud: Cloud) -> str:
    return str(made(cloud.admin, "group_types", "group_type", {"name": "together"})["id"])


def _groups(cloud: Cloud) -> Iterator[Post]:
    wanted = {"name": "g", "group_type": _group_type(cloud), "volume_types": ["files"]}
    for _ in range(AT_ONCE):
        yield f"{ROOT}/groups", {"group": wanted}


def _group_snapshots(cloud: Cloud) -> Iterator[Post]:
    wanted = {"name": "g", "group_type": _group_type(cloud), "volume_types": ["files"]}
    groups = [made(cloud.ana, "groups", "group", wanted)["id"] for _ in range(AT_ONCE)]
    for group_id in groups:
        volume(cloud.ana, group_id=group_id)
    settled()
    for group_id in groups:
        yield f"{ROOT}/group_snapshots", {"group_snapshot": {"group_id": group_id}}


def _volume_attachments(cloud: Cloud) -> Iterator[Post]:
    specs = {"multiattach": "<is> True"}
    made(cloud.admin, "types", "volume_type", {"name": "shared", "extra_specs": specs}, status=200)
    held = volume(cloud.ana, volume_type="shared")
    settled()
    for number in range(AT_ONCE):
        yield f"{ROOT}/attachments", {"attachment": {"volume_uuid": held, "instance_uuid": str(UUID(int=number))}}


def _images(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        yield IMAGES, {"name": f"i{number}"}


def _image_members(cloud: Cloud) -> Iterator[Post]:
    image_id = cloud.ana.post(IMAGES, {"name": "mine", "visibility": "shared"}).json()["id"]
    for number in range(AT_ONCE):
        yield f"{IMAGES}/{image_id}/members", {"member": f"{number:032x}"}


def _credentials(cloud: Cloud) -> Iterator[Post]:
    for _ in range(AT_ONCE):
        yield f"{IDENTITY}/users/{cloud.people.ana.user.id}/credentials/OS-EC2", {"tenant_id": cloud.project_id}


def _application_credentials(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        path = f"{IDENTITY}/users/{cloud.people.ana.user.id}/application_credentials"
        yield path, {"application_credential": {"name": f"c{number}"}}


def _access_rules(cloud: Cloud) -> Iterator[Post]:
    for number in range(AT_ONCE):
        path = f"{IDENTITY}/users/{cloud.people.ana.user.id}/application_credentials"
        rules = [{"service": "compute", "method": "GET", "path": f"/{number}"}]
        yield path, {"application_credential": {"name": f"c{number}", "access_rules": rules}}


def _trusts(cloud: Cloud) -> Iterator[Post]:
    people = cloud.people
    trust = {
        "trustor_user_id": people.ana.user.id, "trustee_user_id": people.chi.user.id, "impersonation": False,
        "project_id": people.ana.project.id, "roles": [{"name": "member"}],
    }  # fmt: skip
    for _ in range(AT_ONCE):
        yield f"{IDENTITY}/OS-TRUST/trusts", {"trust": trust}


@dataclass(frozen=True)
class Race:
    """A kind of row: its model, the user and name of its limit, the requests, and the message of a refusal."""

    model: str
    set_limit: Callable[[Cloud, str, int], None]
    resource: str
    posts: Callable[[Cloud], Iterator[Post]]
    refused: int
    owner: str = "project_id"

    def count(self, cloud: Cloud) -> int:
        """Return the number of rows that the project, or the user, has."""
        mine = cloud.people.ana.user.id if self.owner in ("user_id", "trustor_id") else cloud.project_id
        return int(apps.get_model(self.model)._default_manager.filter(**{self.owner: mine}).count())


RACES: Sequence[Race] = (
    Race("network.Network", _network, "network", _networks, 409),
    Race("network.Subnet", _network, "subnet", _subnets, 409),
    Race("network.SubnetPool", _network, "subnetpool", _subnet_pools, 409),
    Race("network.Port", _network, "port", _ports, 409),
    Race("network.Router", _network, "router", _routers, 409),
    Race("network.FloatingIp", _network, "floatingip", _floating_ips, 409),
    Race("network.SecurityGroup", _network, "security_group", _security_groups, 409),
    Race("network.SecurityGroupRule", _network, "security_group_rule", _security_group_rules, 409, "group__project_id"),
    Race("network.RbacPolicy", _network, "rbac_policy", _rbac_policies, 409),
    Race("network.AddressScope", _rows, "address_scopes", _address_scopes, 409),
    Race("network.QosPolicy", _rows, "qos_policies", _qos_policies, 409),
    Race("api_db.KeyPair", _compute, "key_pairs", _key_pairs, 403, "user_id"),
    Race("api_db.InstanceGroup", _compute, "server_groups", _server_groups, 403),
    Race("volume.Volume", _volume, "volumes", _volumes, 413),
    Race("volume.Snapshot", _volume, "snapshots", _snapshots, 413),
    Race("volume.Backup", _volume, "backups", _backups, 413),
    Race("volume.VolumeGroup", _volume, "groups", _groups, 413),
    Race("volume.GroupSnapshot", _rows, "group_snapshots", _group_snapshots, 413),
    Race("volume.VolumeAttachment", _rows, "volume_attachments", _volume_attachments, 413, "volume__project_id"),
    Race("image.Image", _image, "image_count_total", _images, 413),
    Race("image.ImageMember", _rows, "image_members", _image_members, 413, "image__project_id"),
    Race("identity.Credential", _rows, "credentials", _credentials, 403, "user_id"),
    Race("identity.ApplicationCredential", _rows, "application_credentials", _application_credentials, 403, "user_id"),
    Race("identity.AccessRule", _rows, "access_rules", _access_rules, 403, "user_id"),
    Race("identity.Trust", _rows, "trusts", _trusts, 403, "trustor_id"),
)


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.resource)
def test_requests_at_the_same_moment_end_at_the_limit_exactly(race: Race, api_client: Any, people: Any) -> None:
    cloud = Cloud(api_client("ana"), api_client("admin"), people)
    posts = list(race.posts(cloud))
    before = race.count(cloud)
    race.set_limit(cloud, race.resource, before + MORE)
    clients = [api_client("ana") for _ in posts]
    barrier = Barrier(AT_ONCE)

    def post(client: Any, wanted: Post) -> int:
        try:
            barrier.wait(WAIT_SECONDS)
            return int(client.post(*wanted, headers=NEWEST).status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = Counter(pool.map(post, clients, posts))
    assert found.pop(race.refused) == AT_ONCE - MORE
    assert sum(count for status, count in found.items() if status in (200, 201, 202)) == MORE, found
    assert race.count(cloud) == before + MORE
