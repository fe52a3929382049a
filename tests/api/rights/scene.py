"""Resources for the tests of rights: one of each kind, ana's in the project shop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from conductor.cell_db.models import BlockDevice, Migration
from conductor.core.states import LIVE_RUN_STATES
from conductor.identity.models import Domain
from conductor.journal.models import WorkflowRun
from conductor.network.models import LoadBalancer, Network
from conductor.volume import messages
from conductor.volume.models import VolumeMessage
from conductor.workflows.engine import executor
from tests import factories
from tests.api_client import ApiClient
from tests.compute_rows import make_cloud, make_host, make_instance, seed_cloud
from tests.factories import ago
from tests.people import People

NOTHING = "99999999-9999-9999-9999-999999999999"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB5i6Sd4yHAbcfhVJnYFx+0C0jqwWqQmjwg0vSyVpdNP ana@laptop"
INGRESS = {"direction": "ingress"}
SHARED = {"target_tenant": "{lab}", "action": "access_as_shared"}
Names = dict[str, str]


class Scene:
    """The names that rows may use, filled by calling the APIs themselves."""

    def __init__(self, people: People) -> None:
        self.people = people
        self.names: Names = {
            "nothing": NOTHING,
            "none": "",
            "key": KEY,
            "shop": people.ana.project.id,
            "lab": people.chi.project.id,
            "domain": people.ana.user.domain_id,
            "member_role": people.ana.role.id,
            **{name: person.user.id for name, person in people.items()},
        }
        self._clients = {name: ApiClient(people[name].token()) for name in ("ana", "admin")}

    def make(self, name: str, path: str, body: Any, *, by: str = "ana", at: str = "", id_at: str = "id") -> None:
        """Keeps the id of what a POST makes; `at` is the service and version that the request is in."""
        headers = {"OpenStack-API-Version": at} if at else {}
        answer: Any = self._clients[by].post(path.format_map(self.names), filled(body, self.names), headers=headers)
        assert answer.status_code in (200, 201, 202), (name, answer.status_code, answer.content)
        found = answer.json()
        if id_at not in found:
            found = next(iter(found.values()))
        self.names[name] = str(found[id_at])

    def put(self, path: str, body: Any, *, by: str = "admin", at: str = "") -> None:
        headers = {"OpenStack-API-Version": at} if at else {}
        answer = self._clients[by].put(path.format_map(self.names), filled(body, self.names), headers=headers)
        assert answer.status_code < 300, (path, answer.status_code, answer.content)


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """Return the value with `{name}` replaced in all its texts."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, list):
        return [filled(item, names) for item in value]
    if isinstance(value, dict):
        return {filled(key, names): filled(item, names) for key, item in value.items()}
    return value


def settled() -> None:
    """Take every workflow to its end."""
    for _ in range(20):
        live = list(WorkflowRun.objects.filter(state__in=LIVE_RUN_STATES).values_list("uuid", flat=True))
        for uuid in live:
            executor.run("default", uuid)
        if not live:
            return
    raise AssertionError("still live")


def compute(scene: Scene) -> None:
    cloud = make_cloud(scene.people)
    make_host("cell1", "sim-1-01")
    ana = scene.people.ana.context()
    web = make_instance(ana, "cell1", "web", host="sim-1-01", node="sim-1-01.example", metadata={"a": "b"})
    scene.names |= {"web": str(web.uuid), "image": str(cloud.image.uuid), "host": "sim-1-01"}
    scene.names |= {"network": str(cloud.network.uuid), "flavor": "1"}
    root = "/compute/v2.1"
    scene.make("pair", f"{root}/os-keypairs", {"keypair": {"name": "pair", "public_key": KEY}}, id_at="name")
    group = {"server_group": {"name": "apart", "policies": ["anti-affinity"]}}
    scene.make("group", f"{root}/os-server-groups", group)
    make_moving(scene)
    scene.make("aggregate", f"{root}/os-aggregates", {"aggregate": {"name": "fast"}}, by="admin")
    scene.make("security_group", "/network/v2.0/security-groups", {"security_group": {"name": "web"}})


def make_moving(scene: Scene) -> None:
    """Create a server that ran for an hour, has a volume and migrates live."""
    ana = scene.people.ana.context()
    server = make_instance(
        ana, "cell1", "box", host="sim-1-01", node="sim-1-01.example", task_state="migrating", launched_at=ago(3600)
    )
    run = factories.run(ana, "cell1", state="waiting", action="live-migration", instance_uuid=server.uuid)
    migration = Migration.objects.using("cell1").create(
        instance_uuid=server.uuid, run_uuid=run.uuid, migration_type="live-migration", status="running",
        source_host="sim-1-01", destination_host="sim-1-02", project_id=ana.project_id, user_id=ana.user_id,
        created_at=ago(30), updated_at=ago(1),
    )  # fmt: skip
    device = BlockDevice.objects.using("cell1").create(
        instance_uuid=server.uuid, volume_uuid=uuid4(), device_name="/dev/vdb", created_at=ago(60)
    )
    scene.names |= {"moving": str(server.uuid), "migration": str(migration.uuid), "lent": str(device.volume_uuid)}
    scene.names["request"] = run.request_id


def identity(scene: Scene) -> None:
    root, users = "/identity/v3", "/identity/v3/users/{ana}"
    domain = Domain.objects.get(pk=scene.names["domain"])
    scene.names["domain_name"] = domain.name
    scene.make("group", f"{root}/groups", {"group": {"name": "web"}}, by="admin")
    scene.make("role", f"{root}/roles", {"role": {"name": "guest"}}, by="admin")
    scene.make("service", f"{root}/services", {"service": {"type": "dns", "name": "names"}}, by="admin")
    endpoint = {"service_id": "{service}", "interface": "public", "url": "http://127.0.0.1/dns"}
    scene.make("endpoint", f"{root}/endpoints", {"endpoint": endpoint}, by="admin")
    scene.make("region", f"{root}/regions", {"region": {"id": "north"}}, by="admin")
    filters = {"service_id": "{service}"}
    narrow = {"endpoint_group": {"name": "one", "filters": filters}}
    scene.make("endpoint_group", f"{root}/OS-EP-FILTER/endpoint_groups", narrow, by="admin")
    scene.make("policy", f"{root}/policies", {"policy": {"blob": "x", "type": "y"}}, by="admin")
    scene.make("credential", f"{root}/credentials", {"credential": {"type": "cert", "blob": "x", "user_id": "{ana}"}})
    secret = {"application_credential": {"name": "ci"}}
    scene.make("application_credential", f"{users}/application_credentials", secret)
    scene.make("access", f"{users}/credentials/OS-EC2", {"tenant_id": "{shop}"}, id_at="access")
    trust = {"trustor_user_id": "{ana}", "trustee_user_id": "{bo}", "project_id": "{shop}", "impersonation": False}
    scene.make("trust", f"{root}/OS-TRUST/trusts", {"trust": {**trust, "roles": [{"id": "{member_role}"}]}})
    for name, noun, more in (
        ("registered_limit", "registered_limits", {"default_limit": 10}),
        ("limit", "limits", {"project_id": "{shop}", "resource_limit": 5}),
    ):
        body = {noun: [{"service_id": "{service}", "resource_name": "zones", **more}]}
        _keep_first(scene, name, f"{root}/{noun}", body)


def _keep_first(scene: Scene, name: str, path: str, body: Any) -> None:
    answer: Any = ApiClient(scene.people.admin.token()).post(path, filled(body, scene.names))
    assert answer.status_code == 201, answer.content
    (made,) = next(iter(answer.json().values()))
    scene.names[name] = made["id"]


def image(scene: Scene) -> None:
    root = "/image/v2"
    wanted = {"name": "mine", "disk_format": "raw", "container_format": "bare", "visibility": "shared"}
    scene.make("image", f"{root}/images", wanted)
    scene.make("member", f"{root}/images/{{image}}/members", {"member": "{admin_project}"}, id_at="member_id")
    space = {"namespace": "MINE", "visibility": "public"}
    scene.make("namespace", f"{root}/metadefs/namespaces", space, by="admin", id_at="namespace")
    kinds = (("objects", {"name": "one"}), ("properties", {"name": "one", "title": "One", "type": "string"}))
    for noun, body in (*kinds, ("resource_types", {"name": "one"})):
        scene.make("one", f"{root}/metadefs/namespaces/MINE/{noun}", body, by="admin", id_at="name")
    scene.make("one", f"{root}/metadefs/namespaces/MINE/tags/one", {}, by="admin", id_at="name")


def network(scene: Scene) -> None:
    seed_cloud(scene.people)
    scene.names["public"] = str(Network.objects.get(name="public").uuid)
    root = "/network/v2.0"
    for name, noun, values in (
        ("network", "networks", {"name": "mine"}),
        ("subnet", "subnets", {"network_id": "{network}", "cidr": "10.9.0.0/24", "ip_version": 4}),
        ("subnetpool", "subnetpools", {"name": "pool", "prefixes": ["10.10.0.0/16"]}),
        ("address_scope", "address-scopes", {"name": "scope", "ip_version": 4}),
        ("router", "routers", {"name": "mine", "external_gateway_info": {"network_id": "{public}"}}),
        ("port", "ports", {"network_id": "{network}"}),
        ("floatingip", "floatingips", {"floating_network_id": "{public}"}),
        ("security_group", "security-groups", {"name": "mine"}),
        ("security_group_rule", "security-group-rules", {"security_group_id": "{security_group}", **INGRESS}),
        ("rbac_policy", "rbac-policies", {"object_type": "network", "object_id": "{network}", **SHARED}),
    ):
        scene.make(name, f"{root}/{noun}", {name: values})
    scene.make("qos_policy", f"{root}/qos/policies", {"policy": {"name": "mine"}})
    limits = f"{root}/qos/policies/{{qos_policy}}/bandwidth_limit_rules"
    scene.make("limit", limits, {"bandwidth_limit_rule": {"max_kbps": 1000}})
    scene.put(f"{root}/networks/{{network}}/tags/one", None, by="ana")


def load_balancer(scene: Scene) -> None:
    root, pool = "/load-balancer/v2.0/lbaas", {"protocol": "TCP", "lb_algorithm": "SOURCE_IP_PORT"}
    scene.make("network", "/network/v2.0/networks", {"network": {"name": "mine"}})
    subnet = {"network_id": "{network}", "cidr": "10.9.0.0/24", "ip_version": 4}
    scene.make("subnet", "/network/v2.0/subnets", {"subnet": subnet})
    vip = {"vip_subnet_id": "{subnet}", "vip_address": "10.9.0.100"}
    own = {"loadbalancer_id": "{loadbalancer}"}
    checks = {"type": "TCP", "delay": 5, "timeout": 3, "max_retries": 2}
    for name, noun, path, values in (
        ("loadbalancer", "loadbalancer", "loadbalancers", {"name": "mine", **vip}),
        ("listener", "listener", "listeners", {"name": "mine", **own, "protocol": "TCP", "protocol_port": 80}),
        ("pool", "pool", "pools", {"name": "mine", **own, **pool}),
        ("plain_pool", "pool", "pools", {**own, **pool}),
        ("member", "member", "pools/{pool}/members", {"name": "mine", "address": "10.9.0.11", "protocol_port": 80}),
        ("healthmonitor", "healthmonitor", "healthmonitors", {"name": "mine", "pool_id": "{pool}", **checks}),
    ):
        scene.make(name, f"{root}/{path}", {noun: values})
    scene.names["vip_port"] = str(LoadBalancer.objects.get(uuid=scene.names["loadbalancer"]).vip_port.uuid)


def volume(scene: Scene) -> None:
    root, at = "/volume/v3", "volume 3.67"
    scene.make("type", f"{root}/types", {"volume_type": {"name": "fast", "extra_specs": {"a": "b"}}}, by="admin")
    scene.make("hidden", f"{root}/types", {"volume_type": {"name": "hidden", "os-volume-type-access:is_public": False}},
               by="admin")  # fmt: skip
    scene.make("qos", f"{root}/qos-specs", {"qos_specs": {"name": "quick"}}, by="admin")
    scene.make("volume", f"{root}/volumes", {"volume": {"size": 1, "name": "data", "metadata": {"a": "b"}}})
    settled()
    scene.make("snapshot", f"{root}/snapshots", {"snapshot": {"volume_id": "{volume}", "metadata": {"a": "b"}}})
    settled()
    scene.make("backup", f"{root}/backups", {"backup": {"volume_id": "{volume}"}})
    settled()
    scene.make("given", f"{root}/volumes", {"volume": {"size": 1}})
    settled()
    scene.make("transfer", f"{root}/volume-transfers", {"transfer": {"volume_id": "{given}"}}, at=at)
    scene.make("group_type", f"{root}/group_types", {"group_type": {"name": "tied", "group_specs": {"a": "b"}}},
               by="admin", at=at)  # fmt: skip
    body = {"group": {"name": "both", "group_type": "{group_type}", "volume_types": ["{type}"]}}
    scene.make("group", f"{root}/groups", body, at=at)
    settled()
    scene.make("lent", f"{root}/volumes", {"volume": {"size": 1}})
    settled()
    body = {"volume_uuid": "{lent}", "instance_uuid": "{volume}", "connector": {"host": "rack-1"}}
    scene.make("attachment", f"{root}/attachments", {"attachment": body}, at=at)
    context = scene.people.ana.context()
    messages.create_message(context, messages.NO_BACKEND, "VOLUME", scene.names["lent"], "No storage is left.")
    message = VolumeMessage.objects.get(resource_uuid=scene.names["lent"])
    scene.names |= {"message": str(message.uuid), "request": message.request_id}


def placement(scene: Scene) -> None:
    root, at = "/placement", "placement 1.39"
    scene.names["provider"] = str(uuid4())
    scene.make("provider", f"{root}/resource_providers", {"name": "disk", "uuid": "{provider}"}, by="admin", at=at,
               id_at="uuid")  # fmt: skip
    scene.put(f"{root}/resource_classes/CUSTOM_ONE", None, at=at)
    scene.put(f"{root}/traits/CUSTOM_ONE", None, at=at)
    amounts = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    scene.put(f"{root}/resource_providers/{{provider}}/inventories", amounts, at=at)


def novella(scene: Scene) -> None:
    compute(scene)


MAKERS: Mapping[str, Callable[[Scene], None]] = {
    "compute": compute,
    "identity": identity,
    "image": image,
    "network": network,
    "load-balancer": load_balancer,
    "volume": volume,
    "placement": placement,
    "novella": novella,
}


def make_scene(api: str, people: People) -> Names:
    """Everything that an API's rows name."""
    scene = Scene(people)
    scene.names["admin_project"] = people.admin.project.id
    MAKERS[api](scene)
    return scene.names
