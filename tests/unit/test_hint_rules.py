"""Hints and extra specs that no host could ever answer are refused, naming the key."""

from __future__ import annotations

import pytest

from conductor.core.errors import Invalid
from conductor.core.scheduling.hints import QUERY_COMMANDS
from conductor.services.hosts import aggregates
from conductor.services.servers import extra_specs
from scheduler_plugins.filters.json_query import COMMANDS


@pytest.mark.parametrize(
    "hints",
    [
        {},
        {"query": [""]},
        {"query": ['[">=", "$free_ram_mb", 1024]']},
        {"query": ['["not", ["=", "$host", "a"], "x"]']},
        {"build_near_host_ip": ["192.0.2.1"]},
        {"build_near_host_ip": ["2001:db8::1"], "cidr": ["/64"]},
        {"cidr": ["/99"]},  # alone it asks for nothing
        {"rack": ["r1", "r2"]},
    ],
)
def test_hints_that_can_be_read(hints: dict[str, list[str]]) -> None:
    extra_specs.check_hints(hints)


@pytest.mark.parametrize(
    ("hints", "name", "fault"),
    [
        ({"query": ["{"]}, "query", "no JSON"),
        ({"query": ["[" * 100_000]}, "query", "deeper than 100"),
        ({"query": ['["not",' * 101 + '["=", 1]' + "]" * 101]}, "query", "deeper than 100"),
        ({"query": ['{"=": 1}']}, "query", "no list"),
        ({"query": ['["and", ["~", 1]]']}, "query", 'no command "~"'),
        ({"query": ["[]", "[]"]}, "query", "one text"),
        ({"build_near_host_ip": ["here"]}, "build_near_host_ip", "here is no address"),
        ({"build_near_host_ip": ["192.0.2.1"], "cidr": ["/33"]}, "cidr", "/33 is no network"),
        ({"build_near_host_ip": ["192.0.2.1"], "cidr": ["/8", "/9"]}, "cidr", "one text"),
    ],
)
def test_hints_that_cannot_be_read(hints: dict[str, list[str]], name: str, fault: str) -> None:
    with pytest.raises(Invalid, match=fault) as refused:
        extra_specs.check_hints(hints)
    assert refused.value.details["field"] == f"os:scheduler_hints.{name}"


def test_the_commands_that_are_accepted_are_those_that_are_understood() -> None:
    assert set(QUERY_COMMANDS) == set(COMMANDS)


@pytest.mark.parametrize("scope", ["capabilities", "aggregate_instance_extra_specs"])
@pytest.mark.parametrize("value", [">= four", ">=", "<or>", "<all-in>", "s=="])
def test_requirements_that_nothing_meets(scope: str, value: str) -> None:
    with pytest.raises(Invalid, match=f"extra spec '{scope}:x'") as refused:
        extra_specs.check({f"{scope}:x": value})
    assert refused.value.details["field"] == f"{scope}:x"


@pytest.mark.parametrize("value", [">= 4", "four", "<in> x", "<or> a <or> b", "~ 4", "> 4", ""])
def test_requirements_that_something_may_meet(value: str) -> None:
    extra_specs.check({"capabilities:x": value, "x": ">= four"})


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("group_policy", "isolate", "apart"),
        ("hw:cpu_max_threads", "1", "0"),
        ("hw:numa_mem.0", "512", "0"),
        ("hw:maxphysaddr_bits", "42", "many"),
        ("hw:maxphysaddr_mode", "emulate", "other"),
        ("hw:virtio_packed_ring", "true", "perhaps"),
        ("hw:tpm_version", "2.0", "tpm-crb"),
        ("hw:tpm_secret_security", "host", "other"),
        ("hw:pmem", "4GB,4GB", "4 GB"),
        ("hw:viommu_model", "auto", "other"),
        ("hw:sound_model", "ich9", "loud"),
        ("hw:ephemeral_encryption", "true", "perhaps"),
        ("hw:ephemeral_encryption_format", "luks", "rot13"),
        ("hw:redirected_usb_ports", "15", "16"),
    ],
)
def test_values_that_the_scheduler_reads(key: str, good: str, bad: str) -> None:
    extra_specs.check({key: good})
    with pytest.raises(Invalid, match=f"'{bad}' is not a valid value for extra spec '{key}'") as refused:
        extra_specs.check({key: bad})
    assert refused.value.details["field"] == key


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("ram_weight_multiplier", ("-1.5", "0", " 2"), ("x", "", "nan", "inf", "1,5")),
        ("metrics_weight_multiplier", ("1e3",), ("much",)),
        ("max_io_ops_per_host", ("0", "8"), ("-1", "3.5", "x")),
        ("max_instances_per_host", ("50",), ("",)),
        ("rack", ("x", ""), ()),
    ],
)
def test_numbers_that_aggregates_give(key: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    aggregates.check(dict.fromkeys([key]))
    for value in good:
        aggregates.check({key: value})
    for value in bad:
        with pytest.raises(Invalid, match=f"Aggregate metadata {key}: ") as refused:
            aggregates.check({key: value})
        assert refused.value.details["field"] == f"metadata.{key}"


@pytest.mark.parametrize("key", ["resources:VCPU", "resources2:CUSTOM_GOLD", "trait:HW_CPU_X86_AVX", "trait1:CUSTOM_X"])
def test_names_that_are_known_or_custom(key: str) -> None:
    extra_specs.check({key: "required" if key.startswith("trait") else "1"})


@pytest.mark.parametrize("key", ["resources:VCPUS", "resources2:GOLD", "trait:HW_CPU", "trait1:CUSTOM_", "trait:"])
def test_names_that_no_host_can_have(key: str) -> None:
    with pytest.raises(Invalid, match=f"extra spec '{key}' does not appear") as refused:
        extra_specs.check({key: "required" if key.startswith("trait") else "1"})
    assert refused.value.details["field"] == key
