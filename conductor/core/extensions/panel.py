"""Panels: a card of a plugin's own on the page of a server or a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from conductor.core.extensions.base import Extension

SERVER, HOST = "server", "host"
PLACES = (SERVER, HOST)


@dataclass(frozen=True)
class Shown:
    """What the page is about: uuid and name of a server, or a host's name twice; `facts` is what the page shows too."""

    place: str
    ident: str
    name: str
    project_id: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PanelData:
    """Pairs of a label and a value, and a table beneath; all of it is text, whatever is in it."""

    pairs: Sequence[tuple[str, str]] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""


class Panel(Extension):
    """Data for a card; the page is drawn by the portal. One that fails shows a card that says so."""

    kind: ClassVar[str] = "panel"
    method: ClassVar[str] = "show"
    title: ClassVar[str] = ""
    place: ClassVar[str] = SERVER
    for_operators: ClassVar[bool] = False

    def show(self, subject: Shown) -> PanelData | None:
        """What the card holds; None for no card."""
        raise NotImplementedError
