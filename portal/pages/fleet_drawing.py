"""The fleet as squares: colour is one measure on one ramp, shape and edge are the state. Far away without links."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from conductor.services import fleet
from conductor.services.fleet import FleetHost
from portal.pages.amounts import whole
from portal.pages.faces import Face

LEVELS = 10
MOST_TILES = 60  # so many hosts have their names beside them
MOST_LINKED = 1500  # more squares than these are drawn as a few paths: a browser would stumble over so many links
MOST_DRAWN = 10_000  # more hosts than these are told as totals only
MOST_NUMBERED = 400
GAP = 2
WIDEST = 640


@dataclass(frozen=True)
class Measure:
    """What colour may stand for. `full` is where the ramp ends, given the hosts that are shown."""

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
        Measure("memory", "Memory taken", lambda host: host.memory_mb.share, _percent, lambda hosts: 1.0),
        Measure("cpu", "vCPUs taken", lambda host: host.vcpus.share, _percent, lambda hosts: 1.0),
        Measure("disk", "Disk taken", lambda host: host.disk_gb.share, _percent, lambda hosts: 1.0),
        Measure("servers", "Running servers", _guests, _count, _most(_guests, 1.0)),
        Measure("failures", "Failed builds in a row", _failures, _count, _most(_failures, 1.0)),
        Measure("age", "Age of the newest report", _age, _seconds, _most(_age, 60.0)),
    )
}

FACES: Mapping[str, Face] = {
    fleet.UP: Face("good", "up"),
    fleet.DRAINING: Face("waiting", "being emptied"),
    fleet.CLOSED: Face("waiting", "closed"),
    fleet.DOWN: Face("bad", "down"),
    fleet.UNKNOWN: Face("none", "unknown"),
}


@dataclass(frozen=True)
class Square:
    """One host in a picture. `shape` is a path; `number` stands in it where there is room."""

    host: FleetHost
    shape: str
    style: str
    words: str
    number: str = ""
    x: float = 0
    y: float = 0
    face: Face = FACES[fleet.UP]


@dataclass(frozen=True)
class Picture:
    """Hosts side by side: as squares with links, or from far away as one path for all that look alike.

    From far away `names` says who stands where: `columns` beside each other, `pitch` apart, a ~ before who stands back.
    """

    width: int
    height: int
    columns: int
    pitch: int
    squares: list[Square] = field(default_factory=list)
    paths: list[tuple[str, str]] = field(default_factory=list)  # style, path
    names: str = ""


@dataclass(frozen=True)
class Pen:
    """How hosts are drawn: by which measure, how large, and which of them stand out."""

    measure: Measure
    full: float
    size: int
    is_near: bool
    lit: frozenset[str] | None = None  # None: all of them
    counts: Mapping[str, int] = field(default_factory=dict)
    unit: str = ""

    def style(self, host: FleetHost) -> str:
        """Classes: the step on the ramp, the state, and whether it stands back."""
        level = "none" if host.state == fleet.UNKNOWN else str(self.level(host))
        return f"sq heat-{level} is-{host.state}{'' if self.is_lit(host) else ' dim'}"

    def is_lit(self, host: FleetHost) -> bool:
        return self.lit is None or host.name in self.lit

    def level(self, host: FleetHost) -> int:
        return max(0, min(LEVELS - 1, int(LEVELS * self.measure.value(host) / self.full)))

    def number(self, host: FleetHost) -> str:
        """What stands in a square: how many the overlay counts there, or the measure."""
        if self.counts:
            return str(self.counts.get(host.name, ""))
        value = self.measure.value(host)
        return f"{100 * value:.0f}" if self.measure.words is _percent else self.measure.words(value)

    def words(self, host: FleetHost) -> str:
        """All that a square says, for those who do not see it."""
        found = f"{host.name}: {FACES[host.state].word}"
        if host.state != fleet.UNKNOWN:
            found += f", {self.measure.title.lower()} {self.measure.words(self.measure.value(host))}"
        return f"{found}, {self.counts.get(host.name, 0)} {self.unit}" if self.unit else found


def pen_for(hosts: Sequence[FleetHost], measure: Measure) -> Pen:
    """The pen that fits so many hosts."""
    count = len(hosts)
    size = 28 if count <= MOST_NUMBERED else 16 if count <= MOST_LINKED else 8
    return Pen(measure, measure.full(hosts), size, is_near=count <= MOST_LINKED)


def picture(hosts: Sequence[FleetHost], pen: Pen) -> Picture:
    """These hosts in rows, wider than high."""
    pitch = pen.size + GAP
    columns = max(1, min(math.ceil(math.sqrt(len(hosts) * 2.2)), WIDEST // pitch))
    rows = math.ceil(len(hosts) / columns)
    places = [(index % columns * pitch + 1, index // columns * pitch + 1) for index in range(len(hosts))]
    width, height = columns * pitch + 1, rows * pitch + 1
    if pen.is_near:
        squares = [square(host, pen, x, y) for host, (x, y) in zip(hosts, places, strict=True)]
        return Picture(width, height, columns, pitch, squares=squares)
    paths: dict[str, list[str]] = {}
    for host, (x, y) in zip(hosts, places, strict=True):
        paths.setdefault(pen.style(host), []).append(shape(host.state, x, y, pen.size))
    names = " ".join(host.name if pen.is_lit(host) else f"~{host.name}" for host in hosts)
    drawn = [(style, "".join(parts)) for style, parts in sorted(paths.items())]
    return Picture(width, height, columns, pitch, paths=drawn, names=names)


def square(host: FleetHost, pen: Pen, x: float = 1, y: float = 1) -> Square:
    """One host; its number only where it can be read."""
    middle = pen.size / 2
    return Square(
        host=host,
        shape=shape(host.state, x, y, pen.size),
        style=pen.style(host),
        words=pen.words(host),
        number=pen.number(host) if pen.size >= 28 and host.state != fleet.UNKNOWN else "",
        x=x + middle,
        y=y + middle + 4,
        face=FACES[host.state],
    )


def shape(state: str, x: float, y: float, size: float) -> str:
    """A square; with a cut corner while it is closed or emptied, on its tip when it is down, empty when unknown."""
    half, cut = size / 2, size / 3
    if state == fleet.DOWN:
        return f"M{x + half:g} {y:g}l{half:g} {half:g}l{-half:g} {half:g}l{-half:g} {-half:g}z"
    if state in (fleet.CLOSED, fleet.DRAINING):
        return f"M{x:g} {y:g}h{size - cut:g}l{cut:g} {cut:g}v{size - cut:g}h{-size:g}z"
    return f"M{x:g} {y:g}h{size:g}v{size:g}h{-size:g}z"
