"""Sequence diagrams of flows, generated from the code so that the documentation matches the steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from conductor.workflows.flow import Flow, RemoteStep, Step

BEGIN = "<!-- diagram of {name}: drawn by `manage.py draw_flows` -->"
END = "<!-- end of diagram -->"
HOST, SCHEDULER = "Host", "Scheduler"  # the first letters name them in the diagram; C is the conductor


def diagram(flow: Flow) -> str:
    """Return the flow in Mermaid: the steps, then the rollback, last first, and the final step of a failed run."""
    coordinator = next((step.lane for step in flow.steps if _peer(step) is None), "Conductor")
    lines = ["sequenceDiagram", f"    participant C as {coordinator}"]
    peers = {peer for step in (*flow.steps, *_final(flow)) if (peer := _peer(step))}
    lines += [f"    participant {peer[0]} as {peer}" for peer in (SCHEDULER, HOST) if peer in peers]
    for step in flow.steps:
        lines += [f"    {line}" for line in _forward(step)]
    back = [*(line for step in reversed(flow.steps) if step.has_revert for line in _back(step)), *_end(flow)]
    if back:
        lines += ["    opt a step fails" + ("" if flow.is_forward_only else ", or the run is cancelled")]
        lines += [f"        {line}" for line in back]
        lines += ["    end"]
    return "\n".join(lines)


def drawn_into(text: str, flows: Iterable[Flow]) -> str:
    """Return `text` (of docs/reference/workflows.md) with each flow's diagram after its heading. Raises KeyError."""
    for flow in flows:
        begin = BEGIN.format(name=flow.name)
        block = f"{begin}\n\n```mermaid\n{diagram(flow)}\n```\n\n{END}\n"
        old = re.compile(rf"{re.escape(begin)}.*?{re.escape(END)}\n", re.DOTALL)
        if old.search(text):
            text = old.sub(lambda _, new=block: new, text)  # type: ignore[misc]
            continue
        heading = re.compile(rf"^## {re.escape(flow.name)}\n\n", re.MULTILINE)
        if not heading.search(text):
            raise KeyError(flow.name)
        text = heading.sub(lambda found, new=block: f"{found[0]}{new}\n", text, count=1)  # type: ignore[misc]
    return text


def _peer(step: Step) -> str | None:
    """Return the participant that executes the step. None for the conductor itself."""
    if isinstance(step, RemoteStep):
        return HOST
    return SCHEDULER if step.lane == SCHEDULER else None


def _forward(step: Step) -> Iterator[str]:
    peer = _peer(step)
    if peer is None:
        yield f"C->>C: {step.title}"
        return
    yield f"C->>{peer[0]}: {step.title}"
    yield f"{peer[0]}-->>C: answer" if peer is HOST else f"{peer[0]}-->>C: hosts, each claimed"


def _back(step: Step) -> Iterator[str]:
    if isinstance(step, RemoteStep):
        yield f"C->>{HOST[0]}: undo: {step.title}"
        yield f"{HOST[0]}-->>C: answer"
    else:
        yield f"C->>C: undo: {step.title}"


def _final(flow: Flow) -> tuple[Step, ...]:
    return tuple(dict.fromkeys(step for step in (flow.on_failure, flow.on_cancel) if step is not None))


def _end(flow: Flow) -> Iterator[str]:
    for step in _final(flow):
        yield f"C->>C: {step.title}"
