"""Advice on a decision, in plain sentences for the user who made the request: counts and reasons, without host
names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from conductor.core.host_state import HostState
from conductor.core.messages import Message, message, plugin_name, with_texts, word
from conductor.core.scheduling.builtin_filters import Placement, RequestedHosts
from conductor.core.scheduling.filtering import PluginFault, Stage
from conductor.core.scheduling.select import SelectionResult
from conductor.core.scheduling.watching import NOT_ASKED, TOO_SLOW
from conductor.core.states import CELL_IN_QUARANTINE
from conductor.core.verdict import Verdict

HIDDEN = "the host"
WORD = re.compile(r"[\w.-]+")
Reasons = Sequence[tuple[Stage, Mapping[int, Verdict]]]


def advise(
    outcome: SelectionResult, *, reasons: Reasons, miss_counts: Mapping[str, int], missing_cells: Mapping[str, str]
) -> list[Message]:
    """Return sentences in order: how many hosts fit, why the others do not, near misses, and failures.

    The counts of the first two kinds add up to the number of hosts.
    """
    total = len(outcome.shown.hosts)
    if not total:
        return [message("scheduling.no_hosts"), *_troubles(outcome, missing_cells)]
    fitting = outcome.shown.weighing.count
    lines = [message("scheduling.eligible", count=fitting, total=total)] if fitting else []
    if not outcome.is_successful and outcome.shown.index:
        lines.append(message("scheduling.partial", placed=outcome.shown.index, total=outcome.num_instances))
    lines += [
        message("scheduling.rejected", rejected=count, total=total, reason=reason)
        for reason, count in _grouped(outcome, reasons)
    ]
    lines += _near(outcome, miss_counts)
    return lines + _troubles(outcome, missing_cells)


def _grouped(outcome: SelectionResult, reasons: Reasons) -> list[tuple[str, int]]:
    """Return reasons and their number of hosts, the most frequent first.

    That a host is not the one that the request names comes last: the reason of the named host is the one that helps.
    """
    counts: Counter[str] = Counter()
    not_named: Counter[str] = Counter()
    nameless = _NameRedactor(outcome)
    for stage, by_row in reasons:
        mine = Counter(_text(stage, verdict, outcome.shown.hosts.states[row]) for row, verdict in by_row.items())
        unexplained = stage.rejected - len(by_row)
        if unexplained and len(mine) == 1:  # where all judged hosts give one reason, the rest have it too
            mine[next(iter(mine))] += unexplained
        elif unexplained:
            mine[message("reject.by_filter", filter=plugin_name(stage.filter.name))] += unexplained
        is_ours = isinstance(stage.filter, Placement)  # the most frequent filter, and its reasons name no host
        kept = not_named if isinstance(stage.filter, RequestedHosts) else counts
        for text, count in mine.items():
            kept[text if is_ours else with_texts(text, nameless)] += count
    return counts.most_common() + not_named.most_common()


class _NameRedactor:
    """Removes names of hosts and nodes from a text: a plugin's reason may hold any of them."""

    def __init__(self, outcome: SelectionResult) -> None:
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
    text: str = verdict.reason
    if isinstance(stage.filter, Placement) and verdict.need:
        return message("scheduling.reason_with_need", reason=text, need=verdict.need)
    for name in (state.host, state.node):  # a plugin's reason may name the host, which is not for tenants
        if name in text:
            named = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
            text = with_texts(text, lambda lines, named=named: named.sub(HIDDEN, lines))  # type: ignore[misc]
    return text if isinstance(text, Message) else text.rstrip(".")


def _near(outcome: SelectionResult, miss_counts: Mapping[str, int]) -> list[Message]:
    if len(outcome.shown.filtering.stages) < 2:
        return []
    return [
        message("scheduling.near_full", count=count)
        if name == Placement.name
        else message("scheduling.near_filter", count=count, filter=plugin_name(name))
        for name, count in miss_counts.items()
    ]


def _troubles(outcome: SelectionResult, missing_cells: Mapping[str, str]) -> list[Message]:
    cells = [
        message("scheduling.cell_quarantined", cell=cell)
        if why == CELL_IN_QUARANTINE
        else message("scheduling.cell_unresponsive", cell=cell)
        for cell, why in sorted(missing_cells.items())
    ]
    return cells + [_fault(fault) for fault in outcome.faults]


def _fault(fault: PluginFault) -> Message:
    named = {"kind": word(fault.kind.capitalize()), "plugin": fault.plugin}
    about = {**named, "count": fault.count, "consequence": word(fault.consequence)}
    if fault.error == TOO_SLOW:
        return message("scheduling.plugin_slow", **about)
    if fault.error in NOT_ASKED:
        return message("scheduling.plugin_not_run", **about, error=word(fault.error))
    if fault.consequence == "left out":
        return message("scheduling.plugin_skipped", **named, error=word(fault.error))
    return message("scheduling.plugin_failed", **about, error=word(fault.error))
