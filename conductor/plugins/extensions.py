"""Makes the extensions that the operator named, or says what is wrong with a name or its options."""

from __future__ import annotations

from typing import Any

from conductor.core.errors import Invalid
from conductor.core.extensions import BY_KIND, Extension
from conductor.plugins.found import Registry
from conductor.plugins.options import nearest, plugin_of

FIELD = "NOVELLA_EXTENSIONS"


class ExtensionFailed(Exception):
    """An extension gave no answer that can be used. The text may be shown to operators: of foreign errors the kind."""


def require_kind(kind: str) -> None:
    if kind not in BY_KIND:
        raise Invalid(f"There is no kind {kind}. {nearest(kind, BY_KIND)}Kinds: {', '.join(BY_KIND)}.", field=FIELD)


def made(found: Registry, kind: str, name: str, options: Any) -> Extension:
    """The extension of that name with its options. Raises Invalid."""
    require_kind(kind)
    extension: Extension = plugin_of(found.extensions.get(kind, {}), kind, name, options, f"{FIELD}.{kind}")
    return extension
