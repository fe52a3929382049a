"""Hosts and requests for the conformance tests of filters and weighers: small by hand, or many drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec

ZONES = ("nova", "north", "south")
TRAITS = ("COMPUTE_NODE", "HW_CPU_X86_AVX2", "CUSTOM_SSD", "CUSTOM_GPU")


def host(name: str = "host-0", **values: Any) -> HostState:
    """Return a host with 8 vCPUs, 16 GB and 100 GB, unused; `values` override its fields."""
    base = HostState(
        host=name,
        node=name,
        cell="cell1",
        provider_uuid=f"provider-{name}",
        availability_zone="nova",
        vcpus=8,
        vcpus_used=0,
        memory_mb=16384,
        memory_mb_used=0,
        disk_gb=100,
        disk_gb_used=0,
        hypervisor_type="QEMU",
        hypervisor_version=8_002_000,
        supported_instances=(("x86_64", "kvm", "hvm"), ("x86_64", "qemu", "hvm")),
        traits=frozenset({"COMPUTE_NODE"}),
    )
    return replace(base, **values)


def request(extra_specs: Mapping[str, str] | None = None, **values: Any) -> RequestSpec:
    """Return a request of project shop for one vCPU, 512 MB and 1 GB; `values` are other fields of RequestSpec."""
    flavor = FlavorSpec("1", "small", 1, 512, root_gb=1, extra_specs=dict(extra_specs or {}))
    return RequestSpec("shop", "ana", flavor, **{"image": ImageSpec(), **values})


def fleet(count: int = 50, seed: int = 1) -> HostTable:
    """Return hosts that differ in all that typically differs; the same seed draws the same hosts."""
    draw = random.Random(seed)
    return HostTable.from_states([_drawn(draw, index) for index in range(count)])


def _drawn(draw: random.Random, index: int) -> HostState:
    vcpus = draw.choice((2, 8, 64))
    memory_mb = draw.choice((2048, 16384, 262144))
    disk_gb = draw.choice((20, 100, 4000))
    return host(
        f"host-{index}",
        availability_zone=draw.choice(ZONES),
        vcpus=vcpus,
        vcpus_used=draw.randint(0, vcpus),
        memory_mb=memory_mb,
        memory_mb_used=draw.randint(0, memory_mb),
        disk_gb=disk_gb,
        disk_gb_used=draw.randint(0, disk_gb),
        is_up=draw.random() > 0.1,
        is_disabled=draw.random() < 0.1,
        num_instances=draw.randint(0, 40),
        num_io_ops=draw.randint(0, 10),
        failed_builds=draw.choice((0, 0, 0, 3)),
        traits=frozenset(draw.sample(TRAITS, draw.randint(0, len(TRAITS)))),
        aggregate_metadata={"rack": frozenset({f"r{index % 5}"})} if draw.random() < 0.5 else {},
        capabilities={"rack": f"r{index % 5}"} if draw.random() < 0.5 else {},
    )
