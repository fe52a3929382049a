"""Loading plugins: what is found, in which order, and what becomes of those that are broken."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django import Settings

from conductor.core.scheduling.filtering import Rules, run_filters
from conductor.core.scheduling.weighing import Multipliers, weigh
from conductor.plugins import PluginOptions, Registry, check_plugins, chosen, load, missing, registry
from tests.unit.scheduling.fleets import host, spec, table

SHIPPED = ["scheduler_plugins.plugin"]
SHIPPED_FILTERS = [
    "ComputeFilter",
    "AvailabilityZoneFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "SameHostFilter",
    "DifferentHostFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
]

HEAD = """
from conductor.core.compute_driver import ComputeDriver
from conductor.core.filter import Filter
from conductor.core.verdict import PASS
from conductor.core.weigher import Weigher
from conductor.hookspecs import hookimpl

class Moon(Filter):
    name = "Moon"
    def host_passes(self, host, spec):
        return PASS

class Tide(Weigher):
    name = "Tide"
    def weigh(self, hosts, spec):
        return hosts.free_vcpus

class Boat(ComputeDriver):
    name = "boat"
"""
GOOD = """
@hookimpl
def register_filters():
    return [Moon]

@hookimpl
def register_weighers():
    return (Tide,)

@hookimpl
def register_compute_drivers():
    return {"boat": Boat}
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """`install("tides", code)` puts a distribution with one plugin into place, as an installer would."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(distribution: str, code: str, version: str = "1.0") -> None:
        sys.modules.pop(f"sample_{distribution}", None)  # of another test
        (tmp_path / f"sample_{distribution}.py").write_text(HEAD + code)
        info = tmp_path / f"{distribution}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[novella]\nmain = sample_{distribution}\n")

    return put


def found(options: PluginOptions | None = None) -> Registry:
    return load(SHIPPED, options or PluginOptions())


def filters(registry: Registry) -> list[str]:
    return [one.name for one in registry.filters]


def test_built_in_plugins_have_their_order() -> None:
    registry = found()
    assert filters(registry) == SHIPPED_FILTERS
    assert [(info.name, info.distribution, info.is_shipped) for info in registry.plugins] == [
        ("scheduler_plugins.plugin", "novella", True)
    ]
    assert registry.quarantined == ()


def test_installed_plugins_come_after_what_ships(install: Install) -> None:
    install("tides", GOOD, "2.5")
    registry = found()
    assert filters(registry) == [*SHIPPED_FILTERS, "Moon"]
    assert registry.weighers[-1].name == "Tide"
    assert list(registry.drivers) == ["boat"]
    info = registry.plugins[-1]
    assert (info.name, info.distribution, info.version, info.is_shipped) == ("main", "tides", "2.5", False)
    assert (info.filters, info.weighers, info.drivers) == (("Moon",), ("Tide",), ("boat",))
    assert filters(load(SHIPPED, PluginOptions(), finds_installed=False)) == SHIPPED_FILTERS


def test_the_operator_s_list_decides_which_run_and_in_which_order(install: Install) -> None:
    install("tides", GOOD)
    registry = found(PluginOptions(("Moon", "ComputeFilter", "Moon"), ("Tide",)))
    assert filters(registry) == ["Moon", "ComputeFilter"]
    assert [one.name for one in registry.weighers] == ["Tide"]
    assert missing(registry) == []


def test_a_name_without_a_plugin_fails_when_used_and_is_reported() -> None:
    registry = found(PluginOptions(("ComputeFilter", "Guard"), ("Tide",)))
    assert missing(registry) == ["Guard", "Tide"]
    hosts = table(host("host-0"), host("host-1"))
    closed = run_filters(hosts, spec(), registry.filters, Rules())
    assert closed.passing.tolist() == [False, False]
    assert [(fault.plugin, fault.error) for fault in closed.faults] == [("Guard", "PluginMissing")]
    opened = run_filters(hosts, spec(), registry.filters, Rules(frozenset({"Guard"})))
    assert opened.passing.tolist() == [True, True]
    weighing = weigh(hosts, spec(), registry.weighers, multipliers=Multipliers(), passing=opened.passing)
    assert weighing.parts == ()


BROKEN = {
    "does not import": ("import nothing_of_that_name", "ModuleNotFoundError: nothing_of_that_name"),
    "raises when imported": ("raise RuntimeError('/secret/path')", "RuntimeError"),
    "leaves when imported": ("raise SystemExit(3)", "SystemExit"),
    "raises when asked": ("@hookimpl\ndef register_filters():\n    raise ValueError('/secret/path')", "ValueError"),
    "returns no sequence": (
        "@hookimpl\ndef register_filters():\n    return 7",
        "a sequence of classes expected, not int",
    ),
    "returns a text": (
        "@hookimpl\ndef register_weighers():\n    return 'Tide'",
        "a sequence of classes expected, not str",
    ),
    "returns other classes": (
        "@hookimpl\ndef register_filters():\n    return [Tide]",
        "a subclass of Filter expected, not Tide",
    ),
    "returns objects": (
        "@hookimpl\ndef register_weighers():\n    return [Tide()]",
        "a subclass of Weigher expected, not Tide",
    ),
    "has no name": (
        "Moon.name = ''\n@hookimpl\ndef register_filters():\n    return [Moon]",
        "Moon has no name",
    ),
    "answers no question": (
        "class Dark(Filter):\n    name = 'Dark'\n@hookimpl\ndef register_filters():\n    return [Dark]",
        "Dark does not define host_passes",
    ),
    "cannot be made": (
        "class Dark(Moon):\n    name = 'Dark'\n    def __init__(self, options=None): raise KeyError\nMoon = Dark"
        + GOOD,
        "KeyError",
    ),
    "takes a shipped name": (
        "Moon.name = 'ComputeFilter'\n@hookimpl\ndef register_filters():\n    return [Moon]",
        "there is a filter named ComputeFilter already",
    ),
    "names one thing twice": (
        "@hookimpl\ndef register_weighers():\n    return [Tide, Tide]",
        "there is a weigher named Tide already",
    ),
    "returns no mapping of drivers": (
        "@hookimpl\ndef register_compute_drivers():\n    return [Boat]",
        "a mapping of names to driver classes expected, not list",
    ),
    "returns no driver": (
        "@hookimpl\ndef register_compute_drivers():\n    return {'boat': Moon}",
        "a subclass of ComputeDriver expected as driver boat, not Moon",
    ),
    "takes arguments that no hook has": (
        "@hookimpl\ndef register_filters(settings):\n    return [Moon]",
        "PluginValidationError",
    ),
}


@pytest.mark.parametrize(("code", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_plugin_is_excluded_and_reported_and_the_others_load(install: Install, code: str, reason: str) -> None:
    install("broken", GOOD.replace("register_filters", "unused").replace("@hookimpl", "") + code)
    install("tides", GOOD)
    registry = found()
    assert filters(registry) == [*SHIPPED_FILTERS, "Moon"]
    assert list(registry.drivers) == ["boat"]
    [shut_out] = registry.quarantined
    assert (shut_out.name, shut_out.distribution) == ("main", "broken")
    assert shut_out.reason == reason


def test_of_two_plugins_with_one_name_the_first_distribution_keeps_it(install: Install) -> None:
    install("winds", GOOD)
    install("tides", GOOD)
    registry = found()
    assert [info.distribution for info in registry.plugins] == ["novella", "tides"]
    assert registry.quarantined[0].distribution == "winds"
    assert registry.quarantined[0].reason == "there is a filter named Moon already"


def test_a_shipped_module_that_is_broken_is_no_end_either() -> None:
    registry = load(["nothing_of_that_name", *SHIPPED], PluginOptions())
    assert filters(registry) == SHIPPED_FILTERS
    assert [one.name for one in registry.quarantined] == ["nothing_of_that_name"]


def test_the_digest_distinguishes_plugins_versions_and_order(install: Install) -> None:
    plain = found().digest()
    assert found().digest() == plain
    install("tides", GOOD)
    digests = {
        plain,
        found().digest(),
        found(PluginOptions(("Moon", "ComputeFilter"))).digest(),
        found(PluginOptions(("ComputeFilter", "Moon"))).digest(),
    }
    assert len(digests) == 4


def test_an_operators_range_stands_above_a_weighers_own_ends() -> None:
    plain, ranged = found(), found(PluginOptions(ranges={"RAMWeigher": (0, 1000), "DiskWeigher": (5, 5)}))
    typical = {one.name: (one.minval, one.maxval) for one in chosen(plain, {}).weighers}
    ends = {one.name: (one.minval, one.maxval) for one in chosen(ranged, {}).weighers}
    assert ends == typical | {"RAMWeigher": (0.0, 1000.0)}  # what is no range is not used
    assert [(one.minval, one.maxval) for one in ranged.weighers if one.name == "RAMWeigher"] == [typical["RAMWeigher"]]
    assert chosen(ranged, {}).digest != chosen(plain, {}).digest


def test_the_system_check_names_ranges_that_are_none(settings: Settings) -> None:
    settings.NOVELLA_WEIGHT_RANGES = {"RAMWeighr": (0, 1), "CPUWeigher": (0, 1), "DiskWeigher": (2, 1)}
    registry.cache_clear()
    try:
        lines = [message.msg for message in check_plugins() if message.id == "conductor.W007"]
    finally:
        registry.cache_clear()
    assert lines == [
        "NOVELLA_WEIGHT_RANGES: the range of DiskWeigher is two numbers, the lower one first. It is not used.",
        "NOVELLA_WEIGHT_RANGES: no plugin brings a weigher RAMWeighr. Did you mean RAMWeigher?",
    ]


def test_the_system_check_names_excluded_and_missing_plugins(install: Install, settings: Settings) -> None:
    install("broken", "raise RuntimeError")
    settings.NOVELLA_ENABLED_FILTERS = ("ComputeFilter", "Guard")
    registry.cache_clear()
    try:
        lines = [(message.id, message.msg) for message in check_plugins()]
    finally:
        registry.cache_clear()
    assert ("conductor.W001", "Plugin main of broken is not used: RuntimeError.") in lines
    assert ("conductor.W002", "No plugin brings Guard, which the settings enable.") in lines


def test_the_system_check_names_options_in_the_settings_that_do_not_fit(settings: Settings) -> None:
    settings.NOVELLA_SCHEDULER_OPTIONS = {"max_io_op_per_host": 3, "max_instances_per_host": "many"}
    registry.cache_clear()
    try:
        lines = [message.msg for message in check_plugins() if message.id == "conductor.W003"]
    finally:
        registry.cache_clear()
    assert lines[0] == (
        "NOVELLA_SCHEDULER_OPTIONS: no plugin has an option max_io_op_per_host. Did you mean max_io_ops_per_host?"
    )
    assert len(lines) == 3  # two filters have the other one
    assert all("The option max_instances_per_host of" in text and 'Value: "many".' in text for text in lines[1:])
