"""Nova's own filters and weighers, as its scheduler runs them, on hosts in memory, for schedule_peer.py.

    python run_nova_scheduler.py < {"hosts": […], "flavor": {…}, "properties": {…}}, then a line per request

Only the cost of one request with loaded hosts is measured: the filters one after another, then the weighers. Nova's
query to placement, the rows of hosts, services and instances that it reads for each request, and its claim are not.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from typing import Any
from unittest import mock

warnings.simplefilter("ignore")

from nova import conf, context, objects  # noqa: E402
from nova.scheduler import host_manager  # noqa: E402
from nova.virt import hardware  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

LOADS = ("refresh_cells_caches", "_init_aggregates", "_init_instance_info")


def main() -> None:
    out, sys.stdout = sys.stdout, sys.stderr  # its output must not mix with the answers
    requested = json.loads(sys.stdin.readline())
    logging.disable(logging.CRITICAL)  # a log line for each host that is down would be measured too
    conf.CONF([], project="nova", default_config_files=[])
    conf.CONF.set_override("service_down_time", 10**6)  # none becomes unresponsive during the run
    objects.register_all()
    manager = _manager()
    states = [_state(host) for host in requested["hosts"]]
    spec = _spec(requested["flavor"], requested["properties"])
    print("ready", file=out, flush=True)
    for _ in sys.stdin:
        began = time.thread_time()
        left = manager.get_filtered_hosts(states, spec)
        best = manager.get_weighed_hosts(left, spec)
        took = time.thread_time() - began
        print(took, len(best), best[0].obj.host, best[0].weight, file=out, flush=True)


def _manager() -> Any:
    """Return a manager with its default filters and weighers, and without the rows that it would read at start."""
    with mock.patch.multiple(host_manager.HostManager, **dict.fromkeys(LOADS, mock.DEFAULT)):
        return host_manager.HostManager()


def _state(host: dict[str, Any]) -> Any:
    state = host_manager.HostState(host["host"], host["host"], host["cell"])
    state.vcpus_total, state.vcpus_used = host["vcpus"], host["vcpus_used"]
    state.total_usable_ram_mb, state.free_ram_mb = host["memory_mb"], host["memory_mb"] - host["memory_mb_used"]
    state.total_usable_disk_gb = host["disk_gb"]
    state.free_disk_mb = (host["disk_gb"] - host["disk_gb_used"]) * 1024
    state.disk_mb_used = host["disk_gb_used"] * 1024
    state.cpu_allocation_ratio, state.ram_allocation_ratio, state.disk_allocation_ratio = host["cpu_ratio"], 1.0, 1.0
    state.num_instances, state.num_io_ops, state.failed_builds = host["num_instances"], host["num_io_ops"], 0
    state.hypervisor_type, state.hypervisor_version, state.hypervisor_hostname = "", 0, host["host"]
    state.supported_instances = host["supported_instances"]
    state.uuid, state.stats, state.metrics, state.aggregates, state.instances = host["host"], {}, None, [], {}
    seen = timeutils.utcnow() if host["is_up"] else timeutils.utcnow().replace(year=2000)
    state.service = objects.Service(
        host=host["host"], binary="nova-compute", topic="compute", disabled=False, forced_down=False, last_seen_up=seen
    )
    return state


def _spec(flavor: dict[str, int], properties: dict[str, str]) -> Any:
    size = objects.Flavor(
        id=1, flavorid="2", name="small", extra_specs={}, ephemeral_gb=0, swap=0, rxtx_factor=1.0, vcpu_weight=0,
        disabled=False, is_public=True, **flavor,
    )  # fmt: skip
    image = objects.ImageMeta.from_dict({"properties": properties})
    return objects.RequestSpec.from_components(
        context.get_admin_context(),
        "10000000-0000-4000-8000-000000000000",
        image,
        size,
        hardware.numa_get_constraints(size, image),
        objects.InstancePCIRequests(requests=[]),
        {},
        None,
        None,
        project_id="shop",
        user_id="ana",
        security_groups=objects.SecurityGroupList(objects=[]),
    )


if __name__ == "__main__":
    main()
