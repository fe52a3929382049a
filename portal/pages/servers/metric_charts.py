"""Charts of a server's last hours, from its host's samples every few minutes, rendered as SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils.translation import gettext

from conductor.services.servers.guest_metrics import GuestRate, GuestSample, rates
from portal.pages.amounts import decimal, megabytes, size

WIDTH, HEIGHT = 300, 60
LINES = ("line-moved", "line-dirtied")


@dataclass(frozen=True)
class ChartLine:
    """A line in pieces, with gaps where there are no samples."""

    css: str
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class MetricChart:
    """A metric over time: `top` is the value of its upper edge."""

    id: str
    title: str
    top: str
    lines: tuple[ChartLine, ...]
    mean: str
    most: str


@dataclass(frozen=True)
class History:
    """Charts of one span of time."""

    begin: datetime
    end: datetime
    charts: tuple[MetricChart, ...]


@dataclass(frozen=True)
class _Figure:
    id: str
    title: str
    names: tuple[str, ...]
    words: Callable[[float], str]
    top: float = 0.0  # 0: the highest value


def history(found: Sequence[GuestSample], vcpus: int, memory_mb: int) -> History | None:
    """Return the charts; None before two consecutive samples."""
    known = rates(found)
    if not known:
        return None
    charts = tuple(chart for figure in _figures(vcpus, memory_mb) if (chart := _chart(figure, known)) is not None)
    return History(_moment(known[0].begin), _moment(known[-1].end), charts) if charts else None


def _figures(vcpus: int, memory_mb: int) -> tuple[_Figure, ...]:
    def share(seconds: float) -> str:
        return f"{decimal(min(100.0, 100 * seconds / max(1, vcpus)))} %"

    def per_second(amount: float) -> str:
        return f"{size(amount)}/s"

    return (
        _Figure("cpu", gettext("Processors"), ("cpu_seconds",), share, float(max(1, vcpus))),
        _Figure("memory", gettext("Memory"), ("memory_mb",), megabytes, float(memory_mb)),
        _Figure("disk", gettext("Disks"), ("read_bytes", "written_bytes"), per_second),
        _Figure("network", gettext("Network"), ("received_bytes", "sent_bytes"), per_second),
    )


def _chart(figure: _Figure, known: Sequence[GuestRate]) -> MetricChart | None:
    shown = [rate for rate in known if any(name in rate.figures for name in figure.names)]
    if not shown:
        return None
    most = {name: max(rate.figures.get(name, 0.0) for rate in shown) for name in figure.names}
    mean = {name: sum(rate.figures.get(name, 0.0) for rate in shown) / len(shown) for name in figure.names}
    top = max(figure.top, *most.values()) or 1.0
    begin, end = known[0].begin, known[-1].end

    def point(at: float, value: float) -> str:
        x = WIDTH * (at - begin) / (end - begin)
        return f"{x:.1f},{(1 - value / top) * (HEIGHT - 2) + 1:.1f}"

    lines = tuple(
        ChartLine(css, tuple(" ".join(piece) for piece in _pieces(shown, name, point)))
        for css, name in zip(LINES, figure.names, strict=False)
    )
    return MetricChart(
        figure.id, figure.title, figure.words(top), lines, _summary(figure, mean), _summary(figure, most)
    )


def _pieces(shown: Sequence[GuestRate], name: str, point: Callable[[float, float], str]) -> list[list[str]]:
    """Return the pieces of a line: level from begin to end of each rate, with gaps where nothing is known."""
    pieces: list[list[str]] = []
    until = None
    for rate in shown:
        if name not in rate.figures:
            continue
        if rate.begin != until:
            pieces.append([])
        value = rate.figures[name]
        pieces[-1] += [point(rate.begin, value), point(rate.end, value)]
        until = rate.end
    return pieces


def _summary(figure: _Figure, amounts: Mapping[str, float]) -> str:
    return " / ".join(figure.words(amounts[name]) for name in figure.names)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
