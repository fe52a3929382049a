"""The colours of states: distinct with any colour vision, and with enough contrast."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from itertools import combinations
from pathlib import Path

import pytest

from portal.environment import Environment

TOKENS = Path(__file__).parents[2] / "portal" / "static" / "novella" / "css" / "tokens.css"
TONES = ("working", "good", "waiting", "bad", "undo", "none")
SCHEMES = ("light", "dark")
LEAST_DISTANCE = 15.0
LEAST_CONTRAST_OF_SHAPES = 3.0
LEAST_CONTRAST_OF_TEXT = 4.5

Rgb = tuple[float, float, float]

# How eyes that lack one kind of cone see linear RGB: Machado, Oliveira and Fernandes 2009, severity 1.0.
VISIONS: dict[str, tuple[Rgb, Rgb, Rgb]] = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def tokens(scheme: str) -> dict[str, Rgb]:
    """Return every colour token of a scheme as sRGB shares."""
    found = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", TOKENS.read_text())
    return {name: rgb(light if scheme == "light" else dark) for name, light, dark in found}


def rgb(text: str) -> Rgb:
    return tuple(int(text[place : place + 2], 16) / 255 for place in (1, 3, 5))  # type: ignore[return-value]


def linear(colour: Rgb) -> Rgb:
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)  # type: ignore[return-value]


def seen(colour: Rgb, vision: str) -> Rgb:
    """Linear RGB as an eye sees it."""
    source = linear(colour)
    mixed = (sum(row[i] * source[i] for i in range(3)) for row in VISIONS[vision])
    return tuple(min(max(value, 0.0), 1.0) for value in mixed)  # type: ignore[return-value]


def lab(colour: Rgb) -> Rgb:
    """CIE L*a*b* under D65 of a linear RGB colour."""
    red, green, blue = colour
    xyz = (
        (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047,
        0.2126729 * red + 0.7151522 * green + 0.0721750 * blue,
        (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883,
    )
    x, y, z = (c ** (1 / 3) if c > 216 / 24389 else (24389 / 27 * c + 16) / 116 for c in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(first: Rgb, second: Rgb) -> float:
    """CIEDE2000 between two L*a*b* colours."""
    (l1, a1, b1), (l2, a2, b2) = first, second
    mean_c7 = ((math.hypot(a1, b1) + math.hypot(a2, b2)) / 2) ** 7
    g = 0.5 * (1 - math.sqrt(mean_c7 / (mean_c7 + 25**7)))
    c1, c2 = math.hypot((1 + g) * a1, b1), math.hypot((1 + g) * a2, b2)
    h1, h2 = (math.degrees(math.atan2(b, (1 + g) * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    delta_h, mean_h = _hues(h1, h2, is_grey=c1 * c2 == 0)
    mean_l, mean_c = (l1 + l2) / 2, (c1 + c2) / 2
    big_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(delta_h / 2))
    t = (
        1
        - 0.17 * _cos(mean_h - 30)
        + 0.24 * _cos(2 * mean_h)
        + 0.32 * _cos(3 * mean_h + 6)
        - 0.2 * _cos(4 * mean_h - 63)
    )
    s_l = 1 + 0.015 * (mean_l - 50) ** 2 / math.sqrt(20 + (mean_l - 50) ** 2)
    s_c, s_h = 1 + 0.045 * mean_c, 1 + 0.015 * mean_c * t
    turn = 60 * math.exp(-(((mean_h - 275) / 25) ** 2))
    r_t = -2 * math.sqrt(mean_c**7 / (mean_c**7 + 25**7)) * math.sin(math.radians(turn))
    parts = ((l2 - l1) / s_l, (c2 - c1) / s_c, big_h / s_h)
    return math.sqrt(sum(part**2 for part in parts) + r_t * parts[1] * parts[2])


def _hues(h1: float, h2: float, *, is_grey: bool) -> tuple[float, float]:
    """Return the turn from one hue to the other, and the hue between them, in degrees."""
    if is_grey:
        return 0.0, h1 + h2
    turn = (h2 - h1 + 180) % 360 - 180
    between = (h1 + h2) / 2 if abs(h1 - h2) <= 180 else (h1 + h2 + 360) / 2 % 360
    return turn, between


def _cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))


def contrast(first: Rgb, second: Rgb) -> float:
    """Return the contrast as WCAG defines it."""
    bright, dim = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: Rgb) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_measure_itself_agrees_with_published_pairs(first: Rgb, second: Rgb, wanted: float) -> None:
    assert distance(first, second) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_states_are_distinct_for_every_colour_vision(scheme: str, vision: str) -> None:
    colours = tokens(scheme)
    close = {
        (one, other): round(found, 1)
        for one, other in combinations(TONES, 2)
        if (found := distance(*(lab(seen(colours[f"tone-{tone}"], vision)) for tone in (one, other)))) < LEAST_DISTANCE
    }
    assert close == {}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_states_and_edges_of_controls_stand_out(scheme: str) -> None:
    colours = tokens(scheme)
    shapes = [*(f"tone-{tone}" for tone in TONES), "line-strong", "accent"]
    weak = {
        name: round(found, 2)
        for name in shapes
        if (found := contrast(colours[name], colours["surface"])) < LEAST_CONTRAST_OF_SHAPES
    }
    assert weak == {}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_can_be_read_on_every_ground(scheme: str) -> None:
    colours = tokens(scheme)
    weak = {
        (text, ground): round(found, 2)
        for text in ("text", "text-soft", "text-faint", "accent")
        for ground in ("page", "surface", "raised", "sunken", "hover", "picked")
        if (found := contrast(colours[text], colours[ground])) < LEAST_CONTRAST_OF_TEXT
    }
    assert weak == {}
    assert contrast(colours["on-accent"], colours["accent"]) >= LEAST_CONTRAST_OF_TEXT


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_words_of_the_band_can_be_read(scheme: str) -> None:
    colours = tokens(scheme)
    bands = {name: contrast(colours["on-band"], found) for name, found in colours.items() if name.startswith("band-")}
    choices = next(item for item in fields(Environment) if item.name == "band_colour").metadata["parse"]
    assert len(bands) == 6
    assert [choices(name.removeprefix("band-")) for name in bands] == [name.removeprefix("band-") for name in bands]
    assert {name: found for name, found in bands.items() if found < LEAST_CONTRAST_OF_TEXT} == {}
