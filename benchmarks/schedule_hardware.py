"""Duration of a decision that uses every filter, with NUMA cells and PCI devices.

    python benchmarks/schedule_hardware.py [--hosts 10000] [--rounds 25]

All built-in filters are enabled. The request pins its CPUs in two cells with large pages, needs a device near to them,
and sets values for the other filters: hints, aggregates, capabilities, limits. Cold: nothing is cached from the
decision before, on a table that was used once. Medians of processor time.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.schedule_hosts import as_shipped, fleet, in_turns
from conductor.core.hardware.derive import with_hardware
from conductor.core.hardware.topology import HostCell, HostTopology, Pages, PciPool
from conductor.core.host_state import HostState, HostTable
from conductor.core.placement.amounts import Amount
from conductor.core.plugin_choice import FILTER, WEIGHER, PluginKey
from conductor.core.request_spec import FlavorSpec, ImageSpec, RequestSpec
from conductor.core.scheduling.select import SelectionResult, decide
from conductor.plugins import PluginOptions, Registry, load

BAR_MILLISECONDS = 10.0
CORES = 16  # of each cell, with two threads each
ALIAS = {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}
CPU_INFO = {"arch": "x86_64", "vendor": "Intel", "topology": {"cores": 32, "sockets": 2}}
IMAGE = ImageSpec(properties={"img_hv_type": "qemu", "hw_architecture": "x86_64", "os_distro": "debian"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    hosts, spec = inside(fleet(options.hosts)), request()
    without = replace(spec, scheduler_hints={name: of for name, of in spec.scheduler_hints.items() if name != "query"})
    shipped = load(["scheduler_plugins.plugin"], PluginOptions(), finds_installed=False)
    pipeline = replace(as_shipped(), filters=shipped.loaded_filters)
    pipeline = replace(pipeline, rules=replace(pipeline.rules, clock=time.thread_time, trusted=trusted(shipped)))

    def one(request_spec: RequestSpec = spec) -> SelectionResult:
        return decide(hosts, request_spec, ["new"], pipeline=pipeline, seed=1)

    outcome = one()
    assert outcome.is_successful
    print("| filter | hosts that came | turned away | ms |\n|---|---|---|---|")
    for stage in one().shown.filtering.stages:
        print(f"| {stage.filter.name} | {stage.before:,} | {stage.rejected:,} | {stage.seconds * 1000:.3f} |")
    found = in_turns({"with": one, "without": lambda: one(without)}, options.rounds)
    print(f"\n{options.hosts:,} hosts, {len(pipeline.filters)} filters: {found['without'] * 1000:.2f} ms", end=" ")
    print(f"(bar {BAR_MILLISECONDS:.0f}), {found['with'] * 1000:.2f} ms with a query, which is asked of each host.")


def trusted(shipped: Registry) -> frozenset[PluginKey]:
    filters = {(FILTER, one.name) for one in shipped.loaded_filters}
    return frozenset(filters | {(WEIGHER, one.name) for one in shipped.loaded_weighers})


def request() -> RequestSpec:
    specs = {
        "hw:cpu_policy": "dedicated",
        "hw:numa_nodes": "2",
        "hw:mem_page_size": "2MB",
        "pci_passthrough:alias": "gpu:1",
        "capabilities:cpu_info:vendor": "Intel",
        "aggregate_instance_extra_specs:ssd": "true",
        "trait:CUSTOM_NEW": "required",
    }
    flavor = FlavorSpec("9", "pinned", 8, 4096, root_gb=20, extra_specs=specs)
    hints = {
        "query": ['["and", [">=", "$free_ram_mb", 4096], ["<", "$num_instances", 45]]'],
        "different_host": ["another"],
        "build_near_host_ip": ["192.0.2.1"],
        "cidr": ["/16"],
    }
    spec = RequestSpec("shop", "ana", flavor, IMAGE, scheduler_hints=hints, instance_hosts={"another": "host-3"})
    return with_hardware(spec, {"pci.alias": [ALIAS]})


def inside(hosts: HostTable) -> HostTable:
    """Return the same hosts, each with two cells, some CPUs and pages of them taken, and devices on every fourth."""
    dice = random.Random(len(hosts))
    return HostTable.from_states([_with_inside(state, dice) for state in hosts.states])


def _with_inside(state: HostState, dice: random.Random) -> HostState:
    metadata: Mapping[str, frozenset[str]] = {"ssd": frozenset({dice.choice(("true", "false"))})}
    return replace(
        state,
        topology=HostTopology((_cell(0, dice), _cell(1, dice))),
        pci_pools=(PciPool("10de", "1db4", dice.randrange(3), dice.randrange(2)),) if dice.random() < 0.25 else (),
        amounts={"PCPU": Amount(total=CORES * 4, used=dice.randrange(CORES * 4))},
        capabilities={"cpu_info": CPU_INFO},
        aggregate_metadata=metadata,
        traits=frozenset({"COMPUTE_NODE", "CUSTOM_NEW"} if dice.random() < 0.9 else {"COMPUTE_NODE"}),
        host_ip=f"192.0.{dice.randrange(4)}.{dice.randrange(1, 250)}",
    )


def _cell(number: int, dice: random.Random) -> HostCell:
    first = number * CORES * 2
    siblings = tuple(frozenset({first + core * 2, first + core * 2 + 1}) for core in range(CORES))
    cpus = frozenset(range(first, first + CORES * 2))
    pinned = frozenset(dice.sample(sorted(cpus), dice.randrange(len(cpus))))
    pages = (Pages(4, 16 * 1024 * 256), Pages(2048, 4096, dice.choice((0, 1000, 4000))))
    return HostCell(number, cpus, cpus, 131_072, siblings=siblings, pinned=pinned, pages=pages, socket=number)


if __name__ == "__main__":
    main()
