"""Effects that shadow plugins would have had on a decision."""

from __future__ import annotations

from conductor.core.filter import Filter
from conductor.core.plugin_choice import FILTER, PluginKey
from conductor.core.scheduling.filtering import timed_verdict
from conductor.core.scheduling.pipeline import Pipeline
from conductor.core.scheduling.select import SelectionResult
from conductor.core.scheduling.watching import PluginUse


def differences(outcome: SelectionResult, pipeline: Pipeline) -> dict[PluginKey, str]:
    """Return a description for each shadow plugin that would have changed where an instance goes."""
    filters = {one.name: one for one in pipeline.filters}
    found = {}
    for use in outcome.uses:
        if use.is_shadow and outcome.picks:
            text = _filtered(outcome, filters[use.name], use) if use.kind == FILTER else _weighed(outcome, use)
            if text:
                found[use.key] = text
    return found


def _filtered(outcome: SelectionResult, one: Filter, use: PluginUse) -> str:
    """Run a shadow filter again on the picked hosts. The time counts as explanation."""
    if not use.rejected:
        return ""
    shown = outcome.shown
    for row in dict.fromkeys(outcome.picks):
        try:
            verdict = timed_verdict(one, shown.hosts, shown.spec, row, shown.filtering.aside)
        except Exception:
            continue  # its first failure has been recorded
        if not verdict:
            name = shown.hosts.states[row].host
            reason = f" ({verdict.reason})" if verdict.reason else ""
            return f"would have rejected {name}, which was chosen{reason}"
    return ""


def _weighed(outcome: SelectionResult, use: PluginUse) -> str:
    """Describe the other choice of a shadow weigher. A host of the same largest weight is not another choice."""
    shown = outcome.shown
    totals = shown.weighing.totals
    rows = shown.hosts.rows_of([use.would_choose]) if use.would_choose else []
    if not rows or max(float(totals[row]) for row in rows) >= float(totals.max()):
        return ""
    return f"would have chosen {use.would_choose} instead of {shown.hosts.states[outcome.picks[0]].host}"
