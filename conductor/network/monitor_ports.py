"""The ports with the addresses from which OVN checks members. Callers have a transaction."""

from __future__ import annotations

from uuid import UUID

from conductor.network import port_rows
from conductor.network.device_owners import BALANCER_MONITOR
from conductor.network.models import LoadBalancer, MonitorPort, PoolMember, Subnet
from conductor.network.port_rows import AddressRequest


def fit(balancer: LoadBalancer) -> None:
    """Create and delete ports, so that a load balancer has one on each subnet with checked members.

    Raises IpAddressGenerationFailure. The ports count against the quota of ports, but exceeding it is allowed.
    """
    monitored = PoolMember.objects.filter(pool__balancer=balancer, pool__health_monitor__isnull=False)
    needed = set(monitored.values_list("subnet_uuid", flat=True))
    present = {row.subnet_uuid: row for row in balancer.monitor_ports.all()}
    surplus = [row for subnet_uuid, row in present.items() if subnet_uuid not in needed]
    MonitorPort.objects.filter(pk__in=[row.pk for row in surplus]).delete()
    port_rows.delete([row.port_id for row in surplus])
    for subnet_uuid in sorted(needed - present.keys()):
        _add(balancer, subnet_uuid)


def _add(balancer: LoadBalancer, subnet_uuid: UUID) -> None:
    subnet = Subnet.objects.select_related("network").filter(uuid=subnet_uuid).first()
    if subnet is None:  # it was deleted, so its members do not answer
        return
    port = port_rows.create(
        subnet.network,
        groups=(),
        requests=[AddressRequest(subnet_id=str(subnet_uuid))],
        name=f"ovn-lb-hm-{subnet_uuid}",
        project_id=balancer.project_id,
        device_owner=BALANCER_MONITOR,
        device_id=f"lb-{balancer.uuid}",
    )
    MonitorPort.objects.create(balancer=balancer, port=port, subnet_uuid=subnet_uuid)
