"""A decision in plain sentences for the person who asked: counts and reasons, no host's name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from conductor.core.host_state import HostState
from conductor.core.scheduling.filtering import PluginFault, Stage
from conductor.core.scheduling.links import Placement
from conductor.core.scheduling.select import Outcome
from conductor.core.scheduling.watching import NOT_ASKED, TOO_SLOW
from conductor.core.states import CELL_IN_QUARANTINE
from conductor.core.verdict import Verdict

HIDDEN = "the host"
WORD = re.compile(r"[\w.-]+")
Reasons = Sequence[tuple[Stage, Mapping[int, Verdict]]]


def advise(
    outcome: Outcome, *, reasons: Reasons, miss_counts: Mapping[str, int], missing_cells: Mapping[str, str]
) -> list[str]:
    """Sentences in order: how many hosts fit, why the others do not, what came near, what went wrong.

    The counts of the first two kinds add up to the number of hosts.
    """
    total = len(outcome.shown.hosts)
    if not total:
        return ["There are no hosts.", *_troubles(outcome, missing_cells)]
    fitting = outcome.shown.weighing.count
    said = [f"{fitting} of {total} {_hosts(total)} {'fits' if fitting == 1 else 'fit'}."] if fitting else []
    if not outcome.is_successful and outcome.shown.index:
        said.append(f"Only {outcome.shown.index} of {outcome.num_instances} instances found room: none was placed.")
    said += [f"{count} of {total} {_hosts(total)}: {text}." for text, count in _grouped(outcome, reasons)]
    said += _near(outcome, miss_counts)
    return said + _troubles(outcome, missing_cells)


def _grouped(outcome: Outcome, reasons: Reasons) -> list[tuple[str, int]]:
    """Reason and number of hosts, the most frequent first."""
    counts: Counter[str] = Counter()
    nameless = _Nameless(outcome)
    for stage, by_row in reasons:
        mine = Counter(_text(stage, verdict, outcome.shown.hosts.states[row]) for row, verdict in by_row.items())
        unexplained = stage.rejected - len(by_row)
        if unexplained and len(mine) == 1:  # all that were asked say the same: so do the rest
            mine[next(iter(mine))] += unexplained
        elif unexplained:
            mine[f"turned away by {stage.filter.name}"] += unexplained
        is_ours = isinstance(stage.filter, Placement)  # the most frequent of all, and it names nobody
        for text, count in mine.items():
            counts[text if is_ours else nameless(text)] += count
    return counts.most_common()


class _Nameless:
    """Takes the names of hosts and nodes out of a text: a plugin's reason may hold any of them."""

    def __init__(self, outcome: Outcome) -> None:
        hosts, spec = outcome.shown.hosts, outcome.shown.spec
        named = {*spec.instance_hosts.values(), *spec.ignore_hosts, *spec.force_hosts, *spec.force_nodes}
        named |= {*(spec.group.member_hosts.values() if spec.group else ()), spec.requested_host, spec.requested_node}
        self._hosts = hosts
        self._others = {name for name in named if name}

    def __call__(self, text: str) -> str:
        return WORD.sub(self._word, text)

    def _word(self, found: re.Match[str]) -> str:
        word = found[0]
        inner = word.strip(".-")  # the full stop at the end of a sentence
        if not inner or not any(name in self._others or self._hosts.knows(name) for name in (word, inner)):
            return word
        return word.replace(inner, HIDDEN)


def _text(stage: Stage, verdict: Verdict, state: HostState) -> str:
    text = verdict.reason
    if isinstance(stage.filter, Placement) and verdict.need:
        text = f"{text} ({verdict.need} needed)"
    for name in (state.host, state.node):  # a plugin's reason may name the host, which is not for tenants
        if name in text:
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", HIDDEN, text)
    return text.rstrip(".")


def _near(outcome: Outcome, miss_counts: Mapping[str, int]) -> list[str]:
    said = []
    for name, count in miss_counts.items():
        what = "room" if name == Placement.name else f"what {name} asks for"
        if len(outcome.shown.filtering.stages) > 1:
            said.append(f"Nearest: {count} {_hosts(count)} {'lacks' if count == 1 else 'lack'} nothing but {what}.")
    return said


def _troubles(outcome: Outcome, missing_cells: Mapping[str, str]) -> list[str]:
    silent = sorted(missing_cells.items())
    cells = [f"Cell {cell} {_silence(why)}: its hosts were not considered." for cell, why in silent]
    return cells + [_fault(fault) for fault in outcome.faults]


def _silence(why: str) -> str:
    return "is in quarantine" if why == CELL_IN_QUARANTINE else "did not answer"


def _fault(fault: PluginFault) -> str:
    kind = fault.kind.capitalize()
    if fault.error == TOO_SLOW:
        return f"{kind} {fault.plugin} took too long about {fault.count} {_hosts(fault.count)}, {fault.consequence}."
    if fault.error in NOT_ASKED:
        about = f"about {fault.count} {_hosts(fault.count)} ({fault.error}), {fault.consequence}"
        return f"{kind} {fault.plugin} was not asked {about}."
    if fault.consequence == "left out":
        return f"{kind} {fault.plugin} failed ({fault.error}) and was left out."
    return f"{kind} {fault.plugin} failed ({fault.error}) on {fault.count} {_hosts(fault.count)}, {fault.consequence}."


def _hosts(count: int) -> str:
    return "host" if count == 1 else "hosts"
