"""The version of the plugin contract: a plugin for another one is refused with a message, and not used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conductor.core.filter import Filter
from conductor.core.host_state import HostState
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict
from conductor.hookspecs import CONTRACTS, DEPRECATED, hookimpl
from conductor.plugins import PluginOptions, Registry, load, loading, system_checks
from conductor.plugins.loading import PluginSource
from tests.architecture.tree import read


class Moon(Filter):
    name = "Moon"

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return PASS


def loaded(monkeypatch: pytest.MonkeyPatch, **plugin: Any) -> Registry:
    """Return the registry with a plugin of one filter and these attributes."""
    brought = SimpleNamespace(register_filters=hookimpl(lambda: [Moon]), **plugin)
    source = PluginSource("main", "tides", "1.0", False, lambda: brought)
    monkeypatch.setattr(loading, "_installed", lambda: iter([source]))
    return load([], PluginOptions())


@pytest.mark.parametrize("declared", [None, 1, 2, (1, 2), [2, 9], (-3, 1)])
def test_a_plugin_for_a_supported_contract_version_is_used(monkeypatch: pytest.MonkeyPatch, declared: Any) -> None:
    plugin = {} if declared is None else {"novella_contract": declared}
    found = loaded(monkeypatch, **plugin)
    assert ([one.name for one in found.filters], found.quarantined) == (["Moon"], ())


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (5, "it was made for contract 5, and here is 4: it needs a newer Novella"),
        ((5, 9), "it was made for contract 5, and here is 4: it needs a newer Novella"),
        ((-1, 0), "it was made for contract 0, and the oldest here is 1: it needs a newer version"),
        *(
            (wrong, "novella_contract is to be a number, or a pair of the first and the last that will do")
            for wrong in ("2", (2,), (2, 1), True, 1.5, (1, 2, 3))
        ),
    ],
)
def test_a_plugin_for_no_supported_contract_version_is_refused_whole(
    monkeypatch: pytest.MonkeyPatch, declared: Any, reason: str
) -> None:
    found = loaded(monkeypatch, novella_contract=declared)
    assert [(one.distribution, one.reason) for one in found.quarantined] == [("tides", reason)]
    assert (found.plugins, found.filters, found.loaded_filters) == ((), (), ())


def test_an_unknown_hook_is_refused_unless_it_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = loaded(monkeypatch, register_fliters=hookimpl(lambda: ()))
    assert [one.reason for one in refused.quarantined] == [
        "it has the hook register_fliters, which is not known in contract 4"
    ]
    assert refused.filters == ()
    taken = loaded(monkeypatch, register_tomorrow=hookimpl(lambda: (), optionalhook=True))
    assert ([one.name for one in taken.filters], taken.quarantined) == (["Moon"], ())


def test_deprecated_attributes_work_and_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEPRECATED, "Filter", {"host_passes": "define judge"})  # type: ignore[index]
    found = loaded(monkeypatch)
    line = "Moon defines host_passes, which is deprecated: define judge"
    assert ([one.name for one in found.filters], found.plugins[0].warnings) == (["Moon"], (line,))
    monkeypatch.setattr(system_checks, "registry", lambda: found)
    lines = [(one.id, one.msg) for one in system_checks.check_plugins()]
    assert lines == [("conductor.W006", f"Plugin main of tides: {line}.")]


def test_each_version_is_in_the_documentation() -> None:
    page = read("docs/reference/plugin-hooks.md")
    assert [version for version in CONTRACTS if f"\n| {version} | " not in page] == []
    assert list(CONTRACTS) == list(range(1, len(CONTRACTS) + 1))
