"""Matches PCI device requests to pools, and takes devices out of pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from conductor.core.hardware.constraints import is_true
from conductor.core.hardware.request import PREFERRED, REQUIRED, SOCKET, PciRequest
from conductor.core.hardware.topology import HostTopology, PciPool

Pools = tuple[PciPool, ...]
Take = tuple[PciPool, int]

PHYSICAL, VDPA = "type-PF", "vdpa"
NOT_MATCHED = frozenset({"resource_class", "traits", "rp_uuids"})  # for placement, not for pools


def in_order(pools: Sequence[PciPool]) -> Pools:
    """Sort pools, plain ones first: those with special tags are left for requests that name them."""
    return tuple(sorted(pools, key=lambda pool: len(pool.tags)))


def take_all(
    pools: Sequence[PciPool],
    requests: Sequence[PciRequest],
    cells: Sequence[int] = (),
    topology: HostTopology | None = None,
) -> tuple[Pools, list[list[Take]]] | None:
    """Take the devices of all requests out of `pools`.

    Without `cells`, the host's NUMA cells that the guest uses, nearness is not checked.

    Returns:
        The pools that are left, and the pools that each request took from. None where there are too few devices.
    """
    left = list(in_order(pools))
    taken: list[list[Take]] = []
    for request in requests:
        fitting = fitting_pools(left, request, cells, topology)
        if not fitting:
            return None
        taken.append(_take(left, fitting, request.count))
    return tuple(left), taken


def fitting_pools(
    pools: Sequence[PciPool], request: PciRequest, cells: Sequence[int] = (), topology: HostTopology | None = None
) -> list[PciPool]:
    """Return the pools that may serve the request, nearest first. Empty where they have too few devices together."""
    found = [pool for pool in pools if _meets_any(pool, request.specs)]
    if _count(found) < request.count:
        return []
    if cells:
        found = _near(found, request, cells, topology)
    for is_unwanted in (_is_unrequested, _is_otherwise_migratable):
        found = [pool for pool in found if not is_unwanted(pool, request)]
    return found if _count(found) >= request.count else []


def matching_count(pools: Sequence[PciPool], request: PciRequest) -> int:
    """Return how many devices match the request, in any NUMA cell."""
    return _count([pool for pool in pools if _meets_any(pool, request.specs)])


def _take(left: list[PciPool], fitting: Sequence[PciPool], count: int) -> list[Take]:
    """Take `count` devices out of `left`, from the fitting pools in their order; empty pools are removed."""
    taken: list[Take] = []
    for pool in fitting:
        row = left.index(pool)
        amount = min(count, pool.count)
        if pool.count > count:
            left[row] = replace(pool, count=pool.count - count)
        else:
            del left[row]
        taken.append((pool, amount))
        count -= amount
        if not count:
            break
    return [take for take in taken if take[1]]


def _near(
    pools: list[PciPool], request: PciRequest, cells: Sequence[int], topology: HostTopology | None
) -> list[PciPool]:
    """Return the pools that the policy allows, no farther away than necessary."""
    own = [pool for pool in pools if pool.numa_node is not None and pool.numa_node in cells]
    if request.policy == REQUIRED or _count(own) >= request.count:
        return own
    if request.policy == SOCKET:
        sockets = _cells_of_sockets(cells, topology)
        return [pool for pool in pools if pool.numa_node is not None and pool.numa_node in sockets]
    near = [pool for pool in pools if pool.numa_node is None or pool.numa_node in cells]
    if request.policy != PREFERRED or _count(near) >= request.count:
        return near
    return sorted(pools, key=lambda pool: pool.numa_node is not None and pool.numa_node not in cells)


def _cells_of_sockets(cells: Sequence[int], topology: HostTopology | None) -> set[int]:
    """Return the cells that share a socket with the guest's cells. Empty where the socket of one is unknown."""
    known = topology.cells if topology else ()
    if any(cell.socket is None for cell in known):
        return set()
    sockets = {cell.socket for cell in known if cell.id in cells}
    return {cell.id for cell in known if cell.socket in sockets}


def _is_unrequested(pool: PciPool, request: PciRequest) -> bool:
    """Whether the device is a whole physical function, vDPA or remotely managed, and the request names no such kind."""
    kind = pool.tags.get("dev_type")
    kinds = {spec.get("dev_type") for spec in request.specs}
    if kind in (PHYSICAL, VDPA) and kind not in kinds:
        return True
    is_remote = is_true(pool.tags.get("remote_managed"))
    return is_remote and not any(is_true(spec.get("remote_managed")) for spec in request.specs)


def _is_otherwise_migratable(pool: PciPool, request: PciRequest) -> bool:
    for wanted in ("true", "false"):
        if all(spec.get("live_migratable") == wanted for spec in request.specs):
            return pool.tags.get("live_migratable") != wanted
    return False


PARTS: Mapping[str, Callable[[PciPool], object]] = {
    "vendor_id": lambda pool: pool.vendor_id,
    "product_id": lambda pool: pool.product_id,
    "numa_node": lambda pool: pool.numa_node,
}


def _meets_any(pool: PciPool, specs: Sequence[Mapping[str, str]]) -> bool:
    return any(all(_value(pool, key) == _lower(wanted) for key, wanted in _asked(spec)) for spec in specs)


def _asked(spec: Mapping[str, str]) -> list[tuple[str, str]]:
    return [item for item in spec.items() if item[0] not in NOT_MATCHED]


def _value(pool: PciPool, key: str) -> object:
    return _lower(PARTS[key](pool) if key in PARTS else pool.tags.get(key))


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _count(pools: Sequence[PciPool]) -> int:
    return sum(pool.count for pool in pools)
