"""Processor time of a conductor that keeps OVN as the networks say, beside that of OVN's own northd in the same run.

    python benchmarks/network_projection.py [--ports 1000 5000] [--changes 10] [--seconds 60]

The rows are in SQLite files, the databases and northd are real. There are networks of 100 ports. Each project has two
of them with a router and a gateway, and groups of up to 200 ports; one port of ten has a floating IP. Root is needed.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_flow import all_databases
from benchmarks.results import Figure, record
from tests.services import ovn
from tests.waiting import wait_until

BAR_RATIO = 0.2
FILLED = "everything, into an empty database"
HOSTS = 20
PORTS_OF_NETWORK = 100
NETWORKS_OF_PROJECT = 2
PORTS_PER_FLOATING_IP = 10
FULL_PASSES = 9
LOW_PORT = 10_000
DATABASE_SECONDS = 300.0  # a busy machine shall not end a run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ports", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    if len(given.ports) > 1:  # a process has one set of databases
        for count in given.ports:
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--ports", str(count)], check=True)
        return
    with tempfile.TemporaryDirectory(prefix="novella-bench-") as name, ovn.lab(Path(name)) as lab, all_databases():
        measure(lab, given.ports[0], given.changes, given.seconds)


def measure(lab: ovn.Lab, count: int, changes: int, seconds: float) -> None:
    from django.test import override_settings

    from conductor.network.ovn import database
    from conductor.services.networks.ovn_projection import CHECK_SECONDS, OvnProjection

    database.TIMEOUT_SECONDS = DATABASE_SECONDS
    for number in range(HOSTS):
        lab.sb("chassis-add", f"host-{number}", "geneve", f"172.31.1.{number + 1}")
    remotes = {"NOVELLA_OVN_NORTHBOUND": lab.central.nb_remote, "NOVELLA_OVN_SOUTHBOUND": lab.central.sb_remote}
    with override_settings(**remotes):
        rows = Rows(count)
        projection = OvnProjection("bench")
        meter = Meter(lab)
        found = {FILLED: meter.cost_of(lambda: until_northd_has_it(lab, meter, projection))}
        settle(meter, projection)
        passes = [meter.cost_of(lambda: full_pass(lab, meter, projection)) for _ in range(FULL_PASSES)]
        found["a full pass that finds nothing to do"] = median(passes)
        for what, change in {"one port more": rows.add_port, "one rule more of a group": rows.add_rule}.items():
            costs = []
            for _ in range(changes):
                is_there = change(lab)
                not_due(projection)
                costs.append(meter.cost_of(lambda: one_change(meter, projection, is_there)))  # noqa: B023
            found[what] = median(costs)
        began, ends = time.process_time(), time.monotonic() + seconds
        while time.monotonic() < ends:
            projection.carry_out()
            time.sleep(CHECK_SECONDS)
        idle = (time.process_time() - began) * 60 / seconds
        projection.release()
    show(count, found, idle)


def show(count: int, found: dict[str, Cost], idle: float) -> None:
    figures = [
        Figure(
            f"{what}, {count:,} ports",
            f"{cost.own * 1000:.0f} ms, all done after {cost.seconds:.2f} s",
            f"northd, {cost.northd * 1000:.0f} ms",
            round(cost.own / cost.northd, 2),
            "" if what == FILLED else f"≤ {BAR_RATIO}",
        )
        for what, cost in found.items()
    ]
    figures.append(Figure(f"a minute without changes, {count:,} ports", f"{idle:.2f} s"))
    for figure in figures:
        print(f"{figure.figure}: {figure.measured}; {figure.limit}; {figure.ratio} {figure.bar}", flush=True)
    record("network_projection", figures)


@dataclass
class Cost:
    """Processor seconds of this process and of northd, and seconds that passed."""

    own: float
    northd: float
    seconds: float


def median(costs: list[Cost]) -> Cost:
    """Return the medians: a collection of garbage of the whole process is in the costs of few changes."""
    return Cost(*(statistics.median(values) for values in zip(*(vars(cost).values() for cost in costs), strict=True)))


@dataclass
class Meter:
    """Measures what this process and northd spend; what this process spends on waiting does not count."""

    lab: ovn.Lab
    _waited: float = field(default=0.0)

    def cost_of(self, work: Callable[[], None]) -> Cost:
        self.until_northd_rests()
        self._waited = 0.0
        own, northd, began = time.process_time(), self._northd(), time.monotonic()
        work()
        seconds = time.monotonic() - began
        self.until_northd_rests()
        return Cost(time.process_time() - own - self._waited, self._northd() - northd, seconds)

    def wait(self, what: str, condition: Callable[[], object]) -> None:
        with self._uncounted():
            wait_until(what, condition)

    def until_northd_rests(self) -> None:
        """Wait until northd has answered twice: it answers between two passes."""
        with self._uncounted():
            for _ in range(2):
                assert self.lab.central.northd.answers()

    @contextmanager
    def _uncounted(self) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            self._waited += time.thread_time() - began

    def _northd(self) -> float:
        tasks = Path(f"/proc/{self.lab.central.northd.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def full_pass(lab: ovn.Lab, meter: Meter, projection: Any) -> None:
    projection._held._full_pass_at = 0.0
    until_northd_has_it(lab, meter, projection)


def until_northd_has_it(lab: ovn.Lab, meter: Meter, projection: Any) -> None:
    from conductor.network.ovn import health

    projection.carry_out()
    state = lambda: health.read(lab.central.nb_remote, lab.central.sb_remote, seconds=60)  # noqa: E731
    meter.wait("northd has carried it out", lambda: (found := state()).configuration and not found.is_northd_late)


def settle(meter: Meter, projection: Any) -> None:
    """Carry out what northd's own writes lead to."""
    for _ in range(3):
        meter.until_northd_rests()
        projection.carry_out()


def not_due(projection: Any) -> None:
    projection._held._full_pass_at = time.monotonic() + 3600


def one_change(meter: Meter, projection: Any, is_there: Callable[[], object]) -> None:
    projection.carry_out()
    meter.wait("the southbound database has it", is_there)
    projection.carry_out()


class Rows:
    """The rows of networks with so many ports of guests."""

    def __init__(self, count: int) -> None:
        self._now = {"created_at": now(), "updated_at": now()}
        self._macs = 0
        self._outside, self._outside_subnet = self._network("public", "100.64.0.0/16", is_external=True)
        networks = -(-count // PORTS_OF_NETWORK)
        for first in range(0, networks, NETWORKS_OF_PROJECT):
            self._add_project(f"project-{first}", range(first, min(first + NETWORKS_OF_PROJECT, networks)))

    def add_port(self, lab: ovn.Lab) -> Callable[[], object]:
        """Add a port, and return a function that says whether the southbound database has it."""
        port = self._ports(self._last_network, self._last_subnet, self._last_project, 1, [self._group])[0]
        where = [["logical_port", "==", str(port.uuid)]]
        return lambda: select(lab.central.sb_remote, "OVN_Southbound", "Port_Binding", where, "_uuid")

    def add_rule(self, lab: ovn.Lab) -> Callable[[], object]:
        """Add a rule to a group of many ports, and return a function that says whether its flows are there."""
        number = self._macs = self._macs + 1
        rule = self._rule(
            self._group, protocol="tcp", port_range_min=LOW_PORT + number, port_range_max=LOW_PORT + number
        )
        rule.save(force_insert=True)

        def is_there() -> bool:
            own = [["external_ids", "includes", ["map", [["novella:id", str(rule.uuid)]]]]]
            entries = select(lab.central.nb_remote, "OVN_Northbound", "ACL", own, "_uuid")
            hints = (["map", [["stage-hint", entry["_uuid"][1][:8]]]] for entry in entries)
            return any(
                select(
                    lab.central.sb_remote,
                    "OVN_Southbound",
                    "Logical_Flow",
                    [["external_ids", "includes", hint]],
                    "_uuid",
                )
                for hint in hints
            )

        return is_there

    def _add_project(self, project: str, numbers: range) -> None:
        from conductor.network import models

        group = models.SecurityGroup.objects.create(name="default", project_id=project, **self._now)
        web = models.SecurityGroup.objects.create(name="web", project_id=project, **self._now)
        rules = [
            self._rule(group, "egress"),
            self._rule(group, "egress", "IPv6"),
            self._rule(group, remote_group=group),
        ]
        rules += [self._rule(web, protocol="tcp", port_range_min=port, port_range_max=port) for port in (22, 80, 443)]
        models.SecurityGroupRule.objects.bulk_create(rules)
        router = models.Router.objects.create(name="way-out", project_id=project, **self._now)
        (gateway,) = self._ports(
            self._outside,
            self._outside_subnet,
            project,
            1,
            [],
            device_owner="network:router_gateway",
            device_id=str(router.uuid),
        )
        models.Router.objects.filter(pk=router.pk).update(gateway_port=gateway)
        for number in numbers:
            network, subnet = self._network(project, f"10.{number // 256}.{number % 256}.0/24")
            self._ports(
                network, subnet, project, 1, [], device_owner="network:router_interface", device_id=str(router.uuid),
                is_port_security_enabled=False,
            )  # fmt: skip
            ports = self._ports(network, subnet, project, PORTS_OF_NETWORK, [group, web])
            with_floating_ip = ports[::PORTS_PER_FLOATING_IP]
            outer = self._ports(
                self._outside,
                self._outside_subnet,
                project,
                len(with_floating_ip),
                [],
                device_owner="network:floatingip",
            )
            models.FloatingIp.objects.bulk_create(
                models.FloatingIp(
                    project_id=project, network=self._outside, outer_port=public, port=port, router=router,
                    address=public.addresses.get().ip_address, fixed_ip_address=port.addresses.get().ip_address,
                    **self._now,
                )
                for public, port in zip(outer, with_floating_ip, strict=True)
            )  # fmt: skip
        self._last_network, self._last_subnet, self._last_project, self._group = network, subnet, project, group

    def _network(self, project: str, cidr: str, **values: Any) -> tuple[Any, Any]:
        from conductor.network import models

        network = models.Network.objects.create(name=f"net {cidr}", project_id=project, **values, **self._now)
        return network, models.Subnet.objects.create(
            network=network, project_id=project, cidr=cidr, gateway_ip=cidr.replace(".0/", ".1/").partition("/")[0],
            dns_nameservers=["9.9.9.9"], is_dhcp_enabled=not values, **self._now,
        )  # fmt: skip

    def _ports(
        self, network: Any, subnet: Any, project: str, count: int, groups: list[Any], **values: Any
    ) -> list[Any]:
        """Add ports with the next free addresses of the subnet: the first one has its gateway's."""
        from ipaddress import ip_network

        from conductor.network import models

        taken = models.AddressAllocation.objects.filter(subnet=subnet).count()
        guest = {"is_plugged": True, "device_owner": "compute:az-1"}
        ports = []
        for _ in range(count):
            self._macs += 1
            mac = ":".join(("fa:16:3e", *(f"{self._macs >> shift & 255:02x}" for shift in (16, 8, 0))))
            own = values or guest | {
                "binding_host": f"host-{self._macs % HOSTS}", "device_id": str(uuid.uuid4()),
                "guest_hostname": f"server-{self._macs}",
            }  # fmt: skip
            ports.append(models.Port(network=network, project_id=project, mac_address=mac, **own, **self._now))
        models.Port.objects.bulk_create(ports)
        addresses = ip_network(subnet.cidr)
        models.AddressAllocation.objects.bulk_create(
            models.AddressAllocation(subnet=subnet, port=port, ip_address=str(addresses[taken + number + 1]))
            for number, port in enumerate(ports)
        )
        member = models.Port.security_groups.through
        member.objects.bulk_create(member(port=port, securitygroup=group) for port in ports for group in groups)
        return ports

    def _rule(self, group: Any, direction: str = "ingress", ethertype: str = "IPv4", **values: Any) -> Any:
        from conductor.network.models import SecurityGroupRule

        return SecurityGroupRule(
            group=group, direction=direction, ethertype=ethertype, rule_key=str(uuid.uuid4()), **values, **self._now
        )


def now() -> Any:
    from django.utils import timezone

    return timezone.now()


def select(remote: str, database: str, table: str, where: list[Any], column: str) -> list[dict[str, Any]]:
    """Return a column of the rows of a table that meet all conditions, by a request of OVSDB (RFC 7047)."""
    operation = {"op": "select", "table": table, "where": where, "columns": [column]}
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(remote.partition(":")[2])
        link.sendall(json.dumps({"id": 0, "method": "transact", "params": [database, operation]}).encode())
        received = b""
        while True:
            received += link.recv(65_536)
            try:
                rows: list[dict[str, Any]] = json.loads(received)["result"][0]["rows"]
            except ValueError:  # not whole yet
                continue
            return rows


if __name__ == "__main__":
    main()
