"""Hosts and requests for tests of the pure scheduler, and strategies that draw them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from conductor.core.host_state import HostState, HostTable
from conductor.core.request_spec import FlavorSpec, GroupSpec, ImageSpec, MoveSpec, RequestSpec
from conductor.plugins import PluginOptions, Registry, load

SHIPPED: Registry = load(["scheduler_plugins.plugin"], PluginOptions(), finds_installed=False)
FILTERS = {one.name: one for one in SHIPPED.filters}
BROUGHT = {one.name: one for one in SHIPPED.loaded_filters}  # with those that run only when they are named
WEIGHERS = {one.name: one for one in SHIPPED.weighers}


def host(name: str = "host-0", **values: Any) -> HostState:
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
        supported_instances=(("x86_64", "qemu", "hvm"), ("x86_64", "kvm", "hvm"), ("i686", "qemu", "hvm")),
        traits=frozenset({"COMPUTE_NODE"}),
    )
    return replace(base, **values)


def table(*hosts: HostState) -> HostTable:
    return HostTable.from_states(hosts)


def spec(
    *,
    extra_specs: Mapping[str, str] | None = None,
    image: Mapping[str, str] | None = None,
    vcpus: int = 1,
    memory_mb: int = 512,
    root_gb: int = 1,
    **values: Any,
) -> RequestSpec:
    flavor = FlavorSpec("1", "small", vcpus, memory_mb, root_gb=root_gb, extra_specs=dict(extra_specs or {}))
    return RequestSpec("shop", "ana", flavor, ImageSpec(properties=dict(image or {})), **values)


NAMES = tuple(f"host-{index}" for index in range(6))
INSTANCES = tuple(f"instance-{index}" for index in range(5))
ZONES = ("nova", "az-1", "az-2")
OFFERS = (
    (),
    (("x86_64", "qemu", "hvm"),),
    (("x86_64", "qemu", "hvm"), ("x86_64", "kvm", "hvm")),
    (("x86_64", "fake", "hvm"),),
    (("aarch64", "qemu", "hvm"), ("x86_64", "xen", "xen")),
)
UNITS = ((), (("VCPU", 1, 4, 1),), (("MEMORY_MB", 256, 4096, 256), ("VCPU", 2, 64, 2)))

hosts = st.lists(
    st.builds(
        host,
        name=st.sampled_from(NAMES),
        node=st.sampled_from(("node-a", "node-b")),
        availability_zone=st.sampled_from(ZONES),
        vcpus=st.integers(0, 16),
        vcpus_used=st.integers(0, 20),
        cpu_ratio=st.sampled_from((1.0, 1.5, 4.0)),
        memory_mb=st.integers(0, 4096),
        memory_mb_used=st.integers(0, 4096),
        ram_ratio=st.sampled_from((1.0, 1.1)),
        reserved_memory_mb=st.sampled_from((0, 512)),
        disk_gb=st.integers(0, 20),
        disk_gb_used=st.integers(0, 20),
        is_up=st.booleans(),
        is_disabled=st.booleans(),
        is_cell_closed=st.sampled_from((False, False, True)),
        hypervisor_version=st.sampled_from((0, 4_002_001, 8_002_000)),
        supported_instances=st.sampled_from(OFFERS),
        traits=st.frozensets(st.sampled_from(("COMPUTE_NODE", "HW_FAST", "CUSTOM_OLD"))),
        units=st.sampled_from(UNITS),
        num_instances=st.integers(0, 5),
        num_io_ops=st.integers(0, 5),
        capabilities=st.sampled_from(
            (
                {},
                {"cpu_info": {"model": "Skylake", "features": ["avx", "aes"], "topology": {"cores": 4}}},
                {"cpu_info": '{"model": "Zen", "topology": {"cores": 16}}', "ssd": "true"},
            )
        ),
    ),
    max_size=8,
    unique_by=lambda state: (state.host, state.node),
)

extra_specs = st.dictionaries(
    st.sampled_from(
        (
            "capabilities:cpu_info:model",
            "capabilities:cpu_info:topology:cores",
            "capabilities:cpu_info:features",
            "capabilities:ssd",
            "capabilities:free_ram_mb",
            "capabilities:num_instances",
            "capabilities:hypervisor_version",
            "ssd",
            "quota:cpu_shares",
            "unknown",
            "trait:HW_FAST",
            "trait:CUSTOM_OLD",
        )
    ),
    st.just(""),
    max_size=3,
).flatmap(
    lambda keys: st.fixed_dictionaries(
        {
            key: st.sampled_from(("required", "forbidden"))
            if key.startswith("trait:")
            else st.sampled_from((">= 4", "= 2", "<in> avx", "s== Zen", "<or> Zen <or> Skylake", "true", "!= 8002000"))
            for key in keys
        }
    )
)

images = st.fixed_dictionaries(
    {},
    optional={
        "hw_architecture": st.sampled_from(("x86_64", "amd64", "aarch64", "")),
        "img_hv_type": st.sampled_from(("qemu", "QEMU", "kvm", "fake")),
        "hw_vm_mode": st.sampled_from(("hvm", "hv", "xen")),
        "img_hv_requested_version": st.sampled_from((">=4.2", "<8, >4", "==8.2", "nonsense")),
    },
)

groups = st.none() | st.builds(
    GroupSpec,
    group_uuid=st.just("group"),
    policy=st.sampled_from(("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")),
    rules=st.sampled_from(({}, {"max_server_per_host": 2})),
    member_hosts=st.dictionaries(st.sampled_from(INSTANCES), st.sampled_from(("", *NAMES[:4], "elsewhere"))),
)

hints = st.fixed_dictionaries(
    {},
    optional={
        "same_host": st.lists(st.sampled_from(INSTANCES), max_size=2),
        "different_host": st.lists(st.sampled_from(INSTANCES), max_size=2),
    },
)

specs = st.builds(
    spec,
    extra_specs=extra_specs,
    image=images,
    vcpus=st.integers(0, 6),
    memory_mb=st.sampled_from((0, 128, 512, 1000)),
    root_gb=st.integers(0, 6),
    availability_zone=st.sampled_from(("", "nova", "az-1", "az-9")),
    scheduler_hints=hints,
    group=groups,
    instance_hosts=st.dictionaries(st.sampled_from(INSTANCES), st.sampled_from(NAMES), max_size=4),
    ignore_hosts=st.lists(st.sampled_from(NAMES), max_size=2).map(tuple),
    force_hosts=st.lists(st.sampled_from(NAMES), max_size=1).map(tuple),
    requested_host=st.sampled_from(("", *NAMES[:2])),
    move=st.none()
    | st.builds(
        MoveSpec,
        cell=st.sampled_from(("cell1", "cell2")),
        migration_uuid=st.just("m-1"),
        hypervisor_type=st.sampled_from(("", "QEMU", "fake")),
        capability=st.sampled_from(("", "migrate")),
    ),
)
