"""Renders Mermaid sequence diagrams as SVG, so that the documentation site needs no script.

It supports the part of Mermaid that the documentation uses: participants, messages, `autonumber`, and `opt` blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

PARTICIPANT = re.compile(r"(?:participant|actor) (\w+)(?: as (.+))?")
MESSAGE = re.compile(r"(\w+)\s*(-->>|->>|-\))\s*(\w+): (.+)")
LANE, ROW, MARGIN, LETTER = 150, 34, 16, 7


class UnknownLine(ValueError):
    """A line that is not in the supported part of Mermaid."""


@dataclass(frozen=True)
class Arrow:
    """One arrow; `is_answer` draws it dashed."""

    source: str
    target: str
    text: str
    is_answer: bool


@dataclass(frozen=True)
class Block:
    """Rows `first` to `last` under the condition `label`."""

    label: str
    first: int
    last: int


@dataclass
class Sequence:
    """A parsed diagram. Rows are messages and the labels of blocks, from top to bottom."""

    names: dict[str, str] = field(default_factory=dict)
    rows: list[Arrow | str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


def parse(text: str) -> Sequence:
    """Parse a diagram. Raises UnknownLine."""
    found, opened, number = Sequence(), [], None
    for line in filter(None, (line.strip() for line in text.splitlines())):
        if line == "sequenceDiagram":
            continue
        if line == "autonumber":
            number = 0
        elif participant := PARTICIPANT.fullmatch(line):
            found.names[participant[1]] = participant[2] or participant[1]
        elif message := MESSAGE.fullmatch(line):
            number = None if number is None else number + 1
            label = message[4] if number is None else f"{number}. {message[4]}"
            found.rows.append(Arrow(message[1], message[3], label, message[2] == "-->>"))
        elif line.startswith("opt "):
            opened.append(len(found.rows))
            found.rows.append(line.removeprefix("opt "))
        elif line == "end" and opened:
            first = opened.pop()
            found.blocks.append(Block(str(found.rows[first]), first, len(found.rows) - 1))
        else:
            raise UnknownLine(line)
    return found


def render(text: str) -> str:
    """Return the diagram as an SVG element, with its messages as the description for screen readers."""
    diagram = parse(text)
    columns = {name: MARGIN + LANE // 2 + LANE * index for index, name in enumerate(diagram.names)}
    right = max((_right(row, columns) for row in diagram.rows if isinstance(row, Arrow)), default=0)
    width = max(MARGIN * 2 + LANE * len(columns), right + MARGIN)
    height = ROW * (len(diagram.rows) + 2)
    body = [*_lifelines(diagram, columns, height), *_blocks(diagram, width), *_messages(diagram, columns)]
    description = "; ".join(row.text if isinstance(row, Arrow) else row for row in diagram.rows)
    head = f'<svg class="sequence" role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f"{head}><title>{escape(description)}</title>{''.join(body)}</svg>"


def _y(row: int) -> int:
    return ROW * (row + 2)


def _right(row: Arrow, columns: dict[str, int]) -> int:
    start = columns[row.source] + 30 if row.source == row.target else min(columns[row.source], columns[row.target]) + 8
    return start + LETTER * len(row.text)


def _lifelines(diagram: Sequence, columns: dict[str, int], height: int) -> Iterator[str]:
    for name, x in columns.items():
        yield f'<line x1="{x}" y1="{ROW}" x2="{x}" y2="{height - 8}" class="lane"/>'
        yield f'<text x="{x}" y="{ROW - 12}" text-anchor="middle" class="name">{escape(diagram.names[name])}</text>'


def _blocks(diagram: Sequence, width: int) -> Iterator[str]:
    for block in diagram.blocks:
        top, bottom = _y(block.first) - 20, _y(block.last) + 14
        yield f'<rect x="4" y="{top}" width="{width - 8}" height="{bottom - top}" rx="4" class="block"/>'
        yield f'<text x="12" y="{top + 16}" class="condition">if {escape(block.label)}</text>'


def _messages(diagram: Sequence, columns: dict[str, int]) -> Iterator[str]:
    for number, row in enumerate(diagram.rows):
        if isinstance(row, str):
            continue
        y, start, end = _y(number), columns[row.source], columns[row.target]
        kind = "answer" if row.is_answer else "message"
        if start == end:
            yield f'<path d="M{start} {y - 10} h22 v12 h-16" class="{kind}"/>'
            yield f'<path d="M{start + 10} {y - 2} l-8 4 l8 4" class="head"/>'
            yield f'<text x="{start + 30}" y="{y}">{escape(row.text)}</text>'
            continue
        back = 8 if end < start else -8
        yield f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" class="{kind}"/>'
        yield f'<path d="M{end + back} {y - 4} L{end} {y} l{back} 4" class="head"/>'
        yield f'<text x="{min(start, end) + 8}" y="{y - 6}">{escape(row.text)}</text>'
