"""The diagrams and tables of steps in docs/reference/workflows.md, from the flows. Other text is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from conductor.workflows.catalog import FLOWS
from conductor.workflows.flow import Flow, RemoteStep, Step
from conductor.workflows.steps.on_guest import GuestCommandStep
from tools.page_sections import paragraphs, with_sections

PROJECT_DIR = Path(__file__).resolve().parent.parent
PAGE = PROJECT_DIR / "docs" / "reference" / "workflows.md"
DIAGRAM = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^\| step \| .*\n(?:\|.*\n)+", re.MULTILINE)
HOST, SCHEDULER = "Host", "Scheduler"  # their first letters name them in the diagram; C is the conductor
NO_REVERT, NONE = "No revert: ", "None."
REVERTS = ("revert_command", "revert", "commit_revert")


def page() -> str:
    """Return the page with diagrams and tables as the code has them. A section without them gets them at its end."""
    return with_sections(PAGE, {flow.name: partial(_section, flow) for flow in FLOWS})


def _section(flow: Flow, text: str) -> str:
    for pattern, block in ((DIAGRAM, f"```mermaid\n{diagram(flow)}\n```\n"), (TABLE, table(flow))):
        text = pattern.sub(lambda _, new=block: new, text) if pattern.search(text) else f"{text}{block}\n"  # type: ignore[misc]
    return text


def table(flow: Flow) -> str:
    """Return the steps of a flow with the first paragraphs of their docstrings."""
    rows = [(step.name, summary(step), compensation(step)) for step in flow.steps]
    if all(row[2] == NONE for row in rows):
        return "| step | what it does |\n|---|---|\n" + "".join(f"| {name} | {text} |\n" for name, text, _ in rows)
    head = "| step | what it does | compensation |\n|---|---|---|\n"
    return head + "".join(f"| {name} | {text} | {undo} |\n" for name, text, undo in rows)


def summary(step: Step) -> str:
    """Return what a step does. Raises ValueError for a step without a docstring."""
    if type(step) is GuestCommandStep:
        return step.verb.summary
    return paragraphs(step)[0]


def compensation(step: Step) -> str:
    """Return what undoes a step, or why nothing does. Raises ValueError for a revert without a docstring."""
    if type(step) is GuestCommandStep:
        return step.verb.compensation
    if step.has_revert:
        base = RemoteStep if isinstance(step, RemoteStep) else Step
        own = [name for name in REVERTS if getattr(type(step), name, None) is not getattr(base, name, None)]
        return paragraphs(getattr(step, own[0]))[0]
    reasons = [text.removeprefix(NO_REVERT) for text in paragraphs(step) if text.startswith(NO_REVERT)]
    return f"None: {reasons[0]}" if reasons else NONE


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


def _peer(step: Step) -> str | None:
    """Return the participant that executes the step, if it is not the conductor itself."""
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
