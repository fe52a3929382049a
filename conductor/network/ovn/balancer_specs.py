"""Load balancers as plain values: part of the input of the projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member of a pool."""

    uuid: str
    address: str
    port: int
    subnet: str
    is_admin_up: bool = True


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """The checks of a pool's members; times are in seconds."""

    delay: int
    timeout: int
    successes: int
    failures: int


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """A pool; without `check` its members are not checked."""

    uuid: str
    members: tuple[MemberSpec, ...] = ()
    check: CheckSpec | None = None
    is_admin_up: bool = True


@dataclass(frozen=True, slots=True)
class ListenerSpec:
    """A port of a load balancer. `protocol` is `tcp` or `udp`; `pool` is "" for none."""

    uuid: str
    protocol: str
    port: int
    pool: str = ""
    is_admin_up: bool = True


@dataclass(frozen=True, slots=True)
class LoadBalancerSpec:
    """A load balancer. `monitor_addresses` has the address that its checks come from, by subnet."""

    uuid: str
    project: str
    vip_port: str
    vip_address: str
    name: str = ""
    revision: int = 0
    is_admin_up: bool = True
    listeners: tuple[ListenerSpec, ...] = ()
    pools: tuple[PoolSpec, ...] = ()
    monitor_addresses: Mapping[str, str] = field(default_factory=dict)
