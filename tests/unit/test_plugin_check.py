"""`novella-plugin-check`: a plugin that follows the contract passes, and each violation is found and named."""

from __future__ import annotations

import functools
import gc
import json
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conductor.conformance import impurity, plugin_check, plugin_laws
from conductor.conformance.plugin_laws import PluginUnderTest, fleet, laws_for
from conductor.core.filter import Filter
from conductor.core.host_state import HostState
from conductor.core.request_spec import RequestSpec
from conductor.core.verdict import PASS, Verdict, reject
from conductor.core.weigher import Weigher
from scheduler_plugins.filters.same_host import SameHostFilter
from tests.waiting import take_time

HERE = "tests.unit.test_plugin_check"
PATIENT = ("--milliseconds", "60000", "--check-seconds", "600")  # a busy machine makes no plugin slow


class Good(Filter):
    name = "Good"

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return PASS if host.num_instances < 20 else reject("host has enough instances")


class Lies(Good):
    def mask(self, hosts: Any, spec: RequestSpec) -> Any:
        return np.ones(len(hosts), np.bool_)


class WrongType(Good):
    def mask(self, hosts: Any, spec: RequestSpec) -> Any:
        return [True] * len(hosts)


class SaysBool(Good):
    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return False  # type: ignore[return-value]


class NamesHosts(Good):
    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return reject(f"{host.host} is full")


class Counts(Good):
    """Remembers: turns away every host that it is asked about for the third time."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        self._asked = 0

    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        self._asked += 1
        return PASS if self._asked % 7 else reject("it is the seventh")


class Draws(Good):
    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        return PASS if random.random() < 2 else reject("never")


class Looks(Good):
    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        Path("/proc/uptime").read_text()
        return PASS if time.time() > 1 else reject("never")


class Writes(Good):
    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        spec.scheduler_hints["rack"] = []  # type: ignore[index]
        return PASS


class Forces(Good):
    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        object.__setattr__(host, "num_instances", host.num_instances + 1)
        return PASS


class OfSets(Good):
    """Goes by the order of a set of texts, which is another in each process."""

    def mask(self, hosts: Any, spec: RequestSpec) -> Any:
        order = list({f"word-{number}" for number in range(50)})
        return np.array([order[row % 50] < "word-3" for row in range(len(hosts))])


class Hangs(Good):
    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        while True:
            take_time(0.01)


class Leaves(Good):
    def host_passes(self, host: HostState, spec: RequestSpec) -> Verdict:
        raise SystemExit(0)


class Ends(Good):
    def mask(self, hosts: Any, spec: RequestSpec) -> Any:
        os._exit(0)  # which would be the end of a command that has found nothing wrong


class Deaf(Good):
    def mask(self, hosts: Any, spec: RequestSpec) -> Any:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        take_time(600)


class Undeclared(Good):
    options_schema = {"most": {"type": "integer", "default": "many"}}


class Heavy(Weigher):
    name = "Heavy"
    multiplier_option = "heavy_weight_multiplier"

    def weigh(self, hosts: Any, spec: RequestSpec) -> Any:
        return hosts.num_instances


class Endless(Heavy):
    def weigh(self, hosts: Any, spec: RequestSpec) -> Any:
        return hosts.num_instances / 0.0


def broken(
    kind: type[Any], only: str = "", seconds: float = 600.0, limits: Mapping[str, float] | None = None, **values: Any
) -> dict[str, str]:
    """Return the laws that the class breaks, and why; of all, or of the one named. A busy machine makes none of them
    slow.
    """
    of = limits or {}
    subject = PluginUnderTest(kind, **{"milliseconds": 60_000.0, **values})
    laws = [law for law in laws_for(subject) if only in ("", law.__name__)]
    found = [
        plugin_check._judged(law.__name__, functools.partial(law, subject), of.get(law.__name__, seconds))
        for law in laws
    ]
    return {one.law: one.why for one in found if one.outcome == plugin_check.BROKEN}


@pytest.mark.parametrize("kind", [Good, Heavy])
def test_one_that_keeps_the_law_breaks_none(kind: type[Any]) -> None:
    assert broken(kind) == {}


def test_garbage_collection_callbacks_are_not_attributed_to_plugins() -> None:
    gc.callbacks.append(watch := lambda phase, info: time.perf_counter())
    try:
        with impurity.watched() as seen:
            for _ in range(5_000):
                circle: list[Any] = []
                circle.append(circle)
    finally:
        gc.callbacks.remove(watch)
    assert (seen, gc.isenabled()) == (set(), True)


@pytest.mark.parametrize(
    ("kind", "law", "why"),
    [
        (Lies, "it_says_of_one_host_what_it_says_of_all", "`host_passes` says False and `mask` says True"),
        (WrongType, "a_mask_has_one_bool_for_each_host", "`mask` is to return one bool for each host, not list"),
        (SaysBool, "each_rejection_has_a_reason", "`host_passes` is to return PASS or reject(…), not bool"),
        (NamesHosts, "each_rejection_has_a_reason", "tenants read the reason: name no host in it"),
        (Counts, "the_same_question_has_the_same_answer", "asked again, it answers otherwise"),
        (Draws, "it_reaches_for_nothing_outside", "it is not pure: draws by chance (Random.random)"),
        (Looks, "it_reaches_for_nothing_outside", "it is not pure: looks at the clock (time); opens a file (open)"),
        (Writes, "it_changes_nothing_that_it_is_given", "plugins must not change what they are given"),
        (Leaves, "the_same_question_has_the_same_answer", "it raised SystemExit: 0"),
        (Ends, "the_same_question_has_the_same_answer", "it ended its process with code 0"),
        (Undeclared, "it_has_a_name_and_options_that_are_declared", "the default of the option most does not fit"),
        (Endless, "each_host_has_one_finite_number", "a number is not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_each_way_to_break_it_is_found_and_named(kind: type[Any], law: str, why: str) -> None:
    assert why in broken(kind, law)[law]


def test_hosts_that_were_changed_by_force_are_found() -> None:
    law = "it_changes_nothing_that_it_is_given"
    assert "it changed the hosts" in broken(Forces, law)[law]


def test_one_that_hangs_is_broken_and_does_not_hold_up_the_others() -> None:
    found = broken(Hangs, seconds=0.5, limits={"it_has_a_name_and_options_that_are_declared": 600.0})
    assert found["the_same_question_has_the_same_answer"] == "it took longer than 0.5 seconds"
    assert "it_has_a_name_and_options_that_are_declared" not in found


def test_one_that_cannot_be_interrupted_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    came_of = plugin_check._came_of

    def deaf(law: Callable[[], Any], seconds: float) -> tuple[str, str, Any]:
        """Block the signal before the limit begins, as a slow machine may need longer than the limit to come there."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        return came_of(law, seconds)

    monkeypatch.setattr(plugin_check, "_came_of", deaf)
    monkeypatch.setattr(plugin_check, "GRACE_SECONDS", 0.2)
    law = "the_same_question_has_the_same_answer"
    assert broken(Deaf, law, seconds=1.0)[law] == "it went on for 1.2 seconds and could not be interrupted"


def test_a_slow_driver_gets_its_duration_reported() -> None:
    law = "ten_thousand_hosts_take_their_time_at_most"
    assert "ms for 10000 hosts; 0.001 may be" in broken(Good, law, milliseconds=0.001)[law]


def test_the_command_reports_and_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plugin_check.main([f"{HERE}:Good", "--json", str(tmp_path / "report.json"), *PATIENT]) == 0
    assert "filter Good: 11 kept, 0 broken, 0 not tried; " in capsys.readouterr().out
    found = json.loads((tmp_path / "report.json").read_text())["plugins"][0]
    assert (found["kind"], found["class"], found["counts"]["broken"]) == ("filter", f"{HERE}:Good", 0)
    assert found["milliseconds_per_10000_hosts"] > 0


def test_another_process_that_answers_otherwise_breaks_the_law() -> None:
    """A result that depends on the order of a set of strings differs under another hash seed."""
    options = plugin_check._parser().parse_args([f"{HERE}:Good", *PATIENT])
    finding = plugin_check._judged(
        plugin_check.ANOTHER_PROCESS,
        lambda: plugin_check._ask_elsewhere(plugin_check.FoundPlugin(OfSets), PluginUnderTest(OfSets), options),
        600.0,
    )
    assert finding.outcome == plugin_check.BROKEN
    assert "in another process it answers otherwise" in finding.why


def test_untested_changes_are_reported_and_a_hint_is_a_request(capsys: pytest.CaptureFixture[str]) -> None:
    plain = PluginUnderTest(SameHostFilter)
    with pytest.raises(plugin_laws.NotTried, match="it rejected no host: give a request"):
        plugin_laws.each_rejection_has_a_reason(plain)
    assert plugin_check.main(["SameHostFilter", "--hint", "same_host=web-1", *PATIENT]) == 0
    assert "0 not tried" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nobody"], "target: nothing that is installed is called nobody. Known: scheduler_plugins.plugin"),
        ([f"{HERE}:HERE"], "is no subclass of Filter or Weigher"),
        ([f"{HERE}:Nobody"], "cannot be imported"),
        (["compute_drivers.plugin"], "target: compute_drivers.plugin brings no filter and no weigher."),
        ([f"{HERE}:Good", "--hint", "rack"], "--hint: rack is not KEY=VALUE."),
        ([f"{HERE}:Good", "--request", "/nowhere.json"], "--request: /nowhere.json cannot be read"),
    ],
)
def test_invalid_arguments_exit_with_code_2(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plugin_check.main(words) == plugin_check.USAGE
    message = capsys.readouterr()
    assert complaint in message.err
    assert message.out == ""


def test_the_same_seed_draws_the_same_hosts() -> None:
    assert fleet(20, 3).states == fleet(20, 3).states
