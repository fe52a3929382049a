"""Explanation of placement: the funnel, hosts and weights of each decision, for the template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, ngettext

from conductor.core.context import RequestContext
from conductor.services.scheduling import decisions
from conductor.services.scheduling.types import DecisionView
from portal.pages.amounts import CLASS_WORDS, decimal
from portal.pages.plugin_names import words
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline.presenter import WorkflowPresenter

MOST_WEIGHED = 20
LEAST_GAP_SHOWN = 0.05  # percent: a smaller gap would be shown as 0.0
PALETTE = 6


@dataclass(frozen=True)
class PlacementStage:
    """A filter and the number of hosts left after it; shares are of all hosts."""

    name: str
    before: int
    after: int
    lost: int
    milliseconds: float
    kept_share: float
    lost_share: float
    plugin: str = ""
    errored: int = 0  # hosts for which its plugin failed
    consequence: str = ""


def context_of(caller: RequestContext, presenter: WorkflowPresenter, query: Mapping[str, str]) -> dict[str, Any]:
    """Context of the placement tab."""
    found = decisions.for_run(caller, presenter.view.uuid)
    is_forgotten = any(step.lane == "Scheduler" and step.finished_at for run in presenter.runs for step in run.steps)
    lost = query.get("lost", "")
    return {
        "decisions": [explain(decision, lost) for decision in found],
        "why_none": _why_none(presenter, is_forgotten=is_forgotten),
        "is_forgotten": is_forgotten,
        "lost": lost,
    }


def _why_none(presenter: WorkflowPresenter, *, is_forgotten: bool) -> str:
    if is_forgotten:  # decisions are kept for a shorter time than workflows
        return gettext("The scheduling decision for this server is no longer stored.")
    return "No host has been requested yet." if presenter.is_live else "This workflow didn't need a host."


def explain(decision: DecisionView, lost: str = "") -> dict[str, Any]:
    """Return a decision for the template; `lost` restricts its hosts to those that one filter rejected."""
    requested = [str(stage["filter"]) for stage in decision.funnel if stage["before"]]
    stages = _stages([stage for stage in decision.funnel if stage["before"]], decision.faults)
    weighers = _weighers(decision.weights)
    return {
        "view": decision,
        "total": stages[0].before if stages else 0,
        "headline": _headline(decision),
        "facts": _facts(decision),
        "stages": stages,
        "unasked": [words(stage["filter"]) for stage in decision.funnel if not stage["before"]],
        "weighers": [{"name": words(name), "number": number % PALETTE} for number, name in enumerate(weighers)],
        "weights": _bars(decision.weights[:MOST_WEIGHED], weighers),
        "choice": _choice(decision),
        "columns": [{"name": words(name), "plugin": name} for name in requested],
        "lost_words": words(lost) if lost else "",
        "hosts": [
            {"host": host, "badge": _badge(host), "marks": _marks(host, requested)}
            for host in decision.hosts
            if lost in ("", host["rejected_by"])
        ],
        "races": _races(decision),
        "nearest": [{**miss, "asked": words(str(miss["rejected_by"]))} for miss in decision.nearest],
    }


def _races(decision: DecisionView) -> list[dict[str, Any]]:
    """Return the lost claims: the missing resource, the faster server, and the next host."""
    hosts = [str(race["host"]) for race in decision.lost_races]
    following = [*hosts[1:], str(decision.selections[0]["host"]) if decision.selections else ""]
    kinds = [str(race.get("resource_class", "")) for race in decision.lost_races]
    return [
        {**race, "gone": gettext(CLASS_WORDS.get(kind, kind)), "next": after}
        # `following` is empty without lost claims
        for race, kind, after in zip(decision.lost_races, kinds, following, strict=False)
    ]


def _stages(funnel: Sequence[Mapping[str, Any]], faults: Sequence[Mapping[str, Any]]) -> list[PlacementStage]:
    failed = {str(fault["plugin"]): fault for fault in faults if fault["kind"] == "filter"}
    most = max((stage["before"] for stage in funnel), default=0) or 1
    return [
        PlacementStage(
            name=words(stage["filter"]),
            plugin=str(stage["filter"]),
            before=stage["before"],
            after=stage["after"],
            lost=stage["before"] - stage["after"],
            milliseconds=stage.get("milliseconds", 0.0),
            kept_share=stage["after"] / most,
            lost_share=(stage["before"] - stage["after"]) / most,
            errored=failed.get(str(stage["filter"]), {}).get("count", 0),
            consequence=failed.get(str(stage["filter"]), {}).get("consequence", ""),
        )
        for stage in funnel
    ]


def _headline(decision: DecisionView) -> str:
    if not decision.is_successful:
        return gettext("No host is eligible")
    chosen = [str(selection["host"]) for selection in decision.selections]
    if not chosen:
        count = decision.num_instances
        return ngettext("%(count)s host selected", "%(count)s hosts selected", count) % {"count": count}
    names = list(dict.fromkeys(chosen))
    more = " " + gettext("and %(more)s more") % {"more": len(names) - 5} if len(names) > 5 else ""
    return gettext("Selected: %(hosts)s") % {"hosts": ", ".join(names[:5]) + more}


def _facts(decision: DecisionView) -> str:
    values = {
        "count": decision.num_instances,
        "age": decimal(decision.snapshot_age_seconds, 1),
        "seed": str(decision.seed),
    }
    sentence = ngettext(
        "Requested %(count)s server; host data was %(age)s s old; random seed %(seed)s.",
        "Requested %(count)s servers; host data was %(age)s s old; random seed %(seed)s.",
        decision.num_instances,
    )
    return sentence % values


def _weighers(weights: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the weighers that made a difference to any host; the others are not drawn."""
    return list(dict.fromkeys(part["weigher"] for host in weights for part in host["parts"] if part["weight"]))


def _bars(weights: Sequence[Mapping[str, Any]], weighers: Sequence[str]) -> list[dict[str, Any]]:
    """Return bar segments: to the right of zero for positive weights, to the left for negative ones."""
    for_it = [sum(max(part["weight"], 0.0) for part in host["parts"]) for host in weights]
    against = [sum(max(-part["weight"], 0.0) for part in host["parts"]) for host in weights]
    left, right = max(against, default=0.0), max(for_it, default=0.0)
    span = (left + right) or 1.0
    return [
        {
            "host": host["host"],
            "total_text": decimal(host["total"], 2),
            "zero": left / span,
            "bars": list(_segments(host["parts"], weighers, left, span)),
            "parts": [_part(host["parts"], name) for name in weighers],
        }
        for host in weights
    ]


def _segments(
    parts: Sequence[Mapping[str, Any]], weighers: Sequence[str], left: float, span: float
) -> list[dict[str, Any]]:
    ends = {1: left, -1: left}
    segments = []
    for part in parts:
        weight = part["weight"]
        if not weight:
            continue
        sign = 1 if weight >= 0 else -1
        begin = ends[sign]
        ends[sign] = begin + weight
        segments.append(
            {
                "number": weighers.index(part["weigher"]) % PALETTE,
                "start": min(begin, ends[sign]) / span,
                "length": abs(weight) / span,
            }
        )
    return segments


def _part(parts: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    found = next((part for part in parts if part["weigher"] == name), None)
    if found is None:
        return {"text": "–", "raw": "", "normalized": "", "multiplier": ""}
    return {**found, "text": decimal(found["weight"], 2)}


PASSED, REJECTED, NOT_RUN = StatusBadge("good", "pass"), StatusBadge("bad", "reject"), StatusBadge("none", "not run")


def _marks(host: Mapping[str, Any], requested: Sequence[str]) -> list[dict[str, Any]]:
    """Return each filter's verdict on a host; the first rejection ends the list."""
    marks = []
    was_rejected = False
    for name in requested:
        is_no = name == host["rejected_by"]
        marks.append({"name": words(name), "badge": NOT_RUN if was_rejected else REJECTED if is_no else PASSED})
        was_rejected = was_rejected or is_no
    return marks


def _choice(decision: DecisionView) -> str:
    """Return the best and the next best host, the duration, and the scheduler."""
    if not decision.is_successful or len(decision.weights) < 1:
        return ""
    values = [*_best(decision.weights)]
    if decision.drawn_among > 1:
        values.append(gettext("selected at random from the best %(count)s") % {"count": decision.drawn_among})
    if decision.milliseconds:
        values.append(gettext("decided in %(amount)s ms") % {"amount": decimal(decision.milliseconds, 1)})
    if decision.scheduler:
        values.append(gettext("by scheduler %(name)s") % {"name": decision.scheduler})
    return "; ".join(values) + "."


def _best(weights: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the best host, those with equal weight, and the next one with its distance."""
    best, *rest = weights
    score = {"host": best["host"], "score": decimal(best["total"], 2)}
    yield gettext("Highest weight: %(host)s, score %(score)s") % score
    behind = [host for host in rest if host["total"] < best["total"]]
    if alike := len(rest) - len(behind):
        words = ngettext(
            "%(count)s other host has the same weight; one was selected at random",
            "%(count)s other hosts have the same weight; one was selected at random",
            alike,
        )
        yield words % {"count": alike}
    if behind:
        gap = 100 * (best["total"] - behind[0]["total"]) / (abs(best["total"]) or 1)
        share = f" ({decimal(gap, 1)} %)" if best["total"] and gap >= LEAST_GAP_SHOWN else ""
        score = {"host": behind[0]["host"], "score": decimal(behind[0]["total"], 2) + share}
        yield gettext("next %(host)s %(score)s") % score


def _badge(host: Mapping[str, Any]) -> StatusBadge:
    return (
        StatusBadge("good", "eligible")
        if host["passed"]
        else StatusBadge("none", "left out", words(str(host["rejected_by"])))
    )
