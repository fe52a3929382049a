"""Graph of a workflow: steps from left to right, compensations beneath them, and child runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil

from django.utils.translation import gettext, ngettext

from conductor.core.states import StepState
from conductor.services.workflows.types import RunView, StepView
from portal.pages import status_badges
from portal.pages.amounts import whole
from portal.pages.status_badges import StatusBadge
from portal.pages.timeline import timeline

NODE_WIDTH, NODE_HEIGHT = 186, 52
GAP_X, GAP_Y = 40, 28
UNDO_DROP = 26
HEAD = 26  # height of a lane's name
FOLD_FROM = 20
WORST_FIRST = ("bad", "undo", "working", "waiting", "good", "none")
MOST_NAMED = 3  # failed children to show beneath a closed fold
LONGEST_TITLE = 30
LONGEST_NOTE = 44
TITLE_LETTER, NOTE_LETTER, BESIDE = 7.6, 6.6, 44  # pixels of a letter, and of glyph and edges


@dataclass(frozen=True)
class Node:
    """A step, or many runs folded into one (`counts`: word of a state → how many), which `opens` or closes."""

    x: int
    y: int
    title: str
    note: str
    badge: StatusBadge
    key: str = ""
    anchor: str = ""
    run_uuid: str = ""
    opens: str = ""  # the address that opens or closes the fold
    counts: tuple[tuple[str, int], ...] = ()
    width: int = NODE_WIDTH
    height: int = NODE_HEIGHT


@dataclass(frozen=True)
class Edge:
    """`kind`: order (done), ahead (planned), undo (compensation), hand (to a child run)."""

    path: str
    kind: str


@dataclass(frozen=True)
class GraphRow:
    name: str
    y: int
    x: int = GAP_X // 2


@dataclass(frozen=True)
class Graph:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    rows: tuple[GraphRow, ...]
    width: int
    height: int
    summary: str
    left_out: int = 0  # children that do not fit into an open fold


@dataclass
class _Canvas:
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    rows: list[GraphRow] = field(default_factory=list)
    bottom: int = 0

    @property
    def width(self) -> int:
        return max((node.x + node.width for node in self.nodes), default=NODE_WIDTH) + GAP_X


def draw(run: RunView, *, is_open: bool = False) -> Graph:
    """Lay out a run, and its children beneath: each in a row of its own, or all in one node if they are many.

    Beneath that node are the first failed children; in an open fold, as many as in the timeline.
    """
    canvas = _Canvas(bottom=4)
    last = _chain(canvas, run, "", 0)
    children = sorted(run.children, key=timeline.place_among_children)
    drawn = children
    if len(children) >= FOLD_FROM:
        _folded(canvas, children, last, is_open=is_open)
        failed = [child for child in children if status_badges.of_run(child).tone == "bad"]
        drawn = children[: timeline.MOST_CHILDREN] if is_open else failed[:MOST_NAMED]
        last = None  # handed to all of them at once
    for child in drawn:
        name = f"{child.instance_name or child.instance_uuid[:8]} in {child.cell}"
        before = len(canvas.nodes)
        _chain(canvas, child, name, GAP_X)
        if last is not None and len(canvas.nodes) > before:
            canvas.edges.append(_hand(last, canvas.nodes[before]))
    summary = _summary(canvas.nodes, children)
    return Graph(
        nodes=tuple(canvas.nodes),
        edges=tuple(canvas.edges),
        rows=tuple(canvas.rows),
        width=canvas.width,
        height=canvas.bottom + GAP_Y,
        summary=summary,
        left_out=len(children) - len(drawn) if is_open else 0,
    )


def _chain(canvas: _Canvas, run: RunView, name: str, indent: int) -> Node | None:
    """Lay out the attempts of a run, one per row; returns the last node of the last one."""
    attempts = sorted({step.attempt for step in run.steps}) or [1]
    last = None
    for attempt in attempts:
        steps = [step for step in run.steps if step.attempt == attempt]
        heading = " · ".join(
            filter(None, (name, gettext("attempt %(attempt)s") % {"attempt": attempt} if len(attempts) > 1 else ""))
        )
        y = canvas.bottom + HEAD
        canvas.rows.append(GraphRow(heading or gettext("Steps"), canvas.bottom + HEAD - 8, indent + GAP_X // 2))
        nodes = _nodes(run, steps, indent + GAP_X // 2, y)
        undone = _undone(steps)
        canvas.nodes += nodes
        canvas.edges += _order(nodes)
        canvas.edges += _back(nodes, undone)
        canvas.bottom = y + NODE_HEIGHT + (UNDO_DROP if undone else 0) + GAP_Y // 2
        last = nodes[-1] if nodes else last
    return last


def _newest(steps: Iterable[StepView]) -> list[StepView]:
    """Return the newest attempt of each forward step, in order."""
    newest: dict[int, StepView] = {}
    for step in steps:
        if step.direction == "do":
            newest[step.index] = step
    return [step for _, step in sorted(newest.items())]


def _nodes(run: RunView, steps: Sequence[StepView], left: int, y: int) -> list[Node]:
    undo_state = {step.index: step for step in steps if step.direction == "undo"}
    nodes: list[Node] = []
    for step in _newest(steps):
        undo = undo_state.get(step.index)
        badge = _badge(step, undo)
        lane = step.lane.partition("/")
        title, note = _short(gettext(step.title)), _note(lane[2] or gettext(lane[0]), step, badge)
        nodes.append(
            Node(
                x=nodes[-1].x + nodes[-1].width + GAP_X if nodes else left,
                y=y,
                title=title,
                note=note,
                badge=badge,
                width=_width(title, note),
                key=timeline.step_key(run, step),
                anchor=timeline.anchor_of(run, step),
                run_uuid=run.uuid,
            )
        )
    return nodes


def _badge(step: StepView, undo: StepView | None) -> StatusBadge:
    """Return a step's badge. A failed step keeps its badge after its compensation."""
    badge = status_badges.of_step(step)
    if undo is None:
        return badge
    undone = status_badges.of_step(undo)
    return (
        StatusBadge(badge.tone, f"{gettext(badge.word)}, {gettext(undone.word)}", is_loud=undone.is_loud)
        if badge.tone == "bad"
        else undone
    )


def _note(where: str, step: StepView, badge: StatusBadge) -> str:
    again = ", " + gettext("attempt %(number)s") % {"number": step.try_number} if step.try_number > 1 else ""
    return _short(f"{gettext(badge.word)}{again} · {where}", LONGEST_NOTE)


def _width(title: str, note: str) -> int:
    """Return the width for the text, which differs between languages."""
    return max(NODE_WIDTH, ceil(max(len(title) * TITLE_LETTER, len(note) * NOTE_LETTER)) + BESIDE)


def _short(text: str, longest: int = LONGEST_TITLE) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _undone(steps: Sequence[StepView]) -> list[int]:
    """Return the positions of steps whose compensation has begun, in the order of compensation."""
    return [step.index for step in steps if step.direction == "undo" and step.started_at is not None]


def _order(nodes: Sequence[Node]) -> list[Edge]:
    edges = []
    for one, other in pairwise(nodes):
        is_ahead = other.badge.word in (StepState.PLANNED, StepState.NOT_RUN)
        y = one.y + NODE_HEIGHT // 2
        edges.append(Edge(f"M{one.x + one.width} {y}H{other.x}", "ahead" if is_ahead else "order"))
    return edges


def _back(nodes: Sequence[Node], undone: Sequence[int]) -> list[Edge]:
    """Return the edges of the compensation: from the failed step, beneath the others, up to each compensated one."""
    if not undone or not nodes:
        return []
    by_index = {int(node.key.rpartition("-")[2]): node for node in nodes}
    here = [by_index[index] for index in dict.fromkeys(undone) if index in by_index]
    failed = [node for node in nodes if node.badge.tone in ("bad", "undo")]
    edges = []
    before = failed[-1] if failed else nodes[-1]
    for node in here:
        if node is before:
            continue
        deep = node.y + NODE_HEIGHT + UNDO_DROP - 8
        start, end = before.x + before.width // 2, node.x + node.width // 2
        edges.append(Edge(f"M{start} {before.y + NODE_HEIGHT}V{deep}H{end}V{node.y + NODE_HEIGHT + 5}", "undo"))
        before = node
    return edges


def _hand(last: Node, first: Node) -> Edge:
    """Return the edge from the end of a run, along the left, to the start of its child."""
    x, y = last.x + last.width, last.y + NODE_HEIGHT // 2
    down, left = last.y + NODE_HEIGHT + GAP_Y // 2, first.x - GAP_X // 2 - 6
    return Edge(f"M{x} {y}h10V{down}H{left}V{first.y + NODE_HEIGHT // 2}H{first.x}", "hand")


def _folded(canvas: _Canvas, children: Sequence[RunView], last: Node | None, *, is_open: bool) -> None:
    """Lay out many runs as one node, with the number in each state."""
    found = [status_badges.of_run(child) for child in children]
    counts = Counter(badge.word for badge in found).most_common()
    title = ngettext("%(count)s server", "%(count)s servers", len(children)) % {"count": whole(len(children))}
    note = _short(", ".join(f"{whole(number)} {gettext(word)}" for word, number in counts), LONGEST_NOTE)
    node = Node(
        x=GAP_X + GAP_X // 2,
        y=canvas.bottom + GAP_Y // 2,
        title=f"{title} {'▾' if is_open else '▸'}",
        note=note,
        badge=min(found, key=lambda badge: WORST_FIRST.index(badge.tone)),
        counts=tuple(counts),
        opens="?" if is_open else "?open=1",
        width=_width(title, note),
    )
    canvas.nodes.append(node)
    if last is not None:
        canvas.edges.append(_hand(last, node))
    canvas.bottom = node.y + NODE_HEIGHT + GAP_Y // 2


def _summary(nodes: Sequence[Node], children: Sequence[RunView]) -> str:
    counts = Counter(node.badge.word for node in nodes if node.key)
    listed = ", ".join(f"{count} {gettext(word)}" for word, count in counts.most_common()) or gettext("none yet")
    sentence = gettext("%(count)s steps: %(counts)s.") % {"count": sum(counts.values()), "counts": listed}
    if not children:
        return sentence
    handed = ngettext("Started %(count)s child workflow.", "Started %(count)s child workflows.", len(children))
    return f"{sentence} {handed % {'count': len(children)}}"
