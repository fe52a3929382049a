"""Drawing of the fleet as squares: colour shows one measure, shape and edge show the state.

Large fleets have no links.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext, ngettext

from conductor.services.fleet import fleet
from conductor.services.fleet.fleet import FleetHost
from portal.pages.amounts import whole
from portal.pages.status_badges import StatusBadge
from portal.pages.wording import inside

LEVELS = 10
# Texts of an overlay's counts, by its unit.
COUNTED = {"servers": ("%(count)s server", "%(count)s servers"), "more": ("%(count)s more", "%(count)s more")}
MOST_TILES = 60  # with at most so many hosts, names are shown
MOST_LINKED = 1500  # more squares than these are drawn as a few paths, because so many links slow a browser down
MOST_DRAWN = 10_000  # more hosts than these are shown only as totals
MOST_NUMBERED = 400
GAP = 2
WIDEST = 640


@dataclass(frozen=True)
class Measure:
    """A measure for the colour. `full` returns the end of the scale for the hosts that are shown."""

    id: str
    title: str
    value: Callable[[FleetHost], float]
    words: Callable[[float], str]
    full: Callable[[Sequence[FleetHost]], float]


def _percent(value: float) -> str:
    return f"{whole(100 * value)} %"


def _count(value: float) -> str:
    return whole(value)


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value < 600 else f"{value / 60:.0f} min" if value < 36_000 else f"{value / 3600:.0f} h"


def _most(value: Callable[[FleetHost], float], least: float) -> Callable[[Sequence[FleetHost]], float]:
    return lambda hosts: max([least, *map(value, hosts)])


def _guests(host: FleetHost) -> float:
    return host.guests


def _failures(host: FleetHost) -> float:
    return host.failed_builds


def _age(host: FleetHost) -> float:
    return host.age_seconds or 0.0


MEASURES: Mapping[str, Measure] = {
    one.id: one
    for one in (
        Measure("memory", "Memory used", lambda host: host.memory_mb.share, _percent, lambda hosts: 1.0),
        Measure("cpu", "vCPUs used", lambda host: host.vcpus.share, _percent, lambda hosts: 1.0),
        Measure("disk", "Disk used", lambda host: host.disk_gb.share, _percent, lambda hosts: 1.0),
        Measure("servers", "Running servers", _guests, _count, _most(_guests, 1.0)),
        Measure("failures", "Consecutive build failures", _failures, _count, _most(_failures, 1.0)),
        Measure("age", "Age of the newest report", _age, _seconds, _most(_age, 60.0)),
    )
}

BADGES: Mapping[str, StatusBadge] = {
    fleet.UP: StatusBadge("good", "up"),
    fleet.DRAINING: StatusBadge("waiting", "draining"),
    fleet.CLOSED: StatusBadge("waiting", "closed"),
    fleet.DOWN: StatusBadge("bad", "down"),
    fleet.UNKNOWN: StatusBadge("none", "unknown"),
}


@dataclass(frozen=True)
class Square:
    """A host in the drawing. `shape` is a path; `number` is inside where there is room."""

    host: FleetHost
    shape: str
    style: str
    words: str
    number: str = ""
    x: float = 0
    y: float = 0
    badge: StatusBadge = BADGES[fleet.UP]


@dataclass(frozen=True)
class FleetDrawing:
    """Hosts in a grid: as squares with links, or in large fleets as one path for all that look alike.

    In large fleets `names` gives the host at each position: `columns` per row, `pitch` apart, a ~ before a dimmed host.
    """

    width: int
    height: int
    columns: int
    pitch: int
    squares: list[Square] = field(default_factory=list)
    paths: list[tuple[str, str]] = field(default_factory=list)  # style, path
    names: str = ""


@dataclass(frozen=True)
class DrawingStyle:
    """Style of the drawing of hosts: measure, size, and highlighted hosts."""

    measure: Measure
    full: float
    size: int
    is_near: bool
    lit: frozenset[str] | None = None  # None: all of them
    counts: Mapping[str, int] = field(default_factory=dict)
    unit: str = ""

    def style(self, host: FleetHost) -> str:
        """Return CSS classes: the level of the measure, the state, and whether it is dimmed."""
        level = "none" if host.state == fleet.UNKNOWN else str(self.level(host))
        return f"sq heat-{level} is-{host.state}{'' if self.is_lit(host) else ' dim'}"

    def is_lit(self, host: FleetHost) -> bool:
        return self.lit is None or host.name in self.lit

    def level(self, host: FleetHost) -> int:
        return max(0, min(LEVELS - 1, int(LEVELS * self.measure.value(host) / self.full)))

    def number(self, host: FleetHost) -> str:
        """Return the number in a square: the overlay's count, or the measure."""
        if self.counts:
            return str(self.counts.get(host.name, ""))
        value = self.measure.value(host)
        return f"{100 * value:.0f}" if self.measure.words is _percent else self.measure.words(value)

    def words(self, host: FleetHost) -> str:
        """Return the text of a square, for screen readers."""
        found = [gettext(BADGES[host.state].word)]
        if host.state != fleet.UNKNOWN:
            found.append(f"{inside(gettext(self.measure.title))} {self.measure.words(self.measure.value(host))}")
        if self.unit:
            count = self.counts.get(host.name, 0)
            found.append(ngettext(*COUNTED[self.unit], count) % {"count": count})
        return f"{host.name}: {', '.join(found)}"


def drawing_style_for(hosts: Sequence[FleetHost], measure: Measure) -> DrawingStyle:
    """Return the drawing style for so many hosts."""
    count = len(hosts)
    size = 28 if count <= MOST_NUMBERED else 16 if count <= MOST_LINKED else 8
    return DrawingStyle(measure, measure.full(hosts), size, is_near=count <= MOST_LINKED)


def drawing(hosts: Sequence[FleetHost], drawing_style: DrawingStyle) -> FleetDrawing:
    """Return the drawing of the hosts in rows, wider than high."""
    pitch = drawing_style.size + GAP
    columns = max(1, min(math.ceil(math.sqrt(len(hosts) * 2.2)), WIDEST // pitch))
    rows = math.ceil(len(hosts) / columns)
    places = [(index % columns * pitch + 1, index // columns * pitch + 1) for index in range(len(hosts))]
    width, height = columns * pitch + 1, rows * pitch + 1
    if drawing_style.is_near:
        squares = [square(host, drawing_style, x, y) for host, (x, y) in zip(hosts, places, strict=True)]
        return FleetDrawing(width, height, columns, pitch, squares=squares)
    paths: dict[str, list[str]] = {}
    for host, (x, y) in zip(hosts, places, strict=True):
        paths.setdefault(drawing_style.style(host), []).append(shape(host.state, x, y, drawing_style.size))
    names = " ".join(host.name if drawing_style.is_lit(host) else f"~{host.name}" for host in hosts)
    drawn = [(style, "".join(parts)) for style, parts in sorted(paths.items())]
    return FleetDrawing(width, height, columns, pitch, paths=drawn, names=names)


def square(host: FleetHost, drawing_style: DrawingStyle, x: float = 1, y: float = 1) -> Square:
    """Return the square of a host; its number only where it is legible."""
    middle = drawing_style.size / 2
    return Square(
        host=host,
        shape=shape(host.state, x, y, drawing_style.size),
        style=drawing_style.style(host),
        words=drawing_style.words(host),
        number=drawing_style.number(host) if drawing_style.size >= 28 and host.state != fleet.UNKNOWN else "",
        x=x + middle,
        y=y + middle + 4,
        badge=BADGES[host.state],
    )


def shape(state: str, x: float, y: float, size: float) -> str:
    """Return the path: a square; with a cut corner if closed or draining, a diamond if down, hollow if unknown."""
    half, cut = size / 2, size / 3
    if state == fleet.DOWN:
        return f"M{x + half:g} {y:g}l{half:g} {half:g}l{-half:g} {half:g}l{-half:g} {-half:g}z"
    if state in (fleet.CLOSED, fleet.DRAINING):
        return f"M{x:g} {y:g}h{size - cut:g}l{cut:g} {cut:g}v{size - cut:g}h{-size:g}z"
    return f"M{x:g} {y:g}h{size:g}v{size:g}h{-size:g}z"
