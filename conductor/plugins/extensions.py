"""Makes the extensions that the operator named, or says what is wrong with a name or its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductor.core.errors import Invalid
from conductor.core.extensions import BY_KIND, Extension
from conductor.plugins.found import Registry
from conductor.plugins.options import nearest, require_options

FIELD = "NOVELLA_EXTENSIONS"


def require_kind(kind: str) -> None:
    if kind not in BY_KIND:
        raise Invalid(f"There is no kind {kind}. {nearest(kind, BY_KIND)}Kinds: {', '.join(BY_KIND)}.", field=FIELD)


def made(found: Registry, kind: str, name: str, options: Any) -> Extension:
    """The extension of that name with its options. Raises Invalid."""
    require_kind(kind)
    known, place = found.extensions.get(kind, {}), f"{FIELD}.{kind}.{name}"
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise Invalid(
            f"No plugin brings a {kind} {name}. {nearest(name, known)}Known: {names}.", field=f"{FIELD}.{kind}"
        )
    if not isinstance(options, Mapping):
        raise Invalid(f"The options of {name} are a mapping, not {type(options).__name__}.", field=place)
    try:
        extension = known[name]()
    except Exception as error:
        raise Invalid(f"The {kind} {name} cannot be made ({type(error).__name__}).", field=place) from error
    require_options(extension, options, place)
    return known[name](options)
