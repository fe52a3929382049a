"""The collections of the load balancer API, each with the functions that handle its requests."""

from __future__ import annotations

from conductor.network import balancer_members, balancer_pools, load_balancers
from portal.api.network.load_balancing import representations, schemas
from portal.api.network.resources import Creation, NetworkResource, Updating

BALANCERS = NetworkResource(
    rule="loadbalancer",
    plural="loadbalancers",
    list=load_balancers.list_balancers,
    get=load_balancers.get_balancer,
    show=representations.balancer,
    creation=Creation(schemas.CREATE_BALANCER, representations.wanted_balancer, load_balancers.create_balancer),
    updating=Updating(schemas.UPDATE_BALANCER, representations.changes, load_balancers.update_balancer),
    delete=load_balancers.delete_balancer,
)
LISTENERS = NetworkResource(
    rule="listener",
    plural="listeners",
    list=balancer_pools.list_listeners,
    get=balancer_pools.get_listener,
    show=representations.listener,
    creation=Creation(schemas.CREATE_LISTENER, representations.wanted_listener, balancer_pools.create_listener),
    updating=Updating(schemas.UPDATE_LISTENER, representations.listener_changes, balancer_pools.update_listener),
    delete=balancer_pools.delete_listener,
)
POOLS = NetworkResource(
    rule="pool",
    plural="pools",
    list=balancer_pools.list_pools,
    get=balancer_pools.get_pool,
    show=representations.pool,
    creation=Creation(schemas.CREATE_POOL, representations.wanted_pool, balancer_pools.create_pool),
    updating=Updating(schemas.UPDATE_POOL, representations.changes, balancer_pools.update_pool),
    delete=balancer_pools.delete_pool,
)
MEMBERS = NetworkResource(
    rule="member",
    plural="members",
    list=balancer_members.list_members,
    get=balancer_members.get_member,
    show=representations.member,
    creation=Creation(schemas.CREATE_MEMBER, representations.wanted_member, balancer_members.create_member),
    updating=Updating(schemas.UPDATE_MEMBER, representations.changes, balancer_members.update_member),
    delete=balancer_members.delete_member,
)
HEALTH_MONITORS = NetworkResource(
    rule="healthmonitor",
    plural="healthmonitors",
    list=balancer_members.list_monitors,
    get=balancer_members.get_monitor,
    show=representations.monitor,
    creation=Creation(schemas.CREATE_MONITOR, representations.wanted_monitor, balancer_members.create_monitor),
    updating=Updating(schemas.UPDATE_MONITOR, representations.changes, balancer_members.update_monitor),
    delete=balancer_members.delete_monitor,
)
# Path segment → collection; those of members are below their pool.
RESOURCES = {
    "loadbalancers": BALANCERS,
    "listeners": LISTENERS,
    "pools": POOLS,
    "healthmonitors": HEALTH_MONITORS,
}
