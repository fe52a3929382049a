"""View of a request as Nova's RequestSpec, with the instances that it names."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.virt import hardware

from conductor.core.request_spec import FlavorSpec, GroupSpec, ImageSpec, RequestSpec

CHECK, REBUILD = "_nova_check_type", "rebuild"
NIL_UUID = "00000000-0000-0000-0000-000000000000"  # an instance without a host; Nova requires a uuid


class RequestView:
    """`spec` is Nova's; `instances` are those that the request names, by host and uuid."""

    def __init__(self, spec: RequestSpec) -> None:
        self.context = nova_context.RequestContext(spec.user_id, spec.project_id, is_admin=True, overwrite=False)
        self.instances = self._instances(spec)
        self.spec = self._request(spec)

    def _instances(self, spec: RequestSpec) -> dict[str, dict[str, Any]]:
        """Return the instances in the request only: others on a host are unknown here."""
        members = spec.group.member_hosts if spec.group else {}
        found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for uuid, host in {**spec.instance_hosts, **members}.items():
            if host:
                found[host][uuid] = objects.Instance(self.context, uuid=uuid, host=host)
        return dict(found)

    def _request(self, spec: RequestSpec) -> Any:
        flavor, image = _flavor(spec.flavor), _image(spec.image)
        group = _group(spec.group) if spec.group else None
        hints = {name: list(words) for name, words in spec.scheduler_hints.items()}
        named = {
            "scheduler_hints": {**hints, CHECK: [REBUILD]} if spec.is_rebuild else hints,
            "ignore_hosts": list(spec.ignore_hosts) or None,
            "force_hosts": list(spec.force_hosts) or None,
            "force_nodes": list(spec.force_nodes) or None,
            "requested_destination": _destination(spec),
        }
        made = objects.RequestSpec.from_components(
            self.context,
            spec.instance_uuid or NIL_UUID,
            image,
            flavor,
            hardware.numa_get_constraints(flavor, image),
            _pci_requests(spec),
            named,
            group,
            spec.availability_zone or None,
            project_id=spec.project_id,
            user_id=spec.user_id,
            security_groups=objects.SecurityGroupList(objects=[]),
        )
        made.num_instances = spec.num_instances
        made.is_bfv = spec.is_volume_backed
        return made


def _flavor(flavor: FlavorSpec) -> Any:
    return objects.Flavor(
        flavorid=flavor.flavor_id,
        name=flavor.name,
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb,
        root_gb=flavor.root_gb,
        ephemeral_gb=flavor.ephemeral_gb,
        swap=flavor.swap_mb,
        rxtx_factor=1.0,
        vcpu_weight=0,
        disabled=False,
        is_public=True,
        extra_specs=dict(flavor.extra_specs),
    )


def _image(image: ImageSpec) -> Any:
    known = {
        "id": image.image_id or None,
        "name": image.name or None,
        "disk_format": image.disk_format or None,
        "container_format": image.container_format or None,
        "checksum": image.checksum or None,
        "size": image.size or None,
        "min_disk": image.min_disk_gb,
        "min_ram": image.min_ram_mb,
    }
    fields = {name: value for name, value in known.items() if value is not None}
    return objects.ImageMeta.from_dict({**fields, "properties": dict(image.properties)})


def _group(group: GroupSpec) -> Any:
    made = objects.InstanceGroup(
        uuid=group.group_uuid,
        policy=group.policy,
        policies=[group.policy],
        members=list(group.member_hosts),
        hosts=sorted({host for host in group.member_hosts.values() if host}),
    )
    made._rules = {name: str(value) for name, value in group.rules.items()}
    return made


def _pci_requests(spec: RequestSpec) -> Any:
    """Return PCI requests by our own aliases, whatever Nova's configuration has."""
    found = [
        objects.InstancePCIRequest(
            count=one.count,
            spec=[dict(requested) for requested in one.specs],
            alias_name=one.alias,
            numa_policy=one.policy,
        )
        for one in spec.pci_requests
    ]
    return objects.InstancePCIRequests(requests=found)


def _destination(spec: RequestSpec) -> Any:
    if not (spec.requested_host or spec.requested_node or spec.requested_cell):
        return None
    made = objects.Destination()
    if spec.requested_host:
        made.host = spec.requested_host
    made.node = spec.requested_node or None
    if spec.requested_cell:
        made.cell = objects.CellMapping(uuid=spec.requested_cell, name=spec.requested_cell)
    made.allow_cross_cell_move = spec.allows_cross_cell_move
    return made
