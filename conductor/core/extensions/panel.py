"""Panels: a plugin's own card on the page of a server or a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from conductor.core.extensions.base import Extension

SERVER, HOST = "server", "host"
PLACES = (SERVER, HOST)


@dataclass(frozen=True)
class Shown:
    """Subject of the page: uuid and name of a server, or a host's name twice; `facts` holds what the page shows too."""

    place: str
    ident: str
    name: str
    project_id: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PanelData:
    """Pairs of a label and a value, and a table beneath; all of it is shown as text."""

    pairs: Sequence[tuple[str, str]] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""


class Panel(Extension):
    """Data for a card; the portal draws it. When it fails, the card says so."""

    kind: ClassVar[str] = "panel"
    method: ClassVar[str] = "show"
    title: ClassVar[str] = ""
    place: ClassVar[str] = SERVER
    for_operators: ClassVar[bool] = False

    def show(self, subject: Shown) -> PanelData | None:
        """Return the content of the card; None for no card."""
        raise NotImplementedError
