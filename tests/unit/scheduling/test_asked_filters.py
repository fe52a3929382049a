"""Optional filters, which run only where an operator enables them: their verdicts, and how they handle odd values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.host_state import HostState
from conductor.core.request_spec import GroupSpec, ImageSpec, RequestSpec
from conductor.core.verdict import PASS, Verdict, reject
from tests.unit.scheduling.fleets import BROUGHT, host, hosts, spec, table

UNREADABLE = "unreadable"


def ask(name: str, state: HostState, request: RequestSpec, options: Mapping[str, Any] | None = None) -> Verdict:
    """Return the filter's verdict with these options, after a check that its mask agrees."""
    one = type(BROUGHT[name])(options)
    verdict = one.host_passes(state, request)
    assert one.mask(table(state), request).tolist() == [verdict.passed]
    assert verdict.passed or verdict.reason
    return verdict


def output(verdict: Verdict) -> bool | str:
    return UNREADABLE if verdict.is_unreadable else verdict.passed


def within(**metadata: str | tuple[str, ...]) -> HostState:
    """Return a host whose aggregates have this metadata; of several values each is another aggregate's."""
    values = {key: frozenset([value] if isinstance(value, str) else value) for key, value in metadata.items()}
    return host(aggregate_metadata=values)


def test_all_hosts() -> None:
    assert ask("AllHostsFilter", host(is_up=False), spec()) == PASS


@pytest.mark.parametrize("restricts", [True, False])
@pytest.mark.parametrize(("image", "on_isolated", "elsewhere"), [("kept", True, False), ("other", None, True)])
def test_isolated_hosts(image: str, on_isolated: bool | None, elsewhere: bool, restricts: bool) -> None:
    options = {"isolated_hosts": ["host-1"], "isolated_images": ["kept"]}
    options["restrict_isolated_hosts_to_isolated_images"] = restricts  # type: ignore[assignment]
    request = RequestSpec("shop", "ana", spec().flavor, ImageSpec(image_id=image))
    there = ask("IsolatedHostsFilter", host("host-1"), request, options)
    assert there.passed is (not restricts if on_isolated is None else on_isolated)
    assert ask("IsolatedHostsFilter", host("host-2"), request, options).passed is elsewhere


def test_isolated_hosts_without_isolated_images_take_nothing() -> None:
    options = {"isolated_hosts": ["host-1"]}
    assert ask("IsolatedHostsFilter", host("host-1"), spec(), options) == reject(
        "the host is reserved for isolated images", have="another image"
    )
    assert ask("IsolatedHostsFilter", host("host-2"), spec(), options) == PASS


@pytest.mark.parametrize(
    ("extra_specs", "metadata", "answer"),
    [
        ({}, {}, True),
        ({"ssd": "true"}, {}, False),
        ({"ssd": "true"}, {"ssd": "true"}, True),
        ({"aggregate_instance_extra_specs:ssd": "true"}, {"ssd": "false"}, False),
        ({"ssd": "true"}, {"ssd": "no, true"}, True),
        ({"num": ">= 4"}, {"num": ("2", "10")}, True),
        ({"num": ">= 4"}, {"num": ("2", "many")}, UNREADABLE),
        ({"num": ">= 4"}, {"num": ("5", "many")}, True),
        ({"num": ">= few"}, {"num": "5"}, UNREADABLE),
        ({"aggregate_instance_extra_specs:a:b": "c"}, {"a:b": "c"}, True),
        ({"capabilities:ssd": "true", "hw:cpu_policy": "shared"}, {}, True),  # other scopes are not our business
    ],
)
def test_aggregates_and_extra_specs(extra_specs: dict[str, str], metadata: Any, answer: bool | str) -> None:
    name = "AggregateInstanceExtraSpecsFilter"
    assert output(ask(name, within(**metadata), spec(extra_specs=extra_specs))) == answer


@pytest.mark.parametrize(
    ("image", "metadata", "options", "passes"),
    [
        ({}, {"os_distro": "debian"}, {}, True),
        ({"os_distro": "debian"}, {}, {}, True),
        ({"os_distro": "debian"}, {"os_distro": "ubuntu , debian"}, {}, True),
        ({"os_distro": "suse"}, {"os_distro": "ubuntu,debian"}, {}, False),
        ({"colour": "red"}, {"colour": "blue"}, {}, True),  # no property that is known
        ({"hw_boot_menu": "yes"}, {"hw_boot_menu": "True"}, {}, True),
        ({"hw_boot_menu": "yes"}, {"hw_boot_menu": "yes"}, {}, False),
        ({"hw_boot_menu": "no"}, {"hw_boot_menu": "True"}, {}, True),  # what is off asks for nothing
        ({"architecture": "amd64"}, {"hw_architecture": "x86_64"}, {}, True),
        ({"os_distro": "suse"}, {"os_distro": "debian"}, {"namespace": "hw", "separator": "_"}, True),
        ({"os_distro": "suse"}, {"os_distro": "debian"}, {"namespace": "os", "separator": "_"}, False),
        ({"os_distro": "suse"}, {"os_distro": "debian"}, {"namespace": "os"}, True),
    ],
)
def test_aggregates_and_image_properties(image: Any, metadata: Any, options: Any, passes: bool) -> None:
    set_to = {f"aggregate_image_properties_isolation_{name}": value for name, value in options.items()}
    name = "AggregateImagePropertiesIsolation"
    assert ask(name, within(**metadata), spec(image=image), set_to).passed is passes


@pytest.mark.parametrize(
    ("metadata", "passes"),
    [
        ({}, True),
        ({"filter_tenant_id": "shop"}, True),
        ({"filter_tenant_id": "lab"}, False),
        ({"filter_tenant_id": "lab", "filter_tenant_id_2": "x, shop"}, True),
        ({"filter_tenant_id": ""}, False),
        ({"my_filter_tenant_id": "lab"}, True),
    ],
)
def test_aggregates_and_projects(metadata: Any, passes: bool) -> None:
    assert ask("AggregateMultiTenancyIsolation", within(**metadata), spec()).passed is passes


@pytest.mark.parametrize(
    ("flavors", "passes"), [(("small",), True), (("large",), False), (("large", " tiny , small"), True), (("",), False)]
)
def test_aggregates_and_flavors(flavors: tuple[str, ...], passes: bool) -> None:
    assert ask("AggregateTypeAffinityFilter", within(instance_type=flavors), spec()).passed is passes


COUNTS = [
    ("IoOpsFilter", "max_io_ops_per_host", "num_io_ops", 8),
    ("NumInstancesFilter", "max_instances_per_host", "num_instances", 50),
]


@pytest.mark.parametrize(("name", "option", "field", "default"), COUNTS)
def test_counts(name: str, option: str, field: str, default: int) -> None:
    assert ask(name, host(**{field: default - 1}), spec()) == PASS
    full = ask(name, host(**{field: default}), spec())
    assert (full.passed, full.need, full.have) == (False, f"fewer than {default}", str(default))
    assert not ask(name, host(**{field: 2}), spec(), {option: 2})
    busy = host(**{field: 2}, aggregate_metadata={option: frozenset({"2"})})
    assert ask(name, busy, spec(), {option: 3})  # it does not ask the aggregates


@pytest.mark.parametrize(("name", "option", "field", "default"), COUNTS)
@pytest.mark.parametrize(
    ("values", "most"),
    [((), 4), (("2",), 2), (("9", " 2 "), 2), (("2", "x"), 4), (("3.0",), 4), (("",), 4), (("-1",), -1)],
)
def test_counts_by_aggregates(
    name: str, option: str, field: str, default: int, values: tuple[str, ...], most: int
) -> None:
    metadata = {option: frozenset(values)} if values else {}
    for count in range(6):
        state = host(**{field: count}, aggregate_metadata=metadata)
        assert ask(f"Aggregate{name}", state, spec(), {option: 4}).passed is (count < most)


@pytest.mark.parametrize(("name", "option", "field", "default"), COUNTS)
@settings(max_examples=30, deadline=None)
@given(states=hosts, most=st.integers(0, 5))
def test_a_greater_limit_lets_no_fewer_hosts_pass(
    name: str, option: str, field: str, default: int, states: list[HostState], most: int
) -> None:
    less, more = (type(BROUGHT[name])({option: limit}).mask(table(*states), spec()) for limit in (most, most + 1))
    assert (less <= more).all()


@pytest.mark.parametrize(
    ("hints", "address", "answer"),
    [
        ({}, "", True),
        ({"cidr": ["/8"]}, "", True),  # alone it asks for nothing
        ({"build_near_host_ip": [""]}, "192.0.2.1", True),
        ({"build_near_host_ip": ["192.0.2.9"]}, "192.0.2.200", True),
        ({"build_near_host_ip": ["192.0.2.9"]}, "192.0.3.1", False),
        ({"build_near_host_ip": ["192.0.2.9"], "cidr": ["/28"]}, "192.0.2.200", False),
        ({"build_near_host_ip": ["192.0.2.9"], "cidr": ["/255.255.255.0"]}, "192.0.2.200", True),
        ({"build_near_host_ip": ["192.0.2.9"], "cidr": [""]}, "192.0.2.9", True),
        ({"build_near_host_ip": ["192.0.2.9"], "cidr": ["/33"]}, "192.0.2.9", UNREADABLE),
        ({"build_near_host_ip": ["192.0.2.9"], "cidr": ["/8", "/9"]}, "192.0.2.9", UNREADABLE),
        ({"build_near_host_ip": ["somewhere"]}, "192.0.2.9", UNREADABLE),
        ({"build_near_host_ip": ["192.0.2.9"]}, "", UNREADABLE),
        ({"build_near_host_ip": ["2001:db8::1"], "cidr": ["/64"]}, "2001:db8::ff", True),
        ({"build_near_host_ip": ["2001:db8::1"], "cidr": ["/64"]}, "192.0.2.9", False),
    ],
)
def test_networks(hints: dict[str, list[str]], address: str, answer: bool | str) -> None:
    request = spec(scheduler_hints=hints)
    assert output(ask("SimpleCIDRAffinityFilter", host(host_ip=address), request)) == answer


@given(st.ip_addresses(v=4), st.ip_addresses(v=4), st.integers(1, 32))
def test_a_wider_network_keeps_no_fewer_hosts(near: Any, address: Any, length: int) -> None:
    def passes(width: int) -> bool:
        hints = {"build_near_host_ip": [str(near)], "cidr": [f"/{width}"]}
        return bool(ask("SimpleCIDRAffinityFilter", host(host_ip=str(address)), spec(scheduler_hints=hints)))

    assert passes(length) <= passes(length - 1)


def test_metrics() -> None:
    options = {"weight_setting": ["cpu.percent=1", "cpu.frequency=0", "nonsense"]}
    assert ask("MetricsFilter", host(), spec()) == PASS
    assert ask("MetricsFilter", host(metrics={"cpu.percent": 1.0}), spec(), options) == reject(
        "the host does not report all metrics", need="cpu.frequency", have="not reported"
    )
    assert ask("MetricsFilter", host(metrics={"cpu.percent": 1.0, "cpu.frequency": 0.0}), spec(), options) == PASS


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("", True),
        ("[]", True),
        ("null", True),
        ('[">=", "$free_ram_mb", 1024]', True),
        ('["<", "$free_ram_mb", 1024]', False),
        ('["and", [">=", "$vcpus_total", 8], ["=", "$host", "host-0"]]', True),
        ('["or", ["=", "$host", "x"], ["=", "$hypervisor_type", "QEMU"]]', True),
        ('["not", ["=", "$host", "host-0"]]', False),
        ('["not", ["=", "$host", "x"], ["=", "$host", "host-0"]]', True),  # any of them
        ('["and", ["not", ["=", "$host", "host-0"]]]', True),  # a list counts as true
        ('["in", "$host", "a", "host-0"]', True),
        ('["in", "$host"]', False),
        ('["=", "$nothing", 1]', False),  # what has no value is left out, and one alone compares with nothing
        ('["=", "$stats.rack", "r1"]', True),
        ('["=", "$stats.shelf", "s1"]', False),
        ('["<", 1, 2, 3]', True),
        ('["<", 1, 2, 0]', False),
        ('["<", "$host", 1]', UNREADABLE),
        ('["<", 2, 1, "x"]', UNREADABLE),  # all are compared, also after one that does not hold
        ('["=", "$host.name", 1]', UNREADABLE),
        ('["~", "$host", 1]', UNREADABLE),
        ('["=", "$host_ip", "192.0.2.1"]', False),  # an address is no text
        ('["<", "$host_ip", "192.0.2.2"]', UNREADABLE),
        ('["<=", "$host_ip", "$host_ip"]', True),
        ('["<=", "$aggregates", 1]', UNREADABLE),  # several things, which have no order
        ('["not", "$metrics", "$instances"]', True),  # there are none of them
        ('["not", "$pci_stats"]', False),
        ('["in", "$metrics", "$limits"]', False),
        ('["=", "$pci_stats", "$pci_stats"]', True),
        ('["=", "$metrics.cpu", 1]', UNREADABLE),
        ('{"=": 1}', UNREADABLE),
        ("5", UNREADABLE),
        ("[", UNREADABLE),
        ("[" * 100_000, UNREADABLE),
    ],
)
def test_queries(query: str, answer: bool | str) -> None:
    state = host(capabilities={"rack": "r1"}, host_ip="192.0.2.1")
    assert output(ask("JsonFilter", state, spec(scheduler_hints={"query": [query]}))) == answer


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(("", "$host", "$free_ram_mb", "$nothing", "x")),
    lambda inner: st.lists(st.sampled_from(("=", "<", "in", "not", "or", "and", ">=")), min_size=1, max_size=1).flatmap(
        lambda command: st.lists(inner, max_size=3).map(lambda rest: [*command, *rest])
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(states=hosts, query=json_values)
def test_any_query_gets_an_answer_that_its_mask_gives_too(states: list[HostState], query: Any) -> None:
    request = spec(scheduler_hints={"query": [json.dumps(query)]})
    one = BROUGHT["JsonFilter"]
    assert one.mask(table(*states), request).tolist() == [bool(one.host_passes(state, request)) for state in states]


def test_a_list_of_queries_is_unreadable() -> None:
    assert output(ask("JsonFilter", host(), spec(scheduler_hints={"query": ["[]", "[]"]}))) == UNREADABLE


def test_an_empty_hint_asks_for_nothing() -> None:
    for name, hint in (("SameHostFilter", "same_host"), ("DifferentHostFilter", "different_host")):
        assert ask(name, host(), spec(scheduler_hints={hint: [""]}, instance_hosts={"": "host-0"})) == PASS


def test_the_host_of_the_instance_itself_may_keep_it() -> None:
    group = GroupSpec("group", "anti-affinity", member_hosts={"own": "host-0", "a": "host-0", "b": "host-1"})
    request = spec(group=group, instance_uuid="own")
    names = [f"host-{number}" for number in range(3)]
    assert [bool(ask("ServerGroupAntiAffinityFilter", host(name), request)) for name in names] == [True, False, True]


@pytest.mark.parametrize(
    ("info", "bits", "answer"),
    [
        ({"maxphysaddr": {"bits": 46}}, "46", True),
        ({"maxphysaddr": {"bits": 40}}, 46, False),
        ({}, 46, True),  # a host without a report has enough
        ('{"maxphysaddr": {"bits": 46}}', 40, UNREADABLE),
    ],
)
def test_bits_of_addresses(info: Any, bits: Any, answer: bool | str) -> None:
    state = host(capabilities={"cpu_info": info})
    image = {"hw_architecture": "x86_64", "hw_maxphysaddr_bits": bits}
    assert output(ask("ImagePropertiesFilter", state, spec(image=image))) == answer
    flavor = spec(extra_specs={"hw:maxphysaddr_bits": str(bits)})
    assert bool(ask("ComputeCapabilitiesFilter", state, flavor)) is (info != {} and answer is not False)


def test_images_of_no_architecture_may_have_one() -> None:
    option = "image_properties_default_architecture"
    assert ask("ImagePropertiesFilter", host(), spec(), {option: "x86_64"}) == PASS
    assert not ask("ImagePropertiesFilter", host(), spec(), {option: "aarch64"})
    assert ask("ImagePropertiesFilter", host(), spec(image={"hw_architecture": "i586"}), {option: "aarch64"}) == PASS


@pytest.mark.parametrize(
    ("requirement", "answer"),
    [(">= 4", True), (">= 400000", False), (">= four", UNREADABLE), ("<or>", UNREADABLE), ("16384", True)],
)
def test_capabilities_that_cannot_be_compared(requirement: str, answer: bool | str) -> None:
    request = spec(extra_specs={"capabilities:free_ram_mb": requirement})
    assert output(ask("ComputeCapabilitiesFilter", host(), request)) == answer
    nowhere = spec(extra_specs={"capabilities:nothing": requirement})
    assert output(ask("ComputeCapabilitiesFilter", host(), nowhere)) is False
