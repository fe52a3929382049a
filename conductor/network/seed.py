"""The network that a fresh cloud offers to everybody."""

from __future__ import annotations

from conductor.core.context import RequestContext, system_context
from conductor.network import operations, subnets
from conductor.network.models import Network, SubnetPool
from conductor.network.subnets import SubnetWish
from conductor.transactions import write_tx

POOL_PREFIX = "10.64.0.0/16"
# Room for some four thousand servers.
SUBNET_PREFIX_LENGTH = 20


def seed(project_id: str) -> None:
    """Pool `default-pool`, shared network `private` and its subnet, where they are missing."""
    context = system_context()
    with write_tx():
        pool, _ = SubnetPool.objects.get_or_create(
            name="default-pool", project_id=project_id, defaults={"is_shared": True, "prefixes": [POOL_PREFIX]}
        )
        network = Network.objects.filter(name="private", project_id=project_id).first()
        network = network or _make_network(context, project_id)
        if not network.subnets.exists():
            wish = SubnetWish(
                network_id=str(network.uuid),
                name="private-subnet",
                pool_id=str(pool.uuid),
                prefix_length=SUBNET_PREFIX_LENGTH,
            )
            subnets.create_subnet(context, wish)


def _make_network(context: RequestContext, project_id: str) -> Network:
    wanted = {"name": "private", "project_id": project_id, "is_shared": True}
    return operations.create_network(context, wanted)
